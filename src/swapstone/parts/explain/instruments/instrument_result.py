# SPDX-License-Identifier: MIT OR Apache-2.0
"""The input and the result that all instruments share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import Recording
from swapstone.parts.explain.instruments.run_limit import RunLimit, limit_of
from swapstone.parts.explain.instruments.tracee import Region, Tracee
from swapstone.parts.explain.model.explanation import Amount, ElapsedTime, InstrumentResult, Profile


@dataclasses.dataclass(frozen=True)
class ReferenceRuns:
    """What the reference runs of a variant gave.

    Attributes:
        metrics: medians by name: ``wall``, ``cpu`` per operation in ns, ``nvcsw`` and others per pass.
        objects: files that the process had mapped executable.
        preload: of these, the objects that the loader preloaded.
        folder: a scratch folder.
        longest_s: duration of the longest reference run, with the start and the end of its processes.
        notify: called with a line when a wait takes long.
    """

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    preload: tuple[str, ...]
    folder: Path
    longest_s: float = 1.0
    notify: Callable[[str], None] = lambda _: None

    @property
    def wall_ns(self) -> float:
        """Return the elapsed time of an operation in ns."""
        return self.metrics.get("wall", 0.0)

    def limit(self) -> RunLimit:
        """Return how long a run under an instrument may take."""
        return limit_of(self.longest_s, self.notify)

    def passes_for(self, tracee: Tracee, work_ns: float, most: int = 20_000) -> Tracee:
        """Return the tracee with the number of passes that takes about this long without an instrument."""
        one = max(1.0, self.wall_ns * tracee.operations)
        return tracee.with_passes(max(1, min(most, round(work_ns / one))))


@dataclasses.dataclass
class RecordedRuns:
    """Sums over the recordings of one instrument.

    Attributes:
        operations: number of operations.
        took_ns: length of the measured windows.
        lost, kept: number of records that perf lost, and of those that it kept.
        command: of perf, as typed in a shell.
        number: of recordings.
    """

    operations: float = 0.0
    took_ns: int = 0
    lost: int = 0
    kept: int = 0
    command: str = ""
    number: int = 0

    def add(self, recording: Recording, tracee: Tracee, kinds: Collection[str]) -> None:
        """Add a recording, in which the events of some kinds are counted."""
        passes = len(recording.windows.pieces) if tracee.region is Region.PASSES else 1
        driven = recording.ended.driven
        self.operations += passes * tracee.operations if driven is None else driven.requests
        self.took_ns += recording.windows.total_ns
        self.lost += recording.lost
        self.kept += sum(event.what in kinds for event in recording.events)
        self.command = recording.command
        self.number += 1

    def notes(self) -> tuple[str, ...]:
        """Return a note on lost records; none if no record was lost."""
        text = f"{self.lost} records were lost because the kernel's buffer was full; {self.kept} were kept"
        return (text,) if self.lost else ()


def recorded(recording: Recording, tracee: Tracee, kinds: Collection[str]) -> RecordedRuns:
    """Return the sums of a single recording."""
    found = RecordedRuns()
    found.add(recording, tracee, kinds)
    return found


def result(
    name: str,
    tracee: Tracee,
    reference: ReferenceRuns,
    runs: RecordedRuns,
    *,
    amounts: tuple[Amount, ...] = (),
    profile: Profile | None = None,
    elapsed: ElapsedTime | None = None,
    notes: tuple[str, ...] = (),
) -> InstrumentResult:
    """Build an instrument's result from its recordings, with the instrument's overhead.

    Args:
        name: of the instrument.
        tracee: what ran.
        reference: the reference runs.
        runs: the recordings of perf.
        amounts: counts.
        profile: stacks.
        elapsed: division of the elapsed time.
        notes: what was lost or left out.
    """
    took = runs.took_ns / runs.operations
    return InstrumentResult(
        instrument=name,
        tool=requirements.version_of("perf"),
        variant=tracee.variant,
        command=runs.command,
        operations=runs.operations,
        overhead=took / reference.wall_ns if reference.wall_ns else None,
        amounts=amounts,
        profile=profile,
        elapsed=elapsed,
        notes=notes,
    )
