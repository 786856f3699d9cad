# SPDX-License-Identifier: MIT OR Apache-2.0
"""The input and the result that all instruments share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from swapstone.instruments import requirements
from swapstone.instruments.perf import Recording
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import Amount, ElapsedTime, InstrumentResult, Profile


@dataclasses.dataclass(frozen=True)
class ReferenceRuns:
    """What the reference runs of a variant gave.

    Attributes:
        metrics: medians by name: ``wall``, ``cpu`` per operation in ns, ``nvcsw`` and others per pass.
        objects: files that the process had mapped executable.
        preload: of these, the objects that the loader preloaded.
        folder: a scratch folder.
    """

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    preload: tuple[str, ...]
    folder: Path

    @property
    def wall_ns(self) -> float:
        """Return the elapsed time of an operation in ns."""
        return self.metrics.get("wall", 0.0)

    def passes_for(self, tracee: Tracee, work_ns: float, most: int = 20_000) -> Tracee:
        """Return the tracee with the number of passes that takes about this long without an instrument."""
        one = max(1.0, self.wall_ns * tracee.operations)
        return tracee.with_passes(max(1, min(most, round(work_ns / one))))


def operations_in(recording: Recording, tracee: Tracee) -> float:
    """Return the number of operations in the recorded work."""
    if recording.ended.driven is not None:
        return recording.ended.driven.requests
    return len(recording.windows.pieces) * tracee.operations if tracee.region is Region.PASSES else tracee.operations


def result(
    name: str,
    tracee: Tracee,
    reference: ReferenceRuns,
    recording: Recording,
    *,
    amounts: tuple[Amount, ...] = (),
    profile: Profile | None = None,
    elapsed: ElapsedTime | None = None,
    notes: tuple[str, ...] = (),
) -> InstrumentResult:
    """Build an instrument's result from a recording, with the instrument's overhead.

    Args:
        name: of the instrument.
        tracee: what ran.
        reference: the reference runs.
        recording: of perf.
        amounts: counts.
        profile: stacks.
        elapsed: division of the elapsed time.
        notes: what was lost or left out.
    """
    operations = operations_in(recording, tracee)
    took = recording.windows.total_ns / operations
    attached = tracee.region is Region.ATTACHED
    return InstrumentResult(
        instrument=name,
        tool=requirements.version_of("perf"),
        variant=tracee.variant,
        command=recording.command,
        operations=operations,
        overhead=took / reference.wall_ns if reference.wall_ns and not attached else None,
        amounts=amounts,
        profile=profile,
        elapsed=elapsed,
        notes=notes,
    )
