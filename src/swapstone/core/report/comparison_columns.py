# SPDX-License-Identifier: MIT OR Apache-2.0
"""The columns of a comparison, and of an effect of crossed factors, for CSV and for SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from swapstone.core.model import Analysis, Comparison, FactorEffect, FailureRates, Interaction
from swapstone.core.report.tables import Datum, Field, Value, data_of


class Row(NamedTuple):
    """A comparison with the failure rates of its place; None where nothing ran."""

    c: Comparison
    rates: FailureRates | None


class Column(NamedTuple):
    """A column: its name, which is no keyword of SQL, its SQL type, empty for a column of CSV alone, and its value; None for none."""

    name: str
    kind: str
    value: Callable[[Row], Value]


def rows_of(analysis: Analysis) -> Iterator[Row]:
    """Yield the comparisons of an analysis."""
    rates = {(each.suite, each.workload, each.load, each.candidate): each for each in analysis.failure_rates}
    for c in analysis.comparisons:
        yield Row(c, rates.get((c.suite, c.workload, c.load, c.candidate)))


def _inside(column: str, *path: str, kind: str = "DOUBLE") -> Column:
    """Return a column whose value is an attribute of an attribute of a row; None where one of them is None."""

    def value(row: Row) -> Value:
        found: Any = row
        for name in path:
            found = None if found is None else getattr(found, name)
        return found  # type: ignore[no-any-return] # a text, a number or nothing

    return Column(column, kind, value)


_SIDES = ("baseline", "candidate")
_PLACE = (
    Column("suite", "VARCHAR", lambda row: row.c.suite),
    Column("workload", "VARCHAR", lambda row: row.c.workload),
    Column("load", "VARCHAR", lambda row: row.c.load),
    Column("metric", "VARCHAR", lambda row: row.c.metric.name),
    Column("unit", "VARCHAR", lambda row: row.c.metric.unit),
    Column("quantity", "", lambda row: row.c.metric.quantity.value),
    Column("better", "", lambda row: row.c.metric.better.value),
    Column("baseline", "VARCHAR", lambda row: row.c.baseline.label),
    Column("candidate", "VARCHAR", lambda row: row.c.candidate.label),
    Column("pairs", "BIGINT", lambda row: len(row.c.baseline_values)),
    Column("baseline_median", "", lambda row: row.c.medians[0] if row.c.medians else None),
    Column("candidate_median", "", lambda row: row.c.medians[1] if row.c.medians else None),
    Column("scale", "VARCHAR", lambda row: row.c.scale.value),
    Column("effect", "DOUBLE", lambda row: row.c.effect),
    Column("low", "DOUBLE", lambda row: row.c.low),
    Column("high", "DOUBLE", lambda row: row.c.high),
    Column("confidence", "", lambda row: row.c.confidence),
    Column("p_value", "DOUBLE", lambda row: row.c.p_value),
    Column("smallest_visible", "", lambda row: row.c.smallest_visible),
    Column("exact", "", lambda row: row.c.exact),
    Column("preferred", "", lambda row: row.c.preferred),
    Column("verdict", "VARCHAR", lambda row: row.c.verdict.value),
    Column("reason", "VARCHAR", lambda row: row.c.reason),
)
_DISTRIBUTION = (
    *(_inside(f"{side}_{name}", "c", f"{side}_runs", name) for name in ("mean", "p90", "maximum") for side in _SIDES),
    Column("mean_effect", "DOUBLE", lambda row: row.c.mean_effect),
    Column("mean_low", "DOUBLE", lambda row: row.c.mean_low),
    Column("mean_high", "DOUBLE", lambda row: row.c.mean_high),
    Column("median_effect", "DOUBLE", lambda row: row.c.median_effect),
    Column("median_low", "DOUBLE", lambda row: row.c.median_low),
    Column("median_high", "DOUBLE", lambda row: row.c.median_high),
    Column("tail_p_value", "DOUBLE", lambda row: row.c.tail_p_value),
    Column("rarest_mode", "DOUBLE", lambda row: row.c.rarest_mode),
    Column("observed_s", "DOUBLE", lambda row: row.c.observed_s),
    Column("bounded", "BOOLEAN", lambda row: row.c.bounded),
    _inside("carry_over_effect", "c", "carry_over", "effect"),
    _inside("carry_over_p_value", "c", "carry_over", "p_value"),
    *(
        _inside(f"{side}_{name}", "c", "carry_over", f"{side}_{name}")
        for side in _SIDES
        for name in ("after_itself", "after_other")
    ),
    _inside("discarded_runs", "c", "carry_over", "discarded"),
)
_FLOOR = Column("difference_floor", "DOUBLE", lambda row: row.c.floor)
_FAILURES = (
    *(
        _inside(f"{side}_{name}", "rates", f"{side}_runs", name, kind="BIGINT")
        for side in _SIDES
        for name in ("runs", "failed", "timed_out", "crashed", "refused")
    ),
    *(
        _inside(f"{side}_failed_{name}", "rates", f"{side}_runs", name)
        for side in _SIDES
        for name in ("share", "low", "high")
    ),
    _inside("failures_p_value", "rates", "p_value"),
    _inside("fails_more", "rates", "fails_more", kind="VARCHAR"),
)
COLUMNS = (*_PLACE, *_DISTRIBUTION, *_FAILURES, _FLOOR)
"""All of them. `baseline_runs` counts attempts, `baseline_failed_share` is the share of failed ones with its interval; `fails_more` is
``baseline``, ``candidate``, or empty where the rates don't differ significantly. Numbers are in the metric's unit, ratios, or seconds
(``_s``)."""

QUERIED = {column.name: column.kind for column in COLUMNS if column.kind}
"""Names and SQL types of the columns that a query has."""


def queried(row: Row) -> dict[str, Value]:
    """Return the value of each column that a query has."""
    return {column.name: column.value(row) for column in COLUMNS if column.kind}


def csv_fields(unobserved: tuple[str, ...], seal: str) -> tuple[Field[Row], ...]:
    """Return the columns of CSV.

    Args:
        unobserved: factors whose level rests on the request alone.
        seal: digest of the record.
    """

    def not_observed(row: Row) -> str:
        other = dict(row.c.candidate.levels)
        return " ".join(
            name for name, level in row.c.baseline.levels if other.get(name) != level and name in unobserved
        )

    own = (Column("not_observed", "", not_observed), Column("seal", "", lambda _row: seal))
    return tuple(Field("", each.name, each.value) for each in (*_PLACE, *own, *_DISTRIBUTION, *_FAILURES, _FLOOR))


Estimate = FactorEffect | Interaction


def _of_effect(value: Callable[[FactorEffect], Value], other: Value = "") -> Callable[[Estimate], Value]:
    return lambda each: value(each) if isinstance(each, FactorEffect) else other


def _of_interaction(value: Callable[[Interaction], Value], other: Value = "") -> Callable[[Estimate], Value]:
    return lambda each: value(each) if isinstance(each, Interaction) else other


EFFECT_FIELDS: tuple[Field[Estimate], ...] = (
    Field("", "kind", _of_effect(lambda each: "simple" if each.held else "main", "interaction")),
    Field("", "suite", lambda each: each.suite),
    Field("", "workload", lambda each: each.workload),
    Field("", "load", lambda each: each.load),
    Field("", "metric", lambda each: each.metric.name),
    Field("", "unit", lambda each: each.metric.unit),
    Field("", "quantity", lambda each: each.metric.quantity.value),
    Field("", "better", lambda each: each.metric.better.value),
    Field("", "change", lambda each: each.change.label),
    Field("", "against", lambda each: each.change.baseline),
    Field("", "changed_by", _of_interaction(lambda each: each.by.label)),
    Field("", "changed_by_against", _of_interaction(lambda each: each.by.baseline)),
    Field("", "held", _of_effect(lambda each: ",".join(f"{factor}={level}" for factor, level in each.held))),
    Field("", "averaged", lambda each: ";".join(each.averaged)),
    Field("", "missing", lambda each: ";".join(each.missing)),
    Field("", "workloads", lambda each: each.workloads),
    Field("", "blocks", lambda each: each.blocks),
    Field("", "scale", lambda each: each.scale.value),
    Field("", "effect", lambda each: each.effect),
    Field("", "low", lambda each: each.low),
    Field("", "high", lambda each: each.high),
    Field("", "confidence", lambda each: each.confidence),
    Field("", "p_value", lambda each: each.p_value),
    Field("", "smallest_visible", lambda each: each.smallest_visible),
    Field("", "exact", lambda each: each.exact),
    Field("", "preferred", lambda each: each.preferred),
    Field("", "verdict", lambda each: each.verdict.value if isinstance(each, FactorEffect) else each.presence.value),
    Field("", "reason", lambda each: each.reason),
    Field("", "depends_on", _of_effect(lambda each: ";".join(each.depends_on))),
    Field("", "effect_without", _of_interaction(lambda each: each.without, None)),
    Field("", "effect_within", _of_interaction(lambda each: each.within, None)),
    Field("", "closed", _of_interaction(lambda each: each.closed, None)),
    Field("", "median_effect", lambda each: each.median_effect),
    Field("", "median_low", lambda each: each.median_low),
    Field("", "median_high", lambda each: each.median_high),
)
"""`kind` is ``main``, ``simple`` or ``interaction``; `workload` is empty for a suite's index; lists are joined by semicolons. None is no
number. The verdict of an interaction is its presence. No name is a keyword of SQL."""


def estimates(analysis: Analysis) -> tuple[Estimate, ...]:
    """Return the effects and interactions of crossed factors."""
    return (*analysis.effects, *analysis.interactions)


def effect_rows(analysis: Analysis) -> tuple[Datum, ...]:
    """Return one row for each effect and each interaction, its keys those of `EFFECT_FIELDS`."""
    return data_of(EFFECT_FIELDS, estimates(analysis))
