# SPDX-License-Identifier: MIT OR Apache-2.0
"""Factorial analysis: main effects, simple effects and two-factor interactions of crossed factors.

Each is a contrast of logarithms within a block. The inference on its values is that of a comparison: the Hodges-Lehmann
estimate, and the interval that inverts the signed-rank test. docs/statistics.md, "Crossed factors", gives the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import Cell, Cells, metrics_of
from swapstone.core.comparison.contrast_estimates import Estimate, Measured, Series, estimate, index_estimate
from swapstone.core.comparison.factorial_contrasts import Contrast, contrasts
from swapstone.core.comparison.machine_noise import preferred_time
from swapstone.core.comparison.pairs import pairs_for
from swapstone.core.comparison.rows import Place, SizeValues, exactnesses
from swapstone.core.model import Copy, Experiment, Metric, Variant, Verdict, WorkSpec, grouped
from swapstone.core.model.metric import TIMES


def estimates(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    cells: Cells,
    *,
    sizes: SizeValues,
    busy: frozenset[str],
    excluded: Mapping[Place, tuple[Verdict, str]],
) -> list[Estimate]:
    """Estimate the effects and interactions of an experiment's factors.

    The main effect of level a is, in each block, the mean of log(value with a / value with the factor's baseline level) over
    the combinations of the other factors' levels. The interaction of a and b is the mean, over the combinations of the
    remaining factors, of log(a's ratio with b / a's ratio with b's baseline level). Interactions of three or more factors are
    not computed; the further factors are averaged over.

    A combination enters if every variant of it has values. It does not enter if a variant could not be built, was refused, or
    failed in most runs; `missing` lists those. The combinations are the same in all blocks of an estimate. A block enters if
    it has a run of each variant.

    Args:
        experiment: gives factors, workloads, loads and confidence.
        variants: of the experiment; copies of the baseline are ignored.
        workloads: by name.
        cells: the runs, grouped.
        sizes: of the programs.
        busy: the loads under which CPU time is read first.
        excluded: verdict and reason of comparisons with the baseline that can't be judged: their variants don't enter.

    Returns:
        The estimates, for `swapstone.core.comparison.factor_effects.judged`; none if fewer than two factors are varied.
    """
    questions = contrasts(experiment)
    if not questions:
        return []
    labels = [variant.label for variant in variants if variant.copy is Copy.FIRST]
    needed = pairs_for(experiment)
    measured = [
        *(without_excluded(each, excluded) for each in _of_runs(experiment, variants, workloads, cells, busy)),
        *_of_sizes(experiment, labels, sizes),
    ]
    found = [estimate(each, question, needed) for each in measured for question in questions]
    return [*found, *index_estimates(measured, questions, busy)]


def _of_runs(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    cells: Cells,
    busy: frozenset[str],
) -> Iterator[Measured]:
    labels = [variant.label for variant in variants if variant.copy is Copy.FIRST]
    exactness_of = exactnesses(experiment, variants, workloads)
    for suite, name in experiment.workloads:
        for load in experiment.loads:
            found = cells.get((suite, name, load), {})
            for metric in metrics_of(workloads[name], found.values()):
                series, lost = _series(labels, found, metric)
                preferred = metric.name == preferred_time(workloads[name], load in busy)
                yield Measured(
                    suite,
                    name,
                    load,
                    metric,
                    series,
                    lost,
                    certain=False,
                    preferred=preferred,
                    layouts=experiment.layouts,
                    exactness=exactness_of(metric, found),
                )


def _series(
    labels: Sequence[str], found: Mapping[str, Cell], metric: Metric
) -> tuple[dict[str, Series], dict[str, tuple[Verdict, str]]]:
    """Return the blocks and values of each variant, and why the others have none."""
    series: dict[str, Series] = {}
    lost: dict[str, tuple[Verdict, str]] = {}
    for label in labels:
        cell = found.get(label, Cell())
        values = cell.series(metric.name)
        exclusion = cell.exclusion(label)
        if exclusion:
            lost[label] = exclusion
        elif values[0].size:
            series[label] = values
        elif cell.blocks.size:
            lost[label] = Verdict.UNAVAILABLE, f"{label}: no run gave a value of {metric.name}"
        else:
            lost[label] = Verdict.INCONCLUSIVE, f"{label}: no run yet"
    return series, lost


def without_excluded(measured: Measured, excluded: Mapping[Place, tuple[Verdict, str]]) -> Measured:
    """Leave out the variants whose comparison with the baseline is excluded.

    Args:
        measured: values of a metric by variant.
        excluded: verdict and reason by row.

    Returns:
        Without the values of those variants, which `lost` names with the reason.
    """
    group = measured.suite, measured.workload, measured.load
    lost = dict(measured.lost)
    for label in (*measured.series, *measured.lost):
        verdict, reason = excluded.get((group, label, measured.metric.name), (None, ""))
        if verdict is Verdict.DISTURBED and lost.get(label, (Verdict.UNAVAILABLE,))[0] is Verdict.UNAVAILABLE:
            lost[label] = verdict, f"{label}: {reason}"  # its values left with the disturbed blocks
        elif verdict and label in measured.series:
            lost[label] = verdict, f"{label} {reason}"
    series = {label: values for label, values in measured.series.items() if label not in lost}
    return msgspec.structs.replace(measured, series=series, lost=lost)


def _of_sizes(experiment: Experiment, labels: Sequence[str], sizes: SizeValues) -> Iterator[Measured]:
    """Yield the sizes under the experiment's first load, as `swapstone.core.comparison.rows.size_rows` does."""
    for suite, name in experiment.workloads:
        known = {label: dict(sizes[suite, name, label]) for label in labels if (suite, name, label) in sizes}
        for metric in dict.fromkeys(metric for found in known.values() for metric in found):
            series = {
                label: (np.zeros(1, dtype=np.int64), np.array([found[metric]], dtype=np.float64))
                for label, found in known.items()
                if metric in found
            }
            lost = {
                label: (Verdict.UNAVAILABLE, f"{label}: there is no such program")
                for label in labels
                if label not in series
            }
            yield Measured(suite, name, experiment.loads[0], metric, series, lost, certain=True, preferred=False)


def index_estimates(
    measured: Sequence[Measured], questions: Sequence[Contrast], busy: frozenset[str]
) -> Iterator[Estimate]:
    """Yield the estimates of each suite, load and time together: of the geometric mean over the workloads whose times are all above 0.

    Args:
        measured: values of a metric of a workload, by variant.
        questions: the effects and interactions to estimate.
        busy: the loads under which CPU time is read first.
    """
    times = (each for each in measured if each.metric.name in TIMES and each.is_positive)
    for (_, load, metric), members in grouped(times, lambda each: (each.suite, each.load, each.metric.name)).items():
        for question in questions:
            found = index_estimate(members, question, preferred=metric == ("cpu" if load in busy else "wall"))
            if found is not None:
                yield found
