# SPDX-License-Identifier: MIT OR Apache-2.0
"""Export of crossed factors: CSV with one row per main effect, simple effect and interaction."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.model import Analysis, FactorEffect, Interaction
from swapstone.core.report.context import ReportContext
from swapstone.core.report.tables import Datum, Field, Value, as_csv, data_of

Estimate = FactorEffect | Interaction


def _of_effect(value: Callable[[FactorEffect], Value], other: Value = "") -> Callable[[Estimate], Value]:
    return lambda each: value(each) if isinstance(each, FactorEffect) else other


def _of_interaction(value: Callable[[Interaction], Value], other: Value = "") -> Callable[[Estimate], Value]:
    return lambda each: value(each) if isinstance(each, Interaction) else other


FIELDS: tuple[Field[Estimate], ...] = (
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
)
"""`kind` is ``main``, ``simple`` or ``interaction``; `workload` is empty for a suite's index; lists are joined by semicolons. None is no
number. The verdict of an interaction is its presence. No name is a keyword of SQL."""


def _estimates(analysis: Analysis) -> tuple[Estimate, ...]:
    return (*analysis.effects, *analysis.interactions)


def rows(analysis: Analysis) -> tuple[Datum, ...]:
    """Return one row for each effect and each interaction, its keys those of `FIELDS`."""
    return data_of(FIELDS, _estimates(analysis))


def to_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return `rows` as CSV; the header alone where fewer than two factors were varied."""
    del context  # every export has this signature
    return as_csv(FIELDS, _estimates(analysis))
