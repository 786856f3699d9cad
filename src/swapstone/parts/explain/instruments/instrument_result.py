# SPDX-License-Identifier: MIT OR Apache-2.0
"""The input and the result that all instruments share."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from swapstone.core.model.profile import Frame, Profile, ProfileRun
from swapstone.parts.explain.explanation.by_function import without_template_arguments
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import Recording, record
from swapstone.parts.explain.instruments.traced_run import BRIEF_S, ReferenceRuns, Region, Tracee
from swapstone.parts.explain.model.explanation import InstrumentResult, SourceLine


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

    def add(self, recording: Recording, tracee: Tracee, kinds: Collection[str]) -> RecordedRuns:
        """Add a recording, in which the events of some kinds are counted; return the sums."""
        passes = len(recording.windows.pieces) if tracee.region is Region.PASSES else 1
        driven = recording.ended.driven
        self.operations += passes * tracee.operations if driven is None else driven.requests
        self.took_ns += recording.windows.total_ns
        self.lost += recording.lost
        self.kept += sum(event.what in kinds for event in recording.events)
        self.command = recording.command
        self.number += 1
        return self

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the arguments of `result` that follow from the recordings."""
        return {"operations": self.operations, "took_ns": self.took_ns, "tool": "perf", "command": self.command}

    def notes(self) -> tuple[str, ...]:
        """Return a note on lost records; none if no record was lost."""
        text = f"{self.lost} records were lost because the kernel's buffer was full; {self.kept} were kept"
        return (text,) if self.lost else ()


def result(
    name: str,
    tracee: Tracee,
    reference: ReferenceRuns,
    *,
    operations: float,
    took_ns: float,
    tool: str = "",
    command: str = "",
    lines: Mapping[Frame, str] = MappingProxyType({}),
    **measured: Any,  # noqa: ANN401 - as the fields have it
) -> InstrumentResult:
    """Build an instrument's result for one variant, with the instrument's overhead.

    Args:
        name: of the instrument.
        tracee: what ran.
        reference: the reference runs.
        operations: in the runs under the instrument.
        took_ns: elapsed time of all of them; 0 if it shows no overhead.
        tool: the command that the instrument needs; empty for none.
        command: as typed in a shell; empty for that of the program.
        lines: source lines of functions.
        measured: what the instrument measured, and its other fields.
    """
    names = demangled(frame.symbol for frame in lines)
    return InstrumentResult(
        instrument=name,
        tool=requirements.version_of(tool),
        variant=tracee.variant,
        command=command or " ".join(tracee.request.arguments),
        operations=operations,
        overhead=took_ns / operations / reference.wall_ns if took_ns and reference.wall_ns else None,
        lines=tuple(
            SourceLine(symbol=names.get(frame.symbol, frame.symbol), object=frame.object, line=line)
            for frame, line in lines.items()
        ),
        **measured,
    )


RUNS = 8
"""At least as many runs, if the time allows."""

MOST_RUNS = 60

BUDGET_S = 30.0
"""After this time no run of an instrument and a variant is begun, if there are `FEW_RUNS`, or as many parts of runs."""

MOST_S = 60.0
"""After this time none is begun in any case: on a busy machine the start of perf may take longer than all the rest."""

FEW_RUNS = 5
"""As many are planned if they take no longer than `MOST_S`. Fewer are divided into parts of equal length, so that there are `RUNS` parts:
the intervals are then of parts of runs, and wide if a program has phases."""

BRIEF_TIMES = 3
"""With `ReferenceRuns.brief`, `FEW_RUNS` are planned if they take no longer than this many times `BRIEF_S`."""

_SWITCH_S = 3e-4
"""Approximate time to read a switch with its stack."""

_START_S = 0.5
"""Approximate duration of the start of perf, and of the reading of a small recording."""


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """How often to run, into how many parts of equal length each run is divided, and the times after which no more is begun.

    Attributes:
        runs, parts: both numbers.
        budget_s: after which none is begun, if there are `FEW_RUNS`, or as many parts of runs.
        most_s: after which none is begun in any case.
    """

    runs: int
    parts: int
    budget_s: float = BUDGET_S
    most_s: float = MOST_S


def planned_runs(
    tracee: Tracee, reference: ReferenceRuns, *, samples: int = 0, rate_hz: float = 0.0, switches: bool = False
) -> RunPlan:
    """Return how often to run a tracee.

    Args:
        tracee: what to run.
        reference: its runs without an instrument.
        samples: wanted in all runs together; 0 if the number of samples does not matter.
        rate_hz: samples in a second of processor time.
        switches: whether each switch of a thread is recorded, which then takes most of the time.
    """
    run_s = reference.longest_s
    if tracee.region is Region.PASSES:
        run_s = reference.wall_ns * tracee.operations * tracee.passes / 1e9
    wanted = RUNS
    if samples:
        busy = reference.metrics.get("cpu", 0.0) / reference.wall_ns if reference.wall_ns else 0.0
        wanted = max(RUNS, min(MOST_RUNS, math.ceil(samples / max(1.0, busy * run_s * rate_hz))))
    read_s = _switches(tracee, reference, run_s) * _SWITCH_S if switches else 0.0
    budget_s, most_s = (BRIEF_S, BRIEF_TIMES * BRIEF_S) if reference.brief else (BUDGET_S, MOST_S)
    one_s = 2 * run_s + read_s + _START_S
    runs = max(1, min(wanted, int(budget_s / one_s)))
    if FEW_RUNS * one_s <= most_s:
        runs = max(FEW_RUNS, runs)
    return RunPlan(runs, 1 if runs >= FEW_RUNS else math.ceil(RUNS / runs), budget_s, most_s)


def _switches(tracee: Tracee, reference: ReferenceRuns, run_s: float) -> float:
    """Return the number of switches in a run, as the kernel counts them: of a pass, of a program, or of a request."""
    counted = sum(reference.metrics.get(name, 0.0) for name in ("nvcsw", "nivcsw"))
    if tracee.region is Region.DRIVEN:
        return counted * run_s * 1e9 / reference.wall_ns if reference.wall_ns else 0.0
    return counted * tracee.passes


def repeat(plan: RunPlan, enough: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """Yield the number of each run, from 0, until there are as many as planned and enough samples, or the time is over.

    Args:
        plan: how many runs.
        enough: whether there are enough samples.
    """
    start, made = time.monotonic(), 0
    while made < plan.runs or not (enough() or made >= MOST_RUNS or plan.parts > 1):
        yield made
        made += 1
        spent = time.monotonic() - start
        if spent > plan.budget_s and (made * plan.parts >= FEW_RUNS or spent > plan.most_s):
            break


def recordings(
    tracee: Tracee,
    reference: ReferenceRuns,
    options: Sequence[str],
    kind: str,
    *,
    plan: RunPlan,
    runs: RecordedRuns,
    enough: Callable[[], bool] = lambda: True,
    kernel: bool = True,
) -> Iterator[tuple[int, Recording]]:
    """Record one run after another.

    Args:
        tracee: what to run.
        reference: its runs without an instrument.
        options: of ``perf record``.
        kind: the event, with stacks.
        plan: how many runs.
        runs: to which each recording is added.
        enough: whether there are enough samples.
        kernel: whether the kernel is sampled, too.

    Yields:
        The number of the recording's first part among the parts of all runs, and the recording.

    Raises:
        UnavailableError: perf can't be used.
        UserError: a run failed.
    """
    for number in repeat(plan, enough):
        recording = record(tracee, options, reference, mapped=reference.objects, kernel=kernel)
        runs.add(recording, tracee, [kind])
        yield number * plan.parts, recording


class ProfileBuilder:
    """Sums up weights by stack, of one run or of several."""

    def __init__(self) -> None:
        self._runs = collections.defaultdict[int, collections.Counter[tuple[Frame, ...]]](collections.Counter)
        self._samples = collections.Counter[int]()

    def add(self, frames: tuple[Frame, ...], weight: float, run: int = 0) -> None:
        """Add a weight to a stack, given from the outermost frame, in a run, or a part of one, by its number."""
        self._runs[run][frames] += weight  # type: ignore[assignment]  # a Counter adds floats as well
        self._samples[run] += 1

    def add_share(self, frames: tuple[Frame, ...], share: float) -> None:
        """Add a stack that has a share, below 1, of each run's weight then, such as that of time that could not be sampled."""
        for run in [*self._runs] if 0 < share < 1 else ():
            self.add(frames, sum(self._runs[run].values()) * share / (1 - share), run)

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(sum(sum(run.values()) for run in self._runs.values()))

    @property
    def samples(self) -> int:
        """Return the number of weights that were added."""
        return self._samples.total()

    def profile(
        self, kind: str, unit: str, operations: float, notes: tuple[str, ...] = (), *, parts: int = 1
    ) -> Profile:
        """Return the profile, heaviest stacks first. It keeps the parts of runs apart, if there are several."""
        whole: collections.Counter[tuple[Frame, ...]] = collections.Counter()
        for run in self._runs.values():
            whole.update(run)
        ordered = dict(sorted(whole.items(), key=lambda one: (-one[1], [frame.symbol for frame in one[0]])))
        places = {frames: place for place, frames in enumerate(ordered)}
        runs = tuple(
            ProfileRun(
                samples=self._samples[part],
                weights=tuple(sorted((places[frames], float(weight)) for frames, weight in self._runs[part].items())),
            )
            for part in range(parts)
        )
        facts = {"kind": kind, "unit": unit, "operations": operations, "notes": notes}
        profile = Profile.of(ordered, **facts, runs=runs if parts > 1 else ())
        names = demangled(frame.symbol for frame in profile.frames)
        frames = {
            each: msgspec.structs.replace(each, symbol=names.get(each.symbol, each.symbol)) for each in profile.frames
        }
        return profile.mapped(lambda stack: tuple(frames[each] for each in stack)) if names else profile


_LONGEST_NAME = 512
"""Longer mangled names stay: what they stand for may be very long."""
_MANGLED = re.compile(r"_Z[\w.]+")


def demangled(names: Iterable[str]) -> Mapping[str, str]:
    """Return C++ names as c++filt(1) prints them, without parameters, long ones without template arguments; none without c++filt."""
    mangled = [name for name in dict.fromkeys(names) if _MANGLED.fullmatch(name) and len(name) <= _LONGEST_NAME]
    tool = shutil.which("c++filt") if mangled else None
    if tool is None:
        return {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(
            [tool, "-p"], input="\n".join(mangled), capture_output=True, text=True, timeout=60, check=True
        ).stdout
        whole = (
            each if len(each) <= _LONGEST_NAME else without_template_arguments(each) for each in printed.splitlines()
        )
        return dict(zip(mangled, (each[:_LONGEST_NAME] for each in whole), strict=False))
    return {}
