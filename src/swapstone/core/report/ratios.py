# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios of two sides: the one source of the quotients in tables that have no comparisons of their own.

A ratio is the effect of a comparison. It is that of pairs of runs, of the time to read first, with the comparison's interval, and there is
none where the comparison has none. What several comparisons give together is computed from their effects and the bounds of their
intervals, never from medians. It has wider bounds than needed: they hold the true number wherever each interval holds its own.
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from swapstone.core.model import NO_NUMBERS, Analysis, Comparison, FrozenStruct, Variant, Verdict, grouped
from swapstone.core.report import formatting
from swapstone.core.report.tables import Field, Value
from swapstone.core.report.topics.comparison_groups import shown_ratio, sign
from swapstone.core.report.variant_values import Side, sides, without_copies

Row = TypeVar("Row")

SOURCE_NOTE = (
    "A ratio is that of the comparisons, of runs of the same block, with its interval, and not the quotient of medians."
)
"""What tables print below a ratio beside medians."""

LOADS_NOTE = (
    "Between two loads it is the quotient of medians, in brackets the lowest and the highest quotient of two runs."
)
"""What tables print below a ratio between two loads, which no comparison has."""

WALL = "wall"
"""Of a workload, this metric stands for the time to read first: CPU time on a busy machine."""

_FEWEST = 2
"""Runs of a side that have a range."""

Work = tuple[str, str]
"""(suite, workload)"""


class Ratio(FrozenStruct, frozen=True, kw_only=True):
    """One side over another.

    Attributes:
        value: above 0; None where the runs can't be compared.
        low, high: its interval; both are `value` where every run has the same number; None without an interval.
        ranged: whether they are the lowest and the highest quotient of runs, and no interval.
        sign: 1 or -1 for the side of 1, 0 for the same within the margin; None where that is not decided.
        refused: why there is no number; None where there is one.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    ranged: bool = False
    sign: int | None = None
    refused: Verdict | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return `low` and `high`; None without them."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def inverse(self) -> Ratio:
        """Return the second side over the first."""
        value, low, high = (each and 1 / each for each in (self.value, self.high, self.low))
        sign = None if self.sign is None else -self.sign
        return Ratio(value=value, low=low, high=high, ranged=self.ranged, sign=sign, refused=self.refused)

    def within(self, margin: float) -> bool:
        """Return whether the same within the margin is decided."""
        inside = self.bounds is not None and all(1 / (1 + margin) <= each <= 1 + margin for each in self.bounds)
        return self.sign == 0 or inside

    def text(self, *, percent: bool = False) -> str:
        """Return it as ``1.134 (1.120–1.150)``, a range as ``1.134 [1.120 .. 1.150]``; without a number, why there is none.

        Args:
            percent: print it in per cent, without the unit.
        """  # noqa: RUF002 - a dash between numbers
        if self.value is None:
            return self.refused.value if self.refused else ""
        if self == SAME_SIDE:
            return "100" if percent else "1"
        width = 0.0 if self.bounds is None else formatting.narrower(self.value, *self.bounds)
        words = [
            f"{each * 100:.1f}" if percent else formatting.ratio(each, width)
            for each in (self.value, *(self.bounds or ()))
        ]
        if self.bounds is None:
            return f"{words[0]} (no interval)"
        if self.low == self.high:
            return words[0]
        return f"{words[0]} [{words[1]} .. {words[2]}]" if self.ranged else f"{words[0]} ({words[1]}–{words[2]})"  # noqa: RUF001 - a dash

    @property
    def kind(self) -> str:
        """Return what the bounds are: ``interval``, ``range``, ``exact``, ``none``, or the verdict that refuses the number."""
        if self.refused is not None:
            return self.refused.value
        if self.bounds is None:
            return "none"
        return "exact" if self.low == self.high else "range" if self.ranged else "interval"


_LEAST, _MOST = 1e-300, 1e300
"""Ratios outside are no results, and their inverse may be no number."""

SAME_SIDE = Ratio(value=1.0, low=1.0, high=1.0, sign=0)
"""A side over itself."""


def ratio_of(row: Comparison) -> Ratio | None:
    """Return candidate / baseline; without a value where its runs can't be compared, None where its effect is no ratio."""
    if row.verdict in NO_NUMBERS:
        return Ratio(value=None, refused=row.verdict)
    value = shown_ratio(row)
    if value is None or not _LEAST <= value <= _MOST:
        return None
    low, high = row.low or 0.0, row.high or 0.0
    if not _LEAST <= low <= high <= _MOST:
        return Ratio(value=value, sign=sign(row))
    return Ratio(value=value, low=low, high=high, ranged=row.bounded or row.exact, sign=sign(row))


def mean_of(ratios: Iterable[Ratio | None]) -> Ratio | None:
    """Return the geometric mean, with the means of the bounds; None where one of them is None, or there is none."""
    found = tuple(ratios)
    return _computed(statistics.geometric_mean, found) if found else None


def weighted(ratios: Sequence[Ratio | None], weights: Sequence[float]) -> Ratio | None:
    """Return the ratio of two sums of the same terms; None where one of them is None.

    Args:
        ratios: of the terms.
        weights: the terms' divisors in one unit, below 0 of a term that is subtracted. Their sum is above 0.
    """

    def of_sums(numbers: Sequence[float]) -> float:
        return float(sum(map(operator.mul, numbers, weights))) / sum(weights)

    return _computed(of_sums, ratios, [weight < 0 for weight in weights])


def _computed(
    of: Callable[[Sequence[float]], float], ratios: Sequence[Ratio | None], falls: Sequence[bool] = ()
) -> Ratio | None:
    """Return what a function gives for several ratios, and its bounds from theirs; a refused one where one of them is.

    Args:
        of: monotonic in each of its numbers.
        ratios: where one of them is None, so is the result.
        falls: in which numbers `of` falls; empty for none.
    """
    known = [each for each in ratios if each is not None]
    if len(known) < len(ratios):
        return None
    if refused := next((each for each in known if each.value is None), None):
        return refused
    value = of([each.value or 1.0 for each in known])
    if not _LEAST <= value <= _MOST:
        return None
    bounds = [
        each.bounds[::-1] if fall else each.bounds
        for each, fall in zip(known, falls or itertools.repeat(False), strict=False)
        if each.bounds is not None
    ]
    low, high = map(of, zip(*bounds, strict=True)) if len(bounds) == len(known) else (math.nan, math.nan)
    if not _LEAST <= low <= high <= _MOST:
        return Ratio(value=value)
    ranged = any(each.ranged for each in known)
    return Ratio(value=value, low=low, high=high, ranged=ranged, sign=_side_of_1(low, high))


def _side_of_1(low: float, high: float) -> int | None:
    return 1 if low > 1 else -1 if high < 1 else None


class Column(NamedTuple):
    """Where values are of: a variant under a load."""

    load: str
    variant: Variant


class Ratios:
    """The ratios of an analysis, and the values that stand beside them.

    A workload is a pair (suite, name). Of one, the metric `WALL` stands for the time to read first: CPU time on a busy machine.
    """

    def __init__(self, analysis: Analysis) -> None:
        """Read the comparisons but those with copies of the baseline."""
        found = sides(analysis)
        self._sides = {(each.suite, each.workload, each.load, each.variant, each.metric.name): each for each in found}
        self._rows = grouped(without_copies(analysis), lambda row: (row.suite, row.workload, row.load))

    def variants(self) -> tuple[Variant, ...]:
        """Return all variants, each baseline before its candidates."""
        rows = itertools.chain.from_iterable(self._rows.values())
        return tuple(dict.fromkeys(each for row in rows for each in (row.baseline, row.candidate)))

    def metric(self, work: Work, load: str, metric: str = WALL) -> str:
        """Return a metric's name; for `WALL` that of the time to read first."""
        preferred = (row.metric.name for row in self._rows.get((*work, load), ()) if row.preferred)
        return next(preferred, WALL) if metric == WALL else metric

    def side(self, work: Work, column: Column, metric: str = WALL) -> Side | None:
        """Return a variant's values, one for each run of the comparison with most of them; None without any."""
        return self._sides.get((*work, *column, self.metric(work, column.load, metric)))

    def ratio(self, work: Work, over: Column, side: Column, metric: str = WALL) -> Ratio | None:
        """Return `side` / `over`: of their comparison, else of their comparisons with the same baseline; None without them.

        No comparison has two loads. Then it is the ratio of the medians, with the range of the quotients of single runs.
        """
        if over.load != side.load:
            return self._between_loads(work, over, side, metric)
        if over == side:
            return SAME_SIDE if self.side(work, side, metric) else None
        name = self.metric(work, over.load, metric)
        found = (row for row in self._rows.get((*work, over.load), ()) if row.metric.name == name)
        rows = {(row.baseline, row.candidate): ratio_of(row) for row in found}
        if (over.variant, side.variant) in rows:
            return rows[over.variant, side.variant]
        if turned := rows.get((side.variant, over.variant)):
            return turned.inverse
        shared = (base for base, each in rows if each == side.variant and (base, over.variant) in rows)
        pairs = ((rows[base, side.variant], rows[base, over.variant]) for base in shared)
        return next((_computed(lambda each: each[0] / each[1], pair, (False, True)) for pair in pairs), None)

    def _between_loads(self, work: Work, over: Column, side: Column, metric: str) -> Ratio | None:
        """Return None where one side has no values above 0, or both have different times to read first."""
        base, other = self.side(work, over, metric), self.side(work, side, metric)
        if base is None or other is None or base.metric.name != other.metric.name:
            return None
        if min(*base.values, *other.values) <= 0:
            return None
        low, high = min(other.values) / max(base.values), max(other.values) / min(base.values)
        value = other.median / base.median
        if not _LEAST <= low <= high <= _MOST:
            return None
        if min(len(base.values), len(other.values)) < _FEWEST and not (base.exact and other.exact):
            return Ratio(value=value)
        return Ratio(value=value, low=low, high=high, ranged=True, sign=_side_of_1(low, high))


def measured_field(metrics: Iterable[str], of: Callable[[Row], str]) -> Field[Row]:
    """Return the field with what was measured, for readers only where that is not elapsed time everywhere.

    Args:
        metrics: of all rows, as names in a sentence; empty for none.
        of: that of a row.
    """
    return Field("measured" if set(metrics) - {"", "elapsed time"} else "", "metric", of, right=False)


def ratio_fields(
    head: str, key: str, of: Callable[[Row], Ratio | None], missing: str = "-", *, percent: bool = False
) -> tuple[Field[Row], ...]:
    """Return a ratio as fields: for readers with its bounds, for programs the keys `key`, and with ``_low``, ``_high`` and ``_bounds``.

    Args:
        head: the heading; empty for none.
        key: name of the ratio in the data.
        of: the ratio of a row.
        missing: printed for None.
        percent: print it in per cent.
    """
    scale = 100.0 if percent else 1.0

    def number(name: str) -> Callable[[Row], Value]:
        def value(row: Row) -> Value:
            found = of(row)
            number: float | None = None if found is None else getattr(found, name)
            return None if number is None else scale * number

        return value

    return (
        Field(head, "", lambda row: missing if (found := of(row)) is None else found.text(percent=percent)),
        Field("", key, number("value")),
        Field("", f"{key}_low", number("low")),
        Field("", f"{key}_high", number("high")),
        Field("", f"{key}_bounds", lambda row: None if (found := of(row)) is None else found.kind),
    )
