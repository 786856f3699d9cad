# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of the swap suite by place, and the published figures of a device."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from swapstone.core.model import Analysis, Comparison, Variant
from swapstone.core.model.references import references
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.sides import sides, variants_of
from swapstone.core.report.topics.comparison_groups import shown

SUITE = "swap"
STUDY = "zram-vs-flash"
SUMMARY, SECONDS, PAGE = "swap-summary", "swap-seconds", "swap-published"
"""Sections of the report that have published figures."""

_SECOND = re.compile(r".*, second ([0-9]{1,9})", re.ASCII)

Place = tuple[str, str, str, Variant]
"""(workload, load, metric, variant)"""


class Values(NamedTuple):
    """The values of the suite by place.

    Attributes:
        variants: the baseline first; copies of it are left out.
        fills: pairs (workload that fills memory, share of random bytes in per cent).
        touches: (workload that touches swapped pages, order, amount written as a multiple of the memory).
        medians: over the replicates, by place.
        effects: comparisons against the baseline, by the candidate's place.
    """

    variants: tuple[Variant, ...]
    fills: tuple[tuple[str, ...], ...]
    touches: tuple[tuple[str, ...], ...]
    medians: dict[Place, float]
    effects: dict[Place, Comparison]

    def effect(self, place: Place) -> str:
        """Return the effect against the baseline with its interval, as in the comparisons; ``1`` for the baseline, ``?`` without one."""
        found = self.effects.get(place)
        estimate = "?" if found is None or shown(found) is None else formatting.estimate(found)
        return "1" if place[-1] == self.variants[0] else estimate


def values_of(context: ReportContext, analysis: Analysis) -> Values:
    """Return the values of all variants in an analysis, each once."""
    found = sides(analysis, lambda each: each.suite == SUITE)
    parameters = {each.workload: context.parameters(SUITE, each.workload) for each in found}

    def works(*names: str) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (work, *(known[name] for name in names)) for work, known in parameters.items() if names[0] in known
        )

    return Values(
        variants=variants_of(analysis, lambda each: each.suite == SUITE),
        fills=works("random_percent"),
        touches=works("order", "memory_ratio"),
        medians={(each.workload, each.load, each.metric.name, each.variant): each.median for each in found},
        effects={
            (each.workload, each.load, each.metric.name, each.candidate): each
            for each in analysis.comparisons
            if each.suite == SUITE
        },
    )


def level_of(variant: Variant) -> str:
    """Return the variant's row label: its level of swap where nothing else is varied, else its label."""
    return variant.level("swap") if [factor for factor, _ in variant.levels] == ["swap"] else variant.label


def device_of(variant: Variant) -> str:
    """Return the device that a variant swaps to, as the page names it; empty where the factor swap is not varied."""
    return next(filter(dict(variant.levels).get("swap", "").startswith, ("flash", "zram")), "")


def page_seconds(device: str) -> tuple[int, ...]:
    """Return the published KiB swapped out in each second, from the first second above 0."""
    rows = sorted((second, row) for (level, second), row in page_rows(SECONDS).items() if level == device)
    return tuple(itertools.dropwhile(lambda kib: not kib, (int(row["so"]) for _, row in rows if "so" in row)))


def page_mean(device: str) -> float | None:
    """Return the published mean of a device, in KiB a second; None without one."""
    means = (each.figure for each in references(STUDY, SUMMARY) if each.place.metric == "out_mean")
    return next((figure.value for figure in means if figure.level == device), None)


def page_rows(*sections: str) -> dict[tuple[str, int], dict[str, float]]:
    """Return the published columns of vmstat by (device, second), of all that stand in some sections of the report."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for each in itertools.chain.from_iterable(references(STUDY, section) for section in sections):
        if found := _SECOND.fullmatch(each.figure.metric):
            rows.setdefault((each.figure.level, int(found[1])), {})[each.place.metric] = each.figure.value
    return rows
