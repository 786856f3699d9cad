# SPDX-License-Identifier: MIT OR Apache-2.0
"""The type of a built program."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swapstone.core.factors import ProgramFacts


class Built(msgspec.Struct, frozen=True):
    """A built program.

    Attributes:
        path: of the program in the cache. All paths have the same length.
        sha256: digest of the file.
        command: of the build, without folders.
        sources: pairs (file name, SHA-256).
        sizes: pairs (name, bytes) of the stripped program, see `swapstone.core.artifacts.program_size.sizes_of`.
        facts: properties of the file before it was stripped; None if it can't be read.
        folder: the copy of the sources in which an own program was built; else None.
        beside: files in the program's folder that it loads or starts at run time.
    """

    path: Path
    sha256: str
    command: str
    sources: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    facts: ProgramFacts | None = None
    folder: Path | None = None
    beside: tuple[Path, ...] = ()
