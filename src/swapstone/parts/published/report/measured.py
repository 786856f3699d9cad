# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers of records, looked up by what they are of: a comparison of two sides, or the values of one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping

from swapstone.core.model import Analysis, CaveatKind, Comparison, Experiment, FrozenStruct, Scale
from swapstone.core.model.references import Side
from swapstone.core.report.tables import Ranges
from swapstone.core.report.topics.comparison_groups import shown, sign
from swapstone.core.report.variant_values import without_copies
from swapstone.core.report.verdict_groups import NO_NUMBERS

Row = tuple[str, str, str]
"""(suite, workload, metric)"""


class Analysed(FrozenStruct, frozen=True, kw_only=True):
    """A record.

    Attributes:
        name, experiment, analysis: of the record.
        stored: by kind of test, what yields the evidence that parts have stored beside the record.
        architecture: of the machine, as the record has it; empty if it has none.
    """

    name: str
    experiment: Experiment
    analysis: Analysis
    stored: Mapping[str, Ranges] = {}
    architecture: str = ""


_OTHER_PROGRAMS = ("linking", "static")
"""The pages' programs are linked dynamically: musl's sizes there are those of such programs here, to the KiB."""


def like_the_pages(records: Iterable[Analysed]) -> tuple[tuple[Analysed, ...], str]:
    """Return the records that can stand beside the pages, and a sentence about the others; empty if there are none.

    A record that holds `linking=static` in all variants is another comparison, such as the part `size` of the study musl-vs-glibc.
    """
    known = tuple(records)
    others = [each.name for each in known if _OTHER_PROGRAMS in each.experiment.held]
    text = "Not compared, because their programs are linked statically and the pages' dynamically: "
    kept = tuple(each for each in known if _OTHER_PROGRAMS not in each.experiment.held)
    return kept, f"{text}{', '.join(others)}." if others else ""


def damaged(records: Iterable[Analysed]) -> tuple[str, ...]:
    """Return a sentence about each record that is damaged or was edited, whose numbers may not be those that were measured."""
    found = (
        (each.name, [caveat.message for caveat in each.analysis.caveats if caveat.kind is CaveatKind.DAMAGED_RECORD])
        for each in records
    )
    return tuple(
        f"{name} is damaged or was edited ({places[0]}{f', and {len(places) - 1} more' if len(places) > 1 else ''}). "
        "`swapstone verify` lists all damage."
        for name, places in found
        if places
    )


class Effect(FrozenStruct, frozen=True, kw_only=True):
    """What a record has of one side over another.

    Attributes:
        record: its name.
        ratio: the comparison's effect, or the quotient of the medians where no comparison has these sides; above 0.
        low, high: interval of the comparison; None without one.
        sign: 1 or -1 for the side of 1, 0 for the same within the margin, None where a comparison does not decide.
        baseline: median of the divisor, in the metric's unit.
    """

    record: str
    ratio: float
    low: float | None
    high: float | None
    sign: int | None
    baseline: float


def effect_of(record: Analysed, row: Row, over: Side, side: Side) -> Effect | None:
    """Return what a record has of a side over another one, `side` / `over`; None if it lacks the row."""
    return _estimated(record, row, over, side) or _quotient(record, row, over, side)


def values(record: Analysed, row: Row, side: Side) -> tuple[float, ...]:
    """Return a side's values, one for each run of the comparison with most of them; empty without any."""
    found = [
        tuple(numbers)
        for each in _rows(record, row, side.load)
        for variant, numbers in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values))
        if side.has_label(variant.label)
    ]
    return max(found, key=len, default=())


def _rows(record: Analysed, row: Row, load: str) -> Iterator[Comparison]:
    for each in without_copies(record.analysis):
        same = (each.suite, each.workload, each.metric.name, each.load) == (*row, load)
        if same and each.verdict not in NO_NUMBERS:
            yield each


def _estimated(record: Analysed, row: Row, over: Side, side: Side) -> Effect | None:
    for each in _rows(record, row, side.load) if over.load == side.load else ():
        ratio, way = shown(each), sign(each)
        if each.scale is not Scale.RATIO or ratio is None or ratio <= 0:
            continue
        low, high = (ratio, ratio) if each.exact else (each.low, each.high)
        if over.has_label(each.baseline.label) and side.has_label(each.candidate.label):
            base = statistics.median(each.baseline_values)
            return Effect(record=record.name, ratio=ratio, low=low, high=high, sign=way, baseline=base)
        if side.has_label(each.baseline.label) and over.has_label(each.candidate.label):
            low, high = (1 / high, 1 / low) if low and high and min(low, high) > 0 else (None, None)
            way, base = None if way is None else -way, statistics.median(each.candidate_values)
            return Effect(record=record.name, ratio=1 / ratio, low=low, high=high, sign=way, baseline=base)
    return None


def _quotient(record: Analysed, row: Row, over: Side, side: Side) -> Effect | None:
    medians = [statistics.median(found) for each in (over, side) if (found := values(record, row, each))]
    if len(medians) < 2 or min(medians) <= 0:
        return None
    ratio = medians[1] / medians[0]
    way = sign_of(ratio, record.experiment.margin)
    return Effect(record=record.name, ratio=ratio, low=None, high=None, sign=way, baseline=medians[0])


def sign_of(ratio: float, margin: float) -> int:
    """Return 1 or -1 for the side of 1, 0 within the margin."""
    return 0 if abs(math.log(ratio)) <= math.log1p(margin) else 1 if ratio > 1 else -1
