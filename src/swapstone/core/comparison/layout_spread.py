# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiments with layouts: the link as the unit of inference, and the spread between links of the same code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.cells import Cell, Cells
from swapstone.core.comparison.machine_noise import preferred_time
from swapstone.core.model import Copy, Experiment, LayoutSpread, Variant, WorkSpec, cycle_of, layout_of
from swapstone.core.stats import Floats, Ints, Mask, distinct, median

ASSIGNMENTS = 999
"""Random assignments of runs to links, for the spread under the null hypothesis that links don't differ."""

ASSIGNMENT_SEED = 2009


def whole_cycles(blocks: Sequence[int], variants: int) -> tuple[tuple[int, ...], Mask]:
    """Return which blocks belong to whole cycles of balanced orders: only those are independent of each other.

    Args:
        blocks: numbers of the blocks with a pair.
        variants: number of variants in a block.

    Returns:
        The number of the cycle of each block that belongs to a whole one, and which blocks these are, shape (blocks,).
    """
    cycles = np.array([cycle_of(block, variants)[0] for block in blocks], dtype=np.int64)
    whole = np.isin(cycles, np.flatnonzero(np.bincount(cycles) == variants * (1 + variants % 2)))
    return tuple(map(int, cycles[whole])), whole


def by_turn(turns: Sequence[int], sides: Sequence[Floats]) -> tuple[Ints, list[Floats]]:
    """Reduce blocks to turns, which are layouts or cycles of orders. Blocks of one turn are no independent sample.

    Args:
        turns: number of the turn of each block.
        sides: values by block, each of shape (blocks,).

    Returns:
        The numbers of the turns that occur, ascending, and each side's mean over their blocks. The mean is geometric if all
        values of all sides are above 0, so that the ratio of means is the mean of ratios; else it is arithmetic.
    """
    numbers = np.array(turns, dtype=np.int64)
    if not numbers.size:
        return numbers, list(sides)
    present = distinct(numbers)
    positive = all(side.min() > 0 for side in sides)
    reduced = []
    for side in sides:
        values = np.log(side) if positive else side
        means = np.array([values[numbers == turn].mean() for turn in present])
        reduced.append(_without_rounding(side, numbers, present, np.exp(means) if positive else means))
    return present, reduced


def _without_rounding(side: Floats, turns: Ints, present: Ints, means: Floats) -> Floats:
    """Set the mean of equal values to exactly that value, so that rounding makes no difference."""
    equal = [float(side[turns == turn][0]) if np.ptp(side[turns == turn]) == 0 else math.nan for turn in present]
    return np.where(np.isnan(equal), means, equal)


def spreads(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    cells: Cells,
    busy: frozenset[str],
) -> Iterator[LayoutSpread]:
    """Yield the spread between links, for each candidate and the relinked copy against the baseline, on the deciding time metric.

    Links are compared by their ratio to the baseline of the same block, because the level of the machine varies more from block
    to block than links differ.

    Args:
        experiment: one with layouts.
        variants: the baseline first; the copy that runs the same links is ignored.
        workloads: by name.
        cells: the runs, grouped.
        busy: loads under which the machine was busy.
    """
    baseline, *others = variants
    for suite, name in experiment.workloads:
        for load in experiment.loads:
            workload, found = workloads[name], cells.get((suite, name, load), {})
            # CPU time for work that computes, because it has the least noise.
            leading = [metric.name for metric in workload.metrics if metric.leads and metric.unit == "ns"]
            metric = leading[0] if leading else preferred_time(workload, load in busy)
            for variant in others:
                sides = found.get(baseline.label, Cell()), found.get(variant.label, Cell())
                ratios = _log_ratios(*sides, metric)
                turns = [layout_of(block, experiment.layouts) for block in ratios]
                lost = any(side.exclusion("") for side in sides)
                if variant.copy is not Copy.AGAIN and len(set(turns)) > 1 and not lost:
                    values = np.array(list(ratios.values()))
                    means = [values[np.array(turns) == turn].mean() for turn in set(turns)]
                    expected, p_value, deviation = spread_of(values, np.array(turns))
                    yield LayoutSpread(
                        suite=suite,
                        workload=name,
                        load=load,
                        metric=metric,
                        baseline=baseline,
                        candidate=variant,
                        same_code=variant.copy is Copy.RELINKED,
                        layouts=len(means),
                        blocks=len(turns),
                        low=math.exp(min(means)),
                        high=math.exp(max(means)),
                        expected=expected,
                        p_value=p_value,
                        deviation=deviation,
                    )


def _log_ratios(baseline: Cell, candidate: Cell, metric: str) -> dict[int, float]:
    """Return log(candidate / baseline) by block, where both values are above 0."""
    before, after = (
        dict(zip(*(each.tolist() for each in side.series(metric)), strict=True)) for side in (baseline, candidate)
    )
    return {
        block: math.log(after[block] / before[block])
        for block in sorted(before.keys() & after.keys())
        if before[block] > 0 and after[block] > 0
    }


def spread_of(logarithms: Floats, turns: Ints) -> tuple[float | None, float | None, float | None]:
    """Compare the means of groups of blocks by a permutation test.

    Args:
        logarithms: of the blocks' ratios, shape (blocks,).
        turns: the pair of links that each block ran, shape (blocks,); at least two different ones.

    Returns:
        The median range (largest / smallest mean) over random assignments of the blocks; the p-value of no difference; the
        standard deviation between pairs of links (random-effects analysis of variance). All None if no pair ran twice.
    """
    _, index, counts = np.unique(turns, return_inverse=True, return_counts=True)

    def range_of(assigned: Ints) -> float:
        return float(np.ptp(np.bincount(assigned, logarithms) / counts))

    groups, blocks = counts.size, turns.size
    if groups == blocks:
        return None, None, None
    random = np.random.default_rng(ASSIGNMENT_SEED)
    ranges = np.array([range_of(random.permutation(index)) for _ in range(ASSIGNMENTS)])
    means = np.bincount(index, logarithms) / counts
    within = float(np.square(logarithms - means[index]).sum()) / (blocks - groups)
    between = float((counts * np.square(means - logarithms.mean())).sum()) / (groups - 1)
    # The mean group size of an analysis of variance with unequal groups.
    each = (blocks - float(np.square(counts).sum()) / blocks) / (groups - 1)
    deviation = math.sqrt(max(0.0, (between - within) / each))
    at_least = int((ranges >= range_of(index) - 1e-12).sum())
    return math.exp(median(ranges)), (1 + at_least) / (1 + ASSIGNMENTS), deviation
