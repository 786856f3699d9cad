# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run all instruments on both variants of a row, one after another, each in runs of its own."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets import TargetError
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import hardware, heap, instructions, offcpu, oncpu, pages, syscalls, waits
from swapstone.parts.explain.instruments.instrument_result import ReferenceRuns
from swapstone.parts.explain.instruments.tracee import Tracee
from swapstone.parts.explain.model.explanation import (
    Amount,
    InstrumentCost,
    InstrumentResult,
    MissingInstrument,
    Reference,
    RowKey,
    RowMeasurements,
)

Measure = Callable[[Tracee, ReferenceRuns], InstrumentResult]

INSTRUMENTS: dict[str, Measure] = {
    oncpu.NAME: oncpu.measure,
    offcpu.NAME: offcpu.measure,
    waits.NAME: waits.measure,
    syscalls.NAME: syscalls.measure,
    heap.NAME: heap.measure,
    pages.NAME: pages.measure,
    hardware.NAME: hardware.measure,
    instructions.NAME: instructions.measure,
}
"""By name, in the order in which they run."""

REFERENCE = "reference"
"""Name of the runs without an instrument."""

MIN_REFERENCES, MAX_REFERENCES = 8, 24
"""Number of reference runs of each variant."""

REFERENCE_BUDGET_S = 16.0
"""More than the minimum are made if all of them take no longer than this."""

KEPT = ("wall", "cpu")
"""The metrics of which the value of each reference run is kept."""

_COUNTERS = {
    "minflt": "minor faults",
    "majflt": "major faults",
    "nvcsw": "voluntary switches",
    "nivcsw": "involuntary switches",
}


@dataclasses.dataclass(frozen=True)
class ReferenceRun:
    """A run without an instrument: medians by metric name, the mapped objects, and the duration with start and end."""

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    took_s: float = 0.0


Change = Callable[[TrialRequest], TrialRequest]


def unchanged(request: TrialRequest) -> TrialRequest:
    """Return a request without a change."""
    return request


@dataclasses.dataclass(frozen=True)
class RowVariant:
    """One variant of a row, ready to run.

    Attributes:
        tracee: what to run.
        run: makes a run without an instrument, in the way of a trial; its arguments are the run's number and a change of the request.
        recorded: median of the row's metric in the record.
        time_ns: time of an operation in the record, of the ledger's metric; None if the row is of another metric.
        program_sha256: digest of the program's file.
        preload: objects that the loader preloads.
    """

    tracee: Tracee
    run: Callable[[int, Change], ReferenceRun]
    recorded: float
    time_ns: float | None
    program_sha256: str
    preload: tuple[str, ...] = ()


def run_instruments(
    place: RowKey,
    unit: str,
    ledger_metric: str,
    pair: Sequence[RowVariant],
    notify: Callable[[str], None],
    *,
    only: Sequence[str] = tuple(INSTRUMENTS),
) -> RowMeasurements:
    """Run both variants under all instruments.

    Reference runs without an instrument alternate between the variants. Half of them come before the instruments and half after,
    so that a drift of the machine affects both variants alike. Short ones are repeated more often.

    Args:
        place: the row.
        unit: of its metric.
        ledger_metric: the time that the ledger splits.
        pair: baseline, then candidate.
        notify: called with a line before each step.
        only: names of the instruments to use.

    Returns:
        The measurements. An instrument that can't be used, or fails for a variant, is in `RowMeasurements.missing`.

    Raises:
        UserError: a variant can't be run.
    """
    runs: list[list[ReferenceRun]] = [[], []]
    start = time.monotonic()
    _run_plain(pair, runs, range(MIN_REFERENCES // 2), MIN_REFERENCES, notify)
    references = references_for((time.monotonic() - start) / (MIN_REFERENCES // 2))
    _run_plain(pair, runs, range(MIN_REFERENCES // 2, references // 2), references, notify)
    medians = [_medians(each) for each in runs]
    found: list[InstrumentResult] = []
    missing: list[MissingInstrument] = []
    took: dict[str, float] = {}
    for name in only:
        if name == waits.NAME and ledger_metric != "wall":
            continue  # processor time has no waits
        notify(f"running both variants under {name}")
        start = time.monotonic()
        try:
            found += [
                _measured(INSTRUMENTS[name], variant, reference, each, notify)
                for variant, reference, each in zip(pair, medians, runs, strict=True)
            ]
        except UserError as error:
            reason = error.message if isinstance(error, UnavailableError) else f"it failed: {error.message}"
            missing.append(MissingInstrument(instrument=name, reason=reason, remedy=error.hint))
        took[name] = time.monotonic() - start
    _run_plain(pair, runs, range(references // 2, references), references, notify)
    medians = [_medians(each) for each in runs]
    found = [*(_counters(variant, reference) for variant, reference in zip(pair, medians, strict=True)), *found]
    sides = [
        Reference(
            variant=variant.tracee.variant,
            program_sha256=variant.program_sha256,
            recorded=variant.recorded,
            time_ns=variant.time_ns,
            metrics=tuple(reference.items()),
            runs=references,
            values=tuple((name, tuple(run.metrics[name] for run in each)) for name in KEPT if name in reference),
        )
        for variant, reference, each in zip(pair, medians, runs, strict=True)
    ]
    durations = [[run.took_s for run in each] for each in runs]
    trial_s = sum(statistics.median(side) for side in durations)
    seconds = {REFERENCE: sum(map(sum, durations)), **took}
    return RowMeasurements(
        place=place,
        unit=unit,
        ledger_metric=ledger_metric,
        references=(sides[0], sides[1]),
        runs=tuple(found),
        missing=tuple(missing),
        costs=tuple(InstrumentCost(instrument=name, seconds=each, trial_s=trial_s) for name, each in seconds.items()),
    )


def references_for(seconds: float) -> int:
    """Return the number of reference runs of each variant: an even number.

    Args:
        seconds: duration of one run of both variants.
    """
    return max(MIN_REFERENCES, min(MAX_REFERENCES, 2 * int(REFERENCE_BUDGET_S / seconds / 2)))


def _run_plain(
    pair: Sequence[RowVariant], runs: list[list[ReferenceRun]], numbers: range, of: int, notify: Callable[[str], None]
) -> None:
    for number in numbers:
        notify(f"running both variants without an instrument, {number + 1} of {of}")
        for side, variant in zip(runs, pair, strict=True):
            side.append(_plain(variant, number))


def _plain(variant: RowVariant, number: int) -> ReferenceRun:
    """Make a reference run. A failure of the target is retried once, because a busy machine may cause it."""

    def once() -> ReferenceRun:
        start = time.monotonic()
        run = variant.run(number, unchanged)
        return dataclasses.replace(run, took_s=time.monotonic() - start)

    try:
        return once()
    except TargetError:
        return once()


def _medians(runs: Sequence[ReferenceRun]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return {name: statistics.median(run.metrics[name] for run in runs if name in run.metrics) for name in names}


def _measured(
    measure: Measure,
    variant: RowVariant,
    medians: Mapping[str, float],
    runs: Sequence[ReferenceRun],
    notify: Callable[[str], None],
) -> InstrumentResult:
    """Measure one variant. A failure is retried once, because a busy machine may stop a load generator or a recording."""

    def once() -> InstrumentResult:
        with TemporaryFolder("explain") as folder:
            longest_s = max(run.took_s for run in runs)
            reference = ReferenceRuns(medians, runs[0].objects, variant.preload, Path(folder), longest_s, notify)
            return measure(variant.tracee, reference)

    try:
        return once()
    except UnavailableError:
        raise
    except UserError:
        return once()


def _counters(variant: RowVariant, medians: Mapping[str, float]) -> InstrumentResult:
    """Return the kernel's counters of a process, which need no instrument."""
    amounts = tuple(
        Amount(
            group="faults" if name.endswith("flt") else "switches",
            name=words,
            value=medians[name] / variant.tracee.operations,
        )
        for name, words in _COUNTERS.items()
        if name in medians
    )
    return InstrumentResult(
        instrument=REFERENCE,
        tool="",
        variant=variant.tracee.variant,
        command=" ".join(variant.tracee.request.arguments),
        operations=variant.tracee.operations,
        overhead=1.0,
        amounts=amounts,
    )
