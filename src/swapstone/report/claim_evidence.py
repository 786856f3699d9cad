# SPDX-License-Identifier: MIT OR Apache-2.0
"""Evidence on claims that is beside a record's comparisons: its time series, and its rows that `explain` has run again."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from swapstone.model import Profile, RowMeasurements
from swapstone.model.instruction_counts import InstructionExplanation
from swapstone.published import Side
from swapstone.published.claims import ClaimTest
from swapstone.report import formatting
from swapstone.report.arm_explanation import modelled_rows
from swapstone.report.measured import Analysed


class Range(NamedTuple):
    """The smallest and the largest value that the evidence allows, and a sentence without the verdict."""

    low: float
    high: float
    text: str


def ranges(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    """Yield what a record has for a test of seconds, of stacks or of a model; nothing for other tests."""
    match test.what:
        case "seconds":
            yield from _of_seconds(test, record)
        case "stacks":
            yield from _of_stacks(test, record)
        case "modelled":
            yield from _of_model(test, record)


def _of_seconds(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    means = [_mean(test, record, side) for side in (test.place.side, test.over or test.place.side)]
    if means[0] is None or means[1] is None:
        return
    value = means[0] - means[1]
    text = (
        f"{test.place.workload}, {test.place.metric}: {means[0]:.1f} % on average over the seconds of a run with "
        f"{_levels(test.place.side)}, {means[1]:.1f} % with {_levels(test.over or test.place.side)}"
    )
    yield Range(value, value, text)


def _mean(test: ClaimTest, record: Analysed, side: Side) -> float | None:
    for each in record.analysis.time_series:
        place = (each.suite, each.workload, each.load)
        if place == (test.place.suite, test.place.workload, side.load) and _is(each.variant.label, side):
            values = dict(each.series).get(test.place.metric, ())
            return statistics.fmean(values) if values else None
    return None


def _of_stacks(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    for row in record.profiled:
        place = (row.place.suite, row.place.workload, row.place.load)
        if place != (test.place.suite, test.place.workload, test.place.side.load):
            continue
        for run in row.runs:
            profile = run.profile
            if run.instrument == test.profile and profile is not None and _is(run.variant, test.place.side):
                yield from _share(test, row, profile)


def _share(test: ClaimTest, row: RowMeasurements, profile: Profile) -> Iterator[Range]:
    whole = sum(stack.weight for stack in profile.stacks)
    if whole <= 0:
        return
    wanted = {number for number, frame in enumerate(profile.frames) if frame.symbol in test.functions}
    part = sum(stack.weight for stack in profile.stacks if wanted.intersection(stack.frames))
    what = "processor time" if test.profile == "on-cpu" else "waits"
    text = (
        f"{row.place.workload}, {_levels(test.place.side)}: {formatting.percent(part / whole)} of the {what} "
        f"in {' or '.join(test.functions)}, and what they call"
    )
    yield Range(part / whole, part / whole, text)


def _of_model(test: ClaimTest, record: Analysed) -> Iterator[Range]:
    for row in record.counted:
        place = (row.place.suite, row.place.workload, row.place.load, row.place.metric)
        if place == (test.place.suite, test.place.workload, test.place.side.load, test.place.metric):
            yield from _modelled(test, row)


def _modelled(test: ClaimTest, row: InstructionExplanation) -> Iterator[Range]:
    side, over = test.place.side, test.over or test.place.side
    sides = {(row.place.baseline, row.place.candidate): False, (row.place.candidate, row.place.baseline): True}
    turned = next((turn for (below, above), turn in sides.items() if _is(below, over) and _is(above, side)), None)
    if turned is None:
        return
    for each in modelled_rows(row):
        if each.processor.name != test.processor:
            continue
        low, high = (1 / each.ratio.high, 1 / each.ratio.low) if turned else each.ratio
        text = (
            f"{row.place.workload}, {_levels(side)} / {_levels(over)}: {formatting.ratio(low)} to {formatting.ratio(high)} in cycles "
            f"of a model of {test.processor}"
        )
        yield Range(low, high, text)


def _is(label: str, side: Side) -> bool:
    return set(label.split(",")) == {f"{factor}={level}" for factor, level in side.levels}


def _levels(side: Side) -> str:
    return ",".join(f"{factor}={level}" for factor, level in side.levels)
