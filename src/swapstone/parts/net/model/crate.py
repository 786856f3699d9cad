# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the works of this part come from."""

from __future__ import annotations

from swapstone.core.model import PartOrigin


class Crate(PartOrigin, frozen=True, kw_only=True):
    """A program of a Rust crate under ``crates/``. Cargo builds it for this machine only; its trials need root.

    Attributes:
        package: name of the crate.
        feature: the cargo feature that it is built with besides the defaults; empty for none.
        commands: that the program starts.
    """

    part: str = "net"
    subject: str = "swapstone.parts.net.subjects.crate:CrateProgram"
    package: str
    feature: str = ""
    commands: tuple[str, ...] = ()
