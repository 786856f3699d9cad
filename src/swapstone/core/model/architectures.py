# SPDX-License-Identifier: MIT OR Apache-2.0
"""The architectures that experiments name, of the machines on which programs run."""

from __future__ import annotations

import os

from swapstone.core.model.errors import find_named
from swapstone.core.model.frozen_struct import FrozenStruct


class Architecture(FrozenStruct, frozen=True, kw_only=True):
    """An architecture.

    Attributes:
        name: on the command line.
        debian: in packages.
        machine: as printed by ``uname -m`` on a 64-bit kernel or given by the ELF header; see `read_kernel`.
        suite: release of Debian that has its packages, at the mirrors of this machine's sources; empty for the releases that these name.
    """

    name: str
    debian: str
    machine: str
    suite: str = ""


X86_64 = Architecture(name="x86_64", debian="amd64", machine="x86_64")
ARM64 = Architecture(name="arm64", debian="arm64", machine="aarch64")
ARMHF = Architecture(name="armhf", debian="armhf", machine="arm")
RISCV64 = Architecture(name="riscv64", debian="riscv64", machine="riscv64", suite="trixie")
ARCHITECTURES = (X86_64, ARM64, ARMHF, RISCV64)


def find_architecture(name: str) -> Architecture:
    """Return an architecture by name.

    Raises:
        UserError: there is no such architecture.
    """
    return find_named("architecture", name, {each.name: each for each in ARCHITECTURES})


def machine_of(name: str) -> str:
    """Return the name of an architecture as ``uname -m`` prints it; of this machine's for an empty name.

    Raises:
        UserError: there is no such architecture.
    """
    return find_architecture(name).machine if name else os.uname().machine


def suite_of(debian: str) -> str:
    """Return the release that has an architecture's packages if it is not that of this machine's sources, by its Debian name."""
    return next((architecture.suite for architecture in ARCHITECTURES if architecture.debian == debian), "")
