"""What instruments have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from swapstone.instruments import requirements
from swapstone.instruments.perf import Recording
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import Amount, Instrumented, Passing, Profile


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a subject before it is put under an instrument.

    Attributes:
        metrics: medians of the runs without one, by name: ``wall``, ``cpu`` of an operation in ns, ``nvcsw`` and others of a pass.
        objects: files that it had mapped executable.
        preload: of them, those that the loader was told to take first.
        folder: scratch.
    """

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    preload: tuple[str, ...]
    folder: Path

    @property
    def wall_ns(self) -> float:
        """Return the elapsed time of an operation."""
        return self.metrics.get("wall", 0.0)

    def passes_for(self, subject: Subject, work_ns: float, most: int = 20_000) -> Subject:
        """Return the subject with as many passes as take about so long without an instrument."""
        one = max(1.0, self.wall_ns * subject.operations)
        return subject.with_passes(max(1, min(most, round(work_ns / one))))


def operations_in(recording: Recording, subject: Subject) -> float:
    """Return how many operations lie in the work that was recorded."""
    if recording.ended.driven is not None:
        return recording.ended.driven.requests
    return len(recording.windows.pieces) * subject.operations if subject.region is Region.PASSES else subject.operations


def result(
    name: str,
    subject: Subject,
    known: Known,
    recording: Recording,
    *,
    amounts: tuple[Amount, ...] = (),
    profile: Profile | None = None,
    passing: Passing | None = None,
    notes: tuple[str, ...] = (),
) -> Instrumented:
    """Put together what a recording gave, with the instrument's overhead.

    Args:
        name: of the instrument.
        subject: what ran.
        known: how long it takes without.
        recording: what perf saw.
        amounts: what was counted.
        profile: its stacks.
        passing: how the time passed.
        notes: what was lost or left out.
    """
    operations = operations_in(recording, subject)
    took = recording.windows.total_ns / operations
    attached = subject.region is Region.ATTACHED
    return Instrumented(
        instrument=name,
        tool=requirements.version_of("perf"),
        variant=subject.variant,
        command=recording.command,
        operations=operations,
        overhead=took / known.wall_ns if known.wall_ns and not attached else None,
        amounts=amounts,
        profile=profile,
        passing=passing,
        notes=notes,
    )
