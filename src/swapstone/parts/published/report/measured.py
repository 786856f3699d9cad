# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers of records, looked up by what they are of: a comparison of two sides, or the values of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from swapstone.core.model import Analysis, CaveatKind, Experiment, FrozenStruct
from swapstone.core.model.references import Side
from swapstone.core.report.ratios import Column, Ratio, Ratios
from swapstone.core.report.tables import Ranges
from swapstone.core.report.variant_values import sides

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
        ratio: with a value.
        baseline: median of the divisor, in the unit of what was compared.
    """

    record: str
    ratio: Ratio
    baseline: float

    @property
    def value(self) -> float:
        """Return the ratio's value."""
        return self.ratio.value or math.nan

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Return the bounds of the ratio's interval; None without one, also of a range of runs."""
        return (None, None) if self.ratio.ranged else (self.ratio.low, self.ratio.high)


def effect_of(record: Analysed, row: Row, over: Side, side: Side) -> Effect | None:
    """Return what a record has of a side over another one, `side` / `over`; None if it lacks the row, or its runs can't be compared.

    Published times are elapsed times. Beside them stands the time to read first.
    """
    *work, metric = row
    rows = tuple(each for each in record.analysis.comparisons if [each.suite, each.workload] == work)
    ratios = Ratios(msgspec.structs.replace(record.analysis, comparisons=rows))
    columns = [
        next((Column(each.load, variant) for variant in ratios.variants() if each.has_label(variant.label)), None)
        for each in (over, side)
    ]
    if columns[0] is None or columns[1] is None:
        return None
    ratio, base = ratios.ratio(row[:2], columns[0], columns[1], metric), ratios.side(row[:2], columns[0], metric)
    if ratio is None or ratio.value is None or base is None:
        return None
    return Effect(record=record.name, ratio=ratio, baseline=base.median)


def values(record: Analysed, row: Row, side: Side) -> tuple[float, ...]:
    """Return a side's values, one for each run of the comparison with most of them; empty without any."""
    found = sides(record.analysis, lambda c: (c.suite, c.workload, c.metric.name, c.load) == (*row, side.load))
    return next((each.values for each in found if side.has_label(each.variant.label)), ())


def sign_of(ratio: float, margin: float) -> int:
    """Return 1 or -1 for the side of 1, 0 within the margin."""
    return 0 if abs(math.log(ratio)) <= math.log1p(margin) else 1 if ratio > 1 else -1
