# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recompute the numbers that the published pages derived from their figures."""

from __future__ import annotations

import itertools
import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from swapstone.model import FrozenStruct
from swapstone.published.data import Derived, Figure, baselines, derived, figures

_EXACT = Context(prec=50)
LATENCY_TABLES = "tables 7 and 8"
UNIXBENCH_INDEX = "geometric mean of 10 x result / baseline"


class Recomputed(FrozenStruct, frozen=True, kw_only=True):
    """A derived number, recomputed from its inputs on the same page.

    Attributes:
        source, place, row: where it is.
        formula: how it was derived.
        printed: the page's digits.
        computed: the recomputed number, rounded half up to as many decimals (for `fits`: the range that rounding allows).
        agrees: whether the two are equal.
    """

    source: str
    place: str
    row: str
    formula: str
    printed: str
    computed: str
    agrees: bool


def as_printed(value: Decimal, printed: str) -> str:
    """Round a value half up to the number of decimals of another printed number."""
    decimals = len(printed.partition(".")[2])
    text = f"{value.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP, context=_EXACT):f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _derive(row: Derived) -> Decimal:
    quotient = _EXACT.divide(Decimal(row.a), Decimal(row.b))
    match row.formula:
        case "ratio":
            return quotient
        case "truncated ratio":
            return quotient.to_integral_value(rounding=ROUND_DOWN)
        case "percent gain":
            return (quotient - 1) * 100
        case "percent share":
            return quotient * 100
        case "score":
            return quotient * 10
    raise AssertionError(row.formula)  # the decoder rejects other formulas


def recompute(row: Derived) -> Recomputed:
    """Recompute one derived number and compare it with the printed digits."""
    computed = as_printed(_derive(row), row.printed)
    same = Decimal(computed) == Decimal(row.printed)
    return Recomputed(
        source=row.source,
        place=row.place,
        row=row.row,
        formula=row.formula,
        printed=row.printed,
        computed=computed,
        agrees=same,
    )


def unixbench_index(results: dict[str, float]) -> float:
    """Return UnixBench's index: the geometric mean of 10 x result / baseline over its twelve tests.

    Args:
        results: result by test, in the unit of the test's baseline.

    Raises:
        KeyError: a test is missing.
    """
    logs = [math.log(10 * results[test] / baseline) for test, baseline, _ in baselines()]
    return math.exp(math.fsum(logs) / len(logs))


def _indices(found: tuple[Figure, ...]) -> list[Recomputed]:
    rows = []
    for index in (figure for figure in found if figure.metric == "index"):
        mine = (index.study, index.platform, index.condition, index.level)
        results = {
            figure.metric: figure.value
            for figure in found
            if (figure.study, figure.platform, figure.condition, figure.level) == mine
        }
        computed = as_printed(Decimal(unixbench_index(results)), index.printed)
        rows.append(
            Recomputed(
                source=index.source,
                place=f"UnixBench, {index.condition or 'whole'}",
                row=f"index ({index.level})",
                formula=UNIXBENCH_INDEX,
                printed=index.printed,
                computed=computed,
                agrees=computed == index.printed,
            )
        )
    return rows


def _bounds(figure: Figure) -> tuple[float, float]:
    half = 0.5 * 10.0 ** -len(figure.printed.partition(".")[2])
    return figure.value - half, figure.value + half


def _quotient(a: Figure, b: Figure) -> tuple[float, float]:
    return _bounds(a)[0] / _bounds(b)[1], _bounds(a)[1] / _bounds(b)[0]


def latency_tables(found: tuple[Figure, ...]) -> list[Recomputed]:
    """Compare the two tables of latency ratios of the real-time page.

    One has generic / rt for each load, the other loaded / idle for each kernel. If both come from the same maxima, then
    (generic / rt under load) / (generic / rt idle) = (loaded / idle of generic) / (loaded / idle of rt). The comparison allows for
    the rounding of the printed digits.
    """
    page = [figure for figure in found if figure.study == "preempt-rt" and figure.suite == "cyclictest"]
    between = {
        (f.platform, f.condition.split(",")[0].removeprefix("load=")): f
        for f in page
        if f.metric.endswith("generic/rt")
    }
    within = {
        (f.platform, f.condition.removeprefix("load="), f.level): f for f in page if f.metric.endswith("loaded/idle")
    }
    rows = []
    platforms = tuple(dict.fromkeys(platform for platform, _ in between))
    for platform, load in itertools.product(platforms, ("cpu", "memory", "io", "network")):
        one = _quotient(between[platform, load], between[platform, "idle"])
        two = _quotient(within[platform, load, "generic"], within[platform, load, "rt"])
        rows.append(
            Recomputed(
                source=page[0].source,
                place=LATENCY_TABLES,
                row=f"{platform}, {load}",
                formula="table 7 load / idle = table 8 generic / rt",
                printed=f"{two[0]:.2f} to {two[1]:.2f}",
                computed=f"{one[0]:.2f} to {one[1]:.2f}",
                agrees=one[0] <= two[1] and two[0] <= one[1],
            )
        )
    return rows


def recomputed() -> tuple[Recomputed, ...]:
    """Recompute every derived number, and compare the two latency tables."""
    found = figures()
    return (*map(recompute, derived()), *_indices(found), *latency_tables(found))
