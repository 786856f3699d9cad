# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows: one metric of one candidate against the baseline, with the inference on its pairs and the corrected level of its family.

`ErrorRates` decides which hypotheses share one error rate, and the level of each interval that follows.

`Findings` is the result of checking the assumptions of rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import CandidatesOf, Cell, Cells, Group, metrics_of
from swapstone.core.comparison.exact_floors import ExactEffects, Exactness, exact_effects
from swapstone.core.comparison.layout_spread import by_turn, whole_cycles
from swapstone.core.comparison.means import tail_p_value, unit_means, with_discarded
from swapstone.core.comparison.pairs import EXACT_PAIRS, most_hypotheses, pairs_for
from swapstone.core.comparison.run_table import RunTable
from swapstone.core.model import (
    BALANCED_ORDER,
    REPORT_CORRECTION,
    TAIL_RULES,
    CarryOver,
    Caveat,
    Copy,
    Direction,
    Experiment,
    FailureRates,
    Metric,
    Scale,
    Variant,
    Verdict,
    WorkSpec,
    layout_of,
)
from swapstone.core.stats import (
    AverageEffect,
    Floats,
    Inference,
    Interval,
    Ints,
    KnownCentre,
    SampleMedian,
    SignedRank,
    common_level,
    differences,
    log_ratios,
    mean_contrast,
    mean_ratio,
    median,
    median_contrast,
)


class Family(msgspec.Struct, frozen=True):
    """Hypotheses that may be corrected together.

    Attributes:
        name: distinguishes the families of the correction ``family``.
        copy: the copy of the baseline that is compared; None for candidates, which are corrected together because every level is another
            chance of a false difference.
    """

    name: Hashable
    copy: Variant | None = None


class ErrorRates:
    """The level of every interval: see `swapstone.core.stats.common_level`.

    With the correction ``report`` all hypotheses about candidates are one family, and all about a copy of the baseline another one. If
    nothing differs, the probability that any of them is rejected is then at most 1 - confidence. With ``family`` each `Family` has that
    rate for itself. Of two sessions each interval has half of the error: see `swapstone.core.comparison.session_effect`.

    Args:
        experiment: gives the correction, and the confidence before it.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._together = experiment.correction == REPORT_CORRECTION
        self.plain = (1 - experiment.confidence) / (2 if experiment.earlier else 1)
        self._p_values: dict[Family, list[float]] = {}
        self._levels: dict[Family, float] = {}

    def add(self, family: Family, p_values: Iterable[float | None]) -> None:
        """Add hypotheses; None is no hypothesis."""
        known = [value for value in p_values if value is not None]
        if known:
            self._p_values.setdefault(self.corrected(family), []).extend(known)
            self._levels.clear()

    def corrected(self, family: Family) -> Family:
        """Return the family with which a family's hypotheses are corrected."""
        return Family("report", family.copy) if self._together else family

    def level(self, family: Family) -> float:
        """Return the alpha of a family's intervals, after all hypotheses are added; the plain one for a family without any."""
        key = self.corrected(family)
        if key not in self._levels:
            values = self._p_values.get(key)
            self._levels[key] = common_level(values, self.plain) if values else self.plain
        return self._levels[key]


SizeValues = Mapping[tuple[str, str, str], Sequence[tuple[Metric, float]]]
"""Sizes of a program, by (suite, workload, variant label)."""

MEDIANS_ALPHA = 0.05
"""Error of the interval of the ratio of medians, not corrected for the number of rows: it can only withhold a direction."""

AGAINST_BASELINE = (-1.0, 1.0)
"""Weights of baseline and candidate in a contrast."""

LARGEST_LOG_RATIO = 300.0
"""A pair whose log ratio exceeds this is compared by its difference, so that no ratio overflows."""


class Row(msgspec.Struct, frozen=True, dict=True):
    """One comparison before its verdict.

    Attributes:
        group: (suite, workload, load).
        metric, workload: what was measured.
        baseline, candidate: the two variants.
        null: whether the candidate is a copy of the baseline.
        blocks: numbers of the blocks with a pair of runs, ascending; with layouts, of the layouts with such a block; with
            balanced orders, of the complete cycles. Shape (pairs,).
        before, after: the values of baseline and candidate, shape (pairs,).
        constant: whether each side had the same value in all blocks, in enough blocks to rely on it.
        exclusion: verdict and reason if the two can't be compared.
        rules: of the experiment. By the current ones the row has a test of its means.
        runs: the values of single runs of both sides, each of shape (runs,); those of `before` and `after`, but with layouts. Discarded
            runs of the same quantity (`swapstone.core.comparison.cells.Cell`) follow, but with balanced orders.
        means: the arithmetic mean of each unit, of both sides, each of shape (pairs,), with those discarded runs.
        observed_s: time from the first to the last of these runs, in seconds; None where unknown, and on the virtual clock.
        unit: what `before` holds one value of: ``runs``, ``layouts`` or ``replicates``.
        must_last: whether equivalence needs runs that span some time: of own programs on the wall clock.
        exactness: how the pairs are judged if each has an exact difference; None if not.
    """

    group: Group
    workload: WorkSpec
    metric: Metric
    baseline: Variant
    candidate: Variant
    null: bool
    blocks: Ints
    before: Floats
    after: Floats
    constant: bool
    exclusion: tuple[Verdict, str] | None
    rules: int = 1
    runs: tuple[Floats, Floats] | None = None
    means: tuple[Floats, Floats] | None = None
    observed_s: float | None = None
    unit: str = "runs"
    must_last: bool = False
    exactness: Exactness | None = None

    @property
    def alone(self) -> bool:
        """Return whether it has the values of the only variant, compared with zero."""
        return self.baseline is self.candidate

    @property
    def level(self) -> float:
        """Return the magnitude of the baseline's median, at least one pair; of a row alone, of its own."""
        return abs(median(self.after if self.alone else self.before))

    @property
    def place(self) -> tuple[Group, str, str]:
        """Return which row it is: group, label of the candidate, name of the metric."""
        return self.group, self.candidate.label, self.metric.name

    @property
    def family(self) -> Family:
        """Return its family: the rows of one suite, load and quantity."""
        return Family((self.group[0], self.group[2], self.metric.quantity), self.candidate if self.null else None)

    @functools.cached_property
    def scale(self) -> Scale:
        """Return the scale of the effect: ratios if all values are above zero, else differences."""
        return scale_of(np.concatenate([self.before, self.after]))

    @functools.cached_property
    def inference(self) -> Inference | None:
        """Return the inference on the pairs, of log ratios or differences; None without values, or if the two can't be compared."""
        if self.exclusion or self.before.size == 0:
            return None
        if self.exact is not None and self.exact.known is not None:
            return self.exact.known
        ratio = self.scale is Scale.RATIO
        if self.constant:
            before, after = float(self.before[0]), float(self.after[0])
            return KnownCentre(math.log(after) - math.log(before) if ratio else after - before)
        if self.alone and self.exactness is not None:
            return KnownCentre(median(self.after), Interval(float(self.after.min()), float(self.after.max())))
        if self.alone:
            return SampleMedian(self.after)
        return (log_ratios if ratio else differences)(self.before, self.after)

    @functools.cached_property
    def effects(self) -> Floats:
        """Return the effect in each pair, shape (pairs,): log ratios or differences."""
        return np.log(self.after) - np.log(self.before) if self.scale is Scale.RATIO else self.after - self.before

    @functools.cached_property
    def exact(self) -> ExactEffects | None:
        """Return the effects if they are exact, of at least two pairs."""
        if self.exactness is None or self.exclusion or self.alone:
            return None
        return exact_effects(self.exactness, self.metric, self.effects, self.before, self.scale)

    @functools.cached_property
    def tail(self) -> tuple[float, bool] | None:
        """Return the p-value of equal means beside the medians, and whether the candidate's mean is larger: see `means.tail_p_value`.

        None for rows that don't vary, by the first rules, and for metrics of which neither direction is better.
        """
        if not isinstance(self.inference, SignedRank) or self.means is None or self.metric.better is Direction.NEITHER:
            return None
        before, after = self.means
        centre = self.inference.estimate()
        centred = after / np.exp(centre) if self.scale is Scale.RATIO else after - centre
        return tail_p_value(before, after, centred)

    @property
    def tail_family(self) -> Family:
        """Return the family of its test of the means: apart from that of the medians, unless all of a report are corrected together."""
        return Family(("tail", self.family.name), self.family.copy)

    @property
    def observed_runs(self) -> int:
        """Return how many independent runs of the smaller side could show a slow mode; with layouts, how many links."""
        return self.before.size

    def mean_effect(self, alpha: float) -> AverageEffect | None:
        """Return the ratio of the arithmetic means, or their difference on that scale, with its interval; None without values.

        Args:
            alpha: 1 - confidence of the interval.
        """
        if self.exclusion or self.means is None or self.before.size == 0:
            return None
        before, after = self.means
        ratio = self.scale is Scale.RATIO
        if self.constant:
            exact = float(after[0] / before[0] if ratio else after[0] - before[0])
            return AverageEffect(exact, Interval(exact, exact))
        if ratio:
            return mean_ratio(before, after, alpha)
        return mean_contrast(np.array([before, after]), AGAINST_BASELINE, alpha, ratio=False)

    def median_effect(self) -> AverageEffect:
        """Return the ratio of the medians of `before` and `after`, at least one pair, or their difference; interval at `MEDIANS_ALPHA`."""
        if self.alone and self.inference is not None:
            return AverageEffect(self.inference.estimate(), self.inference.interval(MEDIANS_ALPHA))
        sides = np.array([self.before, self.after])
        found = median_contrast(sides, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=self.scale is Scale.RATIO)
        return AverageEffect(found.effect, Interval(found.effect, found.effect)) if self.constant else found

    def limit(self, margin: float) -> float:
        """Return the largest effect inside the margin: log(1 + margin), or the margin times the baseline's median."""
        if self.scale is Scale.RATIO:
            return float(np.log1p(margin))
        return margin * self.level


def scale_of(values: Floats) -> Scale:
    """Return the scale of a comparison: ratios, unless a value is not above zero or the ratio is too large."""
    if values.size == 0 or values.min() <= 0:
        return Scale.RATIO if values.size == 0 else Scale.DIFFERENCE
    far = np.log(values.max()) - np.log(values.min()) > LARGEST_LOG_RATIO
    return Scale.DIFFERENCE if far else Scale.RATIO


def run_rows(
    experiment: Experiment,
    variants: Sequence[Variant],
    workloads: Mapping[str, WorkSpec],
    cells: Cells,
    candidates_of: CandidatesOf | None = None,
) -> Iterator[Row]:
    """Yield a row for every metric, workload, load and candidate, in the experiment's order.

    Args:
        experiment: gives workloads, loads and confidence.
        variants: the baseline first.
        workloads: by name.
        cells: the runs, grouped; a combination without runs gets a row without pairs.
        candidates_of: the candidates that get rows; None for all.
    """
    needed, current = pairs_for(experiment), experiment.rules >= TAIL_RULES
    exactness_of = exactnesses(experiment, variants, workloads)
    unit = "layouts" if experiment.layouts else "replicates" if experiment.virtual else "runs"
    baseline, *every = variants
    every = every or [baseline]
    for suite, name in experiment.workloads:
        for load in experiment.loads:
            candidates = every if candidates_of is None else candidates_of.get((suite, name, load), ())
            if not candidates:
                continue
            found = cells.get((suite, name, load), {})
            for metric in metrics_of(workloads[name], found.values()):
                exactness = exactness_of(metric, found)
                for candidate in candidates:
                    sides = found.get(baseline.label, Cell()), found.get(candidate.label, Cell())
                    blocks, (before, after) = _paired(*sides, metric.name)
                    more = [side.discarded_series(metric.name, blocks) for side in sides]
                    runs = np.append(before, more[0][1]), np.append(after, more[1][1])
                    means = with_discarded(before, *more[0]), with_discarded(after, *more[1])
                    observed_s = (
                        None if experiment.virtual else _observed_s(sides, blocks, apart=bool(experiment.earlier))
                    )
                    if experiment.layouts:
                        turns = [layout_of(block, experiment.layouts) for block in blocks.tolist()]
                        means = unit_means(means[0], turns), unit_means(means[1], turns)
                        blocks, (before, after) = by_turn(turns, (before, after))
                    elif experiment.order == BALANCED_ORDER:
                        cycles, whole = whole_cycles(blocks.tolist(), len(variants))
                        runs = before[whole], after[whole]
                        means = means[0][whole], means[1][whole]
                        if cycles:
                            means = unit_means(means[0], cycles), unit_means(means[1], cycles)
                        blocks, (before, after) = by_turn(cycles, runs)
                    null, enough = candidate.copy is not Copy.FIRST, EXACT_PAIRS if exactness else needed
                    if candidate is baseline:
                        before = np.zeros(after.size)
                        runs, means = ((np.zeros(each.size), each) for _, each in (runs, means))
                    yield Row(
                        group=(suite, name, load),
                        workload=workloads[name],
                        metric=metric,
                        baseline=baseline,
                        candidate=candidate,
                        null=null,
                        blocks=blocks,
                        before=before,
                        after=after,
                        constant=blocks.size >= enough
                        and all(side.min() == side.max() for side in (before, after, *means)),
                        exclusion=_exclusion(*sides, metric, blocks, alone=candidate is baseline),
                        rules=experiment.rules,
                        runs=runs if current else None,
                        means=means if current else None,
                        observed_s=observed_s,
                        unit=unit,
                        must_last=experiment.own is not None and not experiment.virtual,
                        exactness=exactness and exactness._replace(null_range=0.0) if null else exactness,
                    )


def size_rows(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], sizes: SizeValues
) -> Iterator[Row]:
    """Yield a row for every size of every program, under the experiment's first load: sizes depend on no load.

    The null copies get none, because a relinked copy is padded.

    Args:
        experiment: gives workloads and loads.
        variants: the baseline first.
        workloads: by name.
        sizes: a program that is missing here gets no rows.
    """
    baseline, *others = variants
    candidates = [variant for variant in others if variant.copy is Copy.FIRST] or ([] if others else [baseline])
    for suite, name in experiment.workloads:
        old = sizes.get((suite, name, baseline.label), ())
        for metric, size in old:
            for candidate in candidates:
                new = {other.name: value for other, value in sizes.get((suite, name, candidate.label), ())}
                if metric.name in new:
                    before = 0.0 if candidate is baseline else size
                    yield Row(
                        group=(suite, name, experiment.loads[0]),
                        workload=workloads[name],
                        metric=metric,
                        baseline=baseline,
                        candidate=candidate,
                        null=False,
                        blocks=np.empty(0, dtype=np.int64),
                        before=np.array([before], dtype=np.float64),
                        after=np.array([new[metric.name]], dtype=np.float64),
                        constant=True,
                        exclusion=None,
                    )


def exactnesses(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec]
) -> Callable[[Metric, Mapping[str, Cell]], Exactness | None]:
    """Return what returns how a metric's values are judged if they are exact, from the runs of a group by variant; None if they are not.

    Args:
        experiment: gives margin, confidence and which values are exact.
        variants: the baseline first.
        workloads: by name.
    """
    sample = pairs_for(experiment, most_hypotheses(experiment, variants, workloads))
    baseline, *copies = [each.label for each in variants if each is variants[0] or each.copy is not Copy.FIRST]

    def of(metric: Metric, found: Mapping[str, Cell]) -> Exactness | None:
        if not experiment.exact(metric):
            return None
        first = found.get(baseline, Cell())
        sides = [_paired(first, found.get(copy, Cell()), metric.name)[1] for copy in copies]
        apart = [0.0, *(float(each) for before, after in sides for each in after - before)]
        return Exactness(experiment.margin, sample, max(apart) - min(apart))

    return of


def _paired(baseline: Cell, candidate: Cell, metric: str) -> tuple[Ints, tuple[Floats, Floats]]:
    """Return the blocks in which both sides have a value of a metric, ascending, and the values of each side."""
    (one, before), (other, after) = baseline.series(metric), candidate.series(metric)
    if one.size == other.size and (one == other).all():
        return one, (before, after)
    blocks, first, second = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return blocks, (before[first], after[second])


def _observed_s(sides: Sequence[Cell], blocks: Ints, *, apart: bool) -> float | None:
    """Return the time from the first start to the last end of the runs of these blocks; None where a start is unknown.

    Of sides that are apart, which different sessions made, it is that of the side whose runs span less.
    """
    spans = [span for side in sides if (span := side.span_ns(blocks)) is not None]
    if not spans or min(start for start, _ in spans) <= 0:
        return None
    if apart:
        return min(end - start for start, end in spans) / 1e9
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9


def _exclusion(
    baseline: Cell, candidate: Cell, metric: Metric, blocks: Ints, *, alone: bool
) -> tuple[Verdict, str] | None:
    """Return the verdict and reason if the two can't be compared: a side is excluded, or there is no pair; else None.

    Args:
        baseline: its runs.
        candidate: its runs.
        metric: what was measured.
        blocks: that have a pair.
        alone: whether they are one variant.
    """
    exclusion = baseline.exclusion("it" if alone else "baseline") or candidate.exclusion("candidate")
    if exclusion or blocks.size:
        return exclusion
    if np.isin(baseline.blocks, candidate.blocks).any():
        return Verdict.UNAVAILABLE, "no run gave a value" if alone else f"no pair of runs gave a value of {metric.name}"
    return Verdict.INCONCLUSIVE, "no run" if alone else "no complete pair of runs"


Place = tuple[Group, str, str]
"""((suite, workload, load), label of the candidate, name of the metric): a row."""


class Findings(msgspec.Struct, frozen=True):
    """What a check found.

    Attributes:
        excluded: verdict and reason of rows that can't be judged.
        caveats: limits of the results.
        carry_overs: how runs depend on what ran before them, of the rows where that was tested.
        failure_rates: how often runs fail, of every workload, load and candidate.
    """

    excluded: Mapping[Place, tuple[Verdict, str]] = msgspec.field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    carry_overs: Mapping[Place, CarryOver] = msgspec.field(default_factory=dict)
    failure_rates: tuple[FailureRates, ...] = ()


Check = Callable[[Experiment, Sequence[Variant], Mapping[str, WorkSpec], RunTable], Findings]
"""A check of a row's assumptions; arguments as `swapstone.core.comparison.checks.check`."""


def wall_clock_caveats(find: Callable[[Experiment, RunTable], Iterable[Caveat]]) -> Check:
    """Return the check that gives the caveats found in the runs of an experiment on the wall clock, and none on the virtual clock."""

    def check(
        experiment: Experiment, _variants: Sequence[Variant], _workloads: Mapping[str, WorkSpec], table: RunTable
    ) -> Findings:
        return Findings() if experiment.virtual else Findings(caveats=tuple(find(experiment, table)))

    return check


def checked(rows: Iterable[Row], findings: Findings) -> list[Row]:
    """Return the rows, with the exclusions that the checks found.

    A row that is excluded already keeps its reason, unless all that is known of it is that it has no pairs: what a check found
    comes first then. Runs that were all disturbed have no pairs, and their outputs may still differ. A side of which no run was made
    has no pairs for another reason, which stays.
    """

    def exclusion(row: Row) -> tuple[Verdict, str] | None:
        found = findings.excluded.get(row.place)
        if row.exclusion is None:
            return found
        verdict, reason = row.exclusion
        no_run = verdict is Verdict.UNAVAILABLE and reason.startswith(("baseline: ", "candidate: "))
        without_pairs = verdict in (Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE) and not no_run
        return found if found and without_pairs else row.exclusion

    return [msgspec.structs.replace(row, exclusion=exclusion(row)) for row in rows]
