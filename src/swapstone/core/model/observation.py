# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that the agent reads at the end of a measured process because a factor needs them."""

from __future__ import annotations

import enum

from swapstone.core.model.frozen_struct import FrozenStruct

EMULATED = "emulated by QEMU"
"""As `TargetDescription.virtualization`: of a machine whose durations are those of an emulator."""


class ObservationKind(enum.Enum):
    """Where a value is read (docs/wire.md, section 1)."""

    ENV = "env"
    PROC = "proc"
    CGROUP = "cgroup"
    FILE = "file"


class Observation(FrozenStruct, frozen=True, kw_only=True):
    """A value to read.

    Attributes:
        kind: where.
        name: of an environment variable; of a file of ``/proc/PID`` or of the process's cgroup; or an absolute path.
    """

    kind: ObservationKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


def environment_variable(name: str) -> Observation:
    """Return the observation of an environment variable, as the program was started."""
    return Observation(kind=ObservationKind.ENV, name=name)


def process_file(name: str) -> Observation:
    """Return the observation of a file of ``/proc/PID``, e.g. ``limits``, ``cgroup`` or ``mountinfo``."""
    return Observation(kind=ObservationKind.PROC, name=name)


def cgroup_file(name: str) -> Observation:
    """Return the observation of a file of the process's cgroup (version 2), e.g. ``memory.max``."""
    return Observation(kind=ObservationKind.CGROUP, name=name)


def system_file(path: str) -> Observation:
    """Return the observation of a file by its absolute path, e.g. ``/proc/sys/vm/swappiness``."""
    return Observation(kind=ObservationKind.FILE, name=path)
