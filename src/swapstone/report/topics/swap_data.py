# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of the swap suite by place, and the published figures of a device."""

from __future__ import annotations

import re
import statistics

from swapstone import published
from swapstone.model import Analysis, Comparison, FrozenStruct, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.topics.comparison_groups import shown

SUITE = "swap"
STUDY = "zram-vs-flash"
SUMMARY, SECONDS, PAGE = "swap-summary", "swap-seconds", "swap-published"
"""Sections of the report that have published figures."""

_SECOND = re.compile(r".*, second ([0-9]{1,9})", re.ASCII)

Place = tuple[str, str, str, Variant]
"""(workload, load, metric, variant)"""


class Values(FrozenStruct, frozen=True, kw_only=True):
    """The values of the suite by place, one number per replicate.

    Attributes:
        variants: the baseline first; copies of it are left out.
        loads: in the experiment's order.
        workloads: of the suite, in its order.
        fills: pairs (workload that fills memory, share of random bytes in per cent).
        touches: (workload that touches swapped pages, order, amount written as a multiple of the memory).
        pairs: (place, values).
        effects: (place of the candidate, comparison against the baseline).
    """

    variants: tuple[Variant, ...]
    loads: tuple[str, ...]
    workloads: tuple[str, ...]
    fills: tuple[tuple[str, str], ...]
    touches: tuple[tuple[str, str, str], ...]
    pairs: tuple[tuple[Place, tuple[float, ...]], ...]
    effects: tuple[tuple[Place, Comparison], ...] = ()

    def middle(self, workload: str, load: str, metric: str, variant: Variant) -> float | None:
        """Return the median over the replicates; None without values."""
        found = dict(self.pairs).get((workload, load, metric, variant))
        return statistics.median(found) if found else None

    def effect(self, workload: str, load: str, metric: str, variant: Variant) -> str:
        """Return the effect against the baseline with its interval, as in the comparisons; ``1`` for the baseline, ``?`` without one."""
        if variant == self.variants[0]:
            return "1"
        found = dict(self.effects).get((workload, load, metric, variant))
        return "?" if found is None or shown(found) is None else formatting.estimate(found)


def values_of(context: ReportContext, analysis: Analysis) -> Values:
    """Return the values of all variants in an analysis, each once."""
    copies = {null.copy for null in analysis.nulls}
    pairs: dict[Place, tuple[float, ...]] = {}
    variants: dict[Variant, None] = {}
    workloads: dict[str, None] = {}
    for found in analysis.comparisons:
        if found.suite != SUITE or found.candidate in copies:
            continue
        workloads[found.workload] = None
        for variant, numbers in (
            (found.baseline, found.baseline_values),
            (found.candidate, found.candidate_values),
        ):
            variants[variant] = None
            place = (found.workload, found.load, found.metric.name, variant)
            # The baseline is in several comparisons, in each with the replicates of its candidate. Take the longest list.
            if len(numbers) > len(pairs.get(place, ())):
                pairs[place] = numbers
    parameters = {name: context.parameters(SUITE, name) for name in workloads}
    return Values(
        variants=tuple(variants),
        loads=context.experiment.loads,
        workloads=tuple(workloads),
        fills=tuple((name, found["random_percent"]) for name, found in parameters.items() if "random_percent" in found),
        touches=tuple(
            (name, found["order"], found["memory_ratio"]) for name, found in parameters.items() if "order" in found
        ),
        pairs=tuple(pairs.items()),
        effects=tuple(
            ((each.workload, each.load, each.metric.name, each.candidate), each)
            for each in analysis.comparisons
            if each.suite == SUITE and each.candidate not in copies
        ),
    )


def level_of(variant: Variant) -> str:
    """Return the variant's row label: its level of swap where nothing else is varied, else its label."""
    return variant.level("swap") if [factor for factor, _ in variant.levels] == ["swap"] else variant.label


def device_of(variant: Variant) -> str:
    """Return the device that a variant swaps to, as the page names it; empty where the factor swap is not varied."""
    level = dict(variant.levels).get("swap", "")
    return next((device for device in ("flash", "zram") if level.startswith(device)), "")


def page_seconds(device: str) -> tuple[int, ...]:
    """Return the published KiB swapped out in each second, from the first second above 0."""
    seconds: dict[int, int] = {}
    for each in published.joined(SECONDS, STUDY):
        found = _SECOND.fullmatch(each.figure.metric)
        if found and (each.figure.level, each.place.metric) == (device, "so"):
            seconds[int(found[1])] = int(each.figure.value)
    ordered = [seconds[number] for number in sorted(seconds)]
    first = next((number for number, value in enumerate(ordered) if value), len(ordered))
    return tuple(ordered[first:])


def page_mean(device: str) -> float | None:
    """Return the published mean of a device, in KiB a second; None without one."""
    means = (each.figure for each in published.joined(SUMMARY, STUDY) if each.place.metric == "out_mean")
    return next((figure.value for figure in means if figure.level == device), None)


def page_rows() -> dict[tuple[str, int], dict[str, float]]:
    """Return the published columns of vmstat by (device, second)."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for each in (*published.joined(SECONDS, STUDY), *published.joined(PAGE, STUDY)):
        if found := _SECOND.fullmatch(each.figure.metric):
            rows.setdefault((each.figure.level, int(found[1])), {})[each.place.metric] = each.figure.value
    return rows
