"""Layouts: the link as the unit of inference, and how far links of the same code differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from swapstone.compare.collect import Cell, Cells
from swapstone.compare.noise import preferred_time
from swapstone.model import Copy, Experiment, LayoutSpread, Variant, Workload, layout_of

Floats = NDArray[np.float64]

ASSIGNMENTS = 999
"""Random assignments of runs to links, to see what noise alone makes of them."""

ASSIGNMENT_SEED = 2009


def by_layout(blocks: Sequence[int], sides: Sequence[Floats], layouts: int) -> tuple[tuple[int, ...], list[Floats]]:
    """Reduce blocks to layouts: blocks of one layout ran the same two programs, and say nothing of other links.

    Args:
        blocks: numbers of the blocks that have a pair, at least one.
        sides: values by block, each of shape (blocks,).
        layouts: how many take turns.

    Returns:
        The numbers of the layouts that occur, ascending, and each side's mean over their blocks: geometric where every value of
        every side is above 0, so that ratios of means are means of ratios; else arithmetic.
    """
    turns = np.array([layout_of(block, layouts) for block in blocks])
    present = tuple(int(turn) for turn in np.unique(turns))
    positive = all(side.min() > 0 for side in sides)
    reduced = []
    for side in sides:
        values = np.log(side) if positive else side
        means = np.array([values[turns == turn].mean() for turn in present])
        reduced.append(_without_rounding(side, turns, present, np.exp(means) if positive else means))
    return present, reduced


def _without_rounding(side: Floats, turns: NDArray[np.int64], present: Sequence[int], means: Floats) -> Floats:
    """Give a layout whose values are all equal exactly that value: a mean of equal numbers must not differ by a rounding."""
    equal = [float(side[turns == turn][0]) if np.ptp(side[turns == turn]) == 0 else math.nan for turn in present]
    return np.where(np.isnan(equal), means, equal)


def spreads(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, Workload],
    cells: Cells,
    busy: frozenset[str],
) -> Iterator[LayoutSpread]:
    """Yield how far the links of each variant differ, on the time metric that decides.

    Args:
        experiment: one with layouts.
        variants: the baseline first; null copies are left out.
        workloads: by name.
        cells: what the runs gave.
        busy: loads under which the machine was busy.
    """
    for suite, name in experiment.workloads:
        for load in experiment.loads:
            workload = workloads[name]
            # The time that decides: processor time of work that computes, whose noise hides least.
            leading = [metric.name for metric in workload.metrics if metric.leads and metric.unit == "ns"]
            metric = leading[0] if leading else preferred_time(workload, load in busy)
            for variant in variants:
                cell = cells.get((suite, name, load), {}).get(variant.label, Cell())
                values = {block: value[metric] for block, value in cell.values.items() if value.get(metric, 0) > 0}
                turns = [layout_of(block, experiment.layouts) for block in values]
                if variant.copy is Copy.FIRST and len(set(turns)) > 1 and cell.trouble("") is None:
                    spread, expected, p_value, deviation = spread_of(np.log(list(values.values())), np.array(turns))
                    yield LayoutSpread(
                        suite=suite,
                        workload=name,
                        load=load,
                        metric=metric,
                        variant=variant.label,
                        layouts=len(set(turns)),
                        runs=len(turns),
                        spread=spread,
                        expected=expected,
                        p_value=p_value,
                        deviation=deviation,
                    )


def spread_of(logarithms: Floats, turns: NDArray[np.int64]) -> tuple[float, float | None, float | None, float | None]:
    """Compare the means of groups of runs.

    Args:
        logarithms: of the runs' times, shape (runs,).
        turns: which link each of them ran, shape (runs,); at least two.

    Returns:
        Slowest / fastest mean; its median over random assignments; the p-value of no difference by those; the standard deviation
        between links. The last three are None where no link ran twice.
    """
    _, index, counts = np.unique(turns, return_inverse=True, return_counts=True)

    def range_of(assigned: NDArray[np.int64]) -> float:
        return float(np.ptp(np.bincount(assigned, logarithms) / counts))

    observed = range_of(index)
    groups, runs = counts.size, turns.size
    if groups == runs:
        return math.exp(observed), None, None, None
    random = np.random.default_rng(ASSIGNMENT_SEED)
    ranges = np.array([range_of(random.permutation(index)) for _ in range(ASSIGNMENTS)])
    means = np.bincount(index, logarithms) / counts
    within = float(np.square(logarithms - means[index]).sum()) / (runs - groups)
    between = float((counts * np.square(means - logarithms.mean())).sum()) / (groups - 1)
    # The mean number of runs of a link, as the analysis of variance of unequal groups has it.
    each = (runs - float(np.square(counts).sum()) / runs) / (groups - 1)
    deviation = math.sqrt(max(0.0, (between - within) / each))
    at_least = int((ranges >= observed - 1e-12).sum())
    return math.exp(observed), math.exp(float(np.median(ranges))), (1 + at_least) / (1 + ASSIGNMENTS), deviation
