# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that the agent reads at the end of a measured process because a factor needs them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from swapstone.core.model.frozen_struct import FrozenStruct

UNCOUNTED, NO_CGROUP, LATER_RUN = "uncounted", 1, 2
"""Fact of a run with several processes that no cgroup counted together, and its values: none can be made, or it was no first run."""

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


INHERITED = {
    "agent_cpus": "the number of processors",
    "agent_cpu_bits": "the set of processors",
    "agent_nice": "the nice value",
    "agent_policy": "the scheduling policy",
    "agent_limits_crc": "the resource limits",
    "cpu_quota_milli": "the CPU quota of the cgroup",
    "governor_crc": "the frequency governor",
}
"""Facts that every trial has in common, with their names; in the order of the bits of the fact ``changed_conditions``."""

_NUMBERS = ("agent_cpus", "agent_nice", "agent_policy", "cpu_quota_milli")
"""Facts whose values a reader understands. The others are digests or bits."""


def changed_conditions(facts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the facts of `INHERITED` that differ from those of the agent's start.

    Args:
        facts: of a run.
    """
    if not (bits := facts.get("changed_conditions", 0)):
        return ()
    return tuple(name for number, name in enumerate(INHERITED) if bits >> number & 1)


def different_conditions(first: Mapping[str, int], facts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the facts of `INHERITED` that two runs do not have in common.

    Nothing is compared if one of them has none of these facts, as in records before 0.2.

    Args:
        first: facts of one run.
        facts: of the other.
    """
    if first.keys().isdisjoint(INHERITED) or facts.keys().isdisjoint(INHERITED):
        return ()
    return tuple(name for name in INHERITED if first.get(name) != facts.get(name))


def describe_conditions(
    names: tuple[str, ...], facts: Mapping[str, int], first: Mapping[str, int] | None = None
) -> str:
    """Return conditions in words, e.g. ``the number of processors (1, first 2), the set of processors``.

    Args:
        names: facts of `INHERITED`.
        facts: of the run.
        first: of the run that it is compared with, if that is known.
    """

    def one(name: str) -> str:
        if name not in _NUMBERS:
            return INHERITED[name]
        now = _value(facts, name)
        return f"{INHERITED[name]} ({now}, first {_value(first, name)})" if first else f"{INHERITED[name]} (now {now})"

    # The number of processors is more specific than the set.
    shown = [name for name in names if name != "agent_cpu_bits" or "agent_cpus" not in names]
    return ", ".join(map(one, shown))


def _value(facts: Mapping[str, int], name: str) -> str:
    if name not in facts:
        return "none"
    if name == "cpu_quota_milli":
        return f"{facts[name] / 1000:g} processors"
    return str(facts[name])
