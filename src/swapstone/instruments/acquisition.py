"""All instruments on both variants of a row, one after another, each in runs of its own."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swapstone.instruments import heap, instructions, offcpu, oncpu, syscalls
from swapstone.instruments.instrument_result import Known
from swapstone.instruments.tracee import Subject
from swapstone.model import (
    Amount,
    Instrumented,
    Missing,
    Place,
    Reference,
    Seen,
    UnavailableError,
    UserError,
)
from swapstone.targets import TargetError

Measure = Callable[[Subject, Known], Instrumented]

INSTRUMENTS: dict[str, Measure] = {
    oncpu.NAME: oncpu.measure,
    offcpu.NAME: offcpu.measure,
    syscalls.NAME: syscalls.measure,
    heap.NAME: heap.measure,
    instructions.NAME: instructions.measure,
}
"""By name, in the order in which they are used."""

REFERENCE = "reference"
"""Runs without any instrument."""

FEWEST, MOST = 8, 24
"""How many of those there are of each variant."""

ENOUGH_S = 16.0
"""More than the fewest are made as long as all take no longer than this."""

_COUNTERS = {
    "minflt": "minor faults",
    "majflt": "major faults",
    "nvcsw": "voluntary switches",
    "nivcsw": "involuntary switches",
}


@dataclasses.dataclass(frozen=True)
class Plain:
    """One run without an instrument: medians by metric's name, and what was mapped."""

    metrics: Mapping[str, float]
    objects: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Asked:
    """One variant of the row.

    Attributes:
        subject: what is run.
        plain: makes one run without an instrument, as a trial is made.
        recorded: median of the row's metric in the record.
        time_ns: time of an operation in the record, of the ledger's metric; None where the row is of another.
        program_sha256: of the file.
        preload: objects that the loader takes first.
    """

    subject: Subject
    plain: Callable[[int], Plain]
    recorded: float
    time_ns: float | None
    program_sha256: str
    preload: tuple[str, ...] = ()


def run_instruments(
    place: Place,
    unit: str,
    ledger_metric: str,
    pair: Sequence[Asked],
    tell: Callable[[str], None],
    *,
    only: Sequence[str] = tuple(INSTRUMENTS),
) -> Seen:
    """Run both variants under all instruments.

    Args:
        place: which row.
        unit: of its metric.
        ledger_metric: the time that will be split.
        pair: baseline, then candidate.
        tell: called with a line before each step.
        only: names of the instruments to use.

    Both run without an instrument, too, taking turns: half of the runs before the instruments, half after, so that a machine that
    changes meanwhile doesn't favour either. Short ones run more often.

    Returns:
        What was seen. An instrument that can't be used, or fails on one of the two, is among `Seen.missing`.

    Raises:
        UserError: a variant can't be run at all.
    """
    runs: list[list[Plain]] = [[], []]
    start = time.monotonic()
    _run_plain(pair, runs, range(FEWEST // 2), FEWEST, tell)
    references = references_for((time.monotonic() - start) / (FEWEST // 2))
    _run_plain(pair, runs, range(FEWEST // 2, references // 2), references, tell)
    medians = [_medians(each) for each in runs]
    found: list[Instrumented] = []
    missing: list[Missing] = []
    for name in only:
        tell(f"running both under the instrument {name}")
        try:
            found += [
                _measured(INSTRUMENTS[name], asked, known, each)
                for asked, known, each in zip(pair, medians, runs, strict=True)
            ]
        except UnavailableError as error:
            missing.append(Missing(instrument=name, reason=error.message, mend=error.hint))
        except UserError as error:
            missing.append(Missing(instrument=name, reason=f"it failed: {error.message}", mend=error.hint))
    _run_plain(pair, runs, range(references // 2, references), references, tell)
    medians = [_medians(each) for each in runs]
    found = [*(_counters(asked, known) for asked, known in zip(pair, medians, strict=True)), *found]
    sides = [
        Reference(
            variant=asked.subject.variant,
            program_sha256=asked.program_sha256,
            recorded=asked.recorded,
            time_ns=asked.time_ns,
            metrics=tuple(known.items()),
            runs=references,
        )
        for asked, known in zip(pair, medians, strict=True)
    ]
    return Seen(
        place=place,
        unit=unit,
        ledger_metric=ledger_metric,
        references=(sides[0], sides[1]),
        runs=tuple(found),
        missing=tuple(missing),
    )


def references_for(seconds: float) -> int:
    """Return how many runs without an instrument each variant gets: an even number.

    Args:
        seconds: what one of both takes together.
    """
    return max(FEWEST, min(MOST, 2 * int(ENOUGH_S / seconds / 2)))


def _run_plain(
    pair: Sequence[Asked], runs: list[list[Plain]], numbers: range, of: int, tell: Callable[[str], None]
) -> None:
    for number in numbers:
        tell(f"running both without an instrument, {number + 1} of {of}")
        for side, asked in enumerate(pair):
            runs[side].append(_plain(asked, number))


def _plain(asked: Asked, number: int) -> Plain:
    """Make one run without an instrument; a target that broke on a busy machine is tried once more."""
    try:
        return asked.plain(number)
    except TargetError:
        return asked.plain(number)


def _medians(runs: Sequence[Plain]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return {name: statistics.median(run.metrics[name] for run in runs if name in run.metrics) for name in names}


def _measured(measure: Measure, asked: Asked, medians: Mapping[str, float], runs: Sequence[Plain]) -> Instrumented:
    """Measure one variant; what fails once is tried once more, for a busy machine may stop a driver or a recording."""
    for last in (False, True):
        with tempfile.TemporaryDirectory(prefix="swapstone-explain-") as folder:
            known = Known(medians, runs[0].objects, asked.preload, Path(folder))
            try:
                return measure(asked.subject, known)
            except UnavailableError:
                raise
            except UserError:
                if last:
                    raise
    raise AssertionError


def _counters(asked: Asked, medians: Mapping[str, float]) -> Instrumented:
    """Return what the kernel counts of every process anyway: it needs no instrument."""
    amounts = tuple(
        Amount(
            group="faults" if name.endswith("flt") else "switches",
            name=words,
            value=medians[name] / asked.subject.operations,
        )
        for name, words in _COUNTERS.items()
        if name in medians
    )
    return Instrumented(
        instrument=REFERENCE,
        tool="",
        variant=asked.subject.variant,
        command=" ".join(asked.subject.request.arguments),
        operations=asked.subject.operations,
        overhead=1.0,
        amounts=amounts,
    )
