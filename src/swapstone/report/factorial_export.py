# SPDX-License-Identifier: MIT OR Apache-2.0
"""Export of crossed factors: CSV with one row per main effect, simple effect and interaction."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.model import Analysis, FactorEffect, Interaction
from swapstone.report.context import ReportContext
from swapstone.report.csv_output import comma_separated, plain

COLUMNS = (
    "kind",
    "suite",
    "workload",
    "load",
    "metric",
    "unit",
    "quantity",
    "better",
    "change",
    "against",
    "changed_by",
    "changed_by_against",
    "held",
    "averaged",
    "missing",
    "workloads",
    "blocks",
    "scale",
    "effect",
    "low",
    "high",
    "confidence",
    "p_value",
    "smallest_visible",
    "exact",
    "preferred",
    "verdict",
    "reason",
    "depends_on",
    "effect_without",
    "effect_within",
    "closed",
)


def rows(analysis: Analysis) -> Iterator[dict[str, object]]:
    """Yield one row for each effect and each interaction, its keys those of `COLUMNS`.

    `kind` is ``main``, ``simple`` or ``interaction``; `workload` is empty for a suite's index; lists are joined by semicolons. None is
    no number. The verdict of an interaction is its presence. No name is a keyword of SQL.
    """
    for effect in analysis.effects:
        yield {
            **_shared(effect),
            "kind": "simple" if effect.held else "main",
            "held": ",".join(f"{factor}={level}" for factor, level in effect.held),
            "verdict": effect.verdict.value,
            "depends_on": ";".join(effect.depends_on),
        }
    for each in analysis.interactions:
        yield {
            **_shared(each),
            "kind": "interaction",
            "changed_by": each.by.label,
            "changed_by_against": each.by.baseline,
            "verdict": each.presence.value,
            "effect_without": each.without,
            "effect_within": each.within,
            "closed": each.closed,
        }


def _shared(each: FactorEffect | Interaction) -> dict[str, object]:
    empty: dict[str, object] = dict.fromkeys(("changed_by", "changed_by_against", "held", "depends_on"), "")
    return {
        **empty,
        **dict.fromkeys(("effect_without", "effect_within", "closed")),
        "suite": each.suite,
        "workload": each.workload,
        "load": each.load,
        "metric": each.metric.name,
        "unit": each.metric.unit,
        "quantity": each.metric.quantity.value,
        "better": each.metric.better.value,
        "change": each.change.label,
        "against": each.change.baseline,
        "averaged": ";".join(each.averaged),
        "missing": ";".join(each.missing),
        "workloads": each.workloads,
        "blocks": each.blocks,
        "scale": each.scale.value,
        "effect": each.effect,
        "low": each.low,
        "high": each.high,
        "confidence": each.confidence,
        "p_value": each.p_value,
        "smallest_visible": each.smallest_visible,
        "exact": each.exact,
        "preferred": each.preferred,
        "reason": each.reason,
    }


def to_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return `rows` as CSV; the header alone where fewer than two factors were varied."""
    del context  # every export has this signature
    return comma_separated(COLUMNS, ([_cell(row[name]) for name in COLUMNS] for row in rows(analysis)))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return plain(value) if isinstance(value, float) or value is None else str(value)
