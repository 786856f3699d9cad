# SPDX-License-Identifier: MIT OR Apache-2.0
"""The results of an analysis: comparisons, effects, interactions, verdicts, caveats."""

from __future__ import annotations

import enum
import functools
import statistics

from swapstone.core.model.experiment import RunGroup, Variant, shown_levels
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.metric import Metric


class FailureCounts(FrozenStruct, frozen=True, kw_only=True):
    """How many runs of one side failed. All runs count, with the warm-up and those that are discarded.

    Attributes:
        runs: how many were attempted.
        failed: how many of them failed: the sum of the next three.
        timed_out: did not end within their time.
        crashed: were killed by a signal.
        others: failed in another way, e.g. by their exit status or by unreadable output.
        refused: ran at another level or did other work than requested. They are no failures.
        share, low, high: of failed runs, and its interval (Wilson 1927); the interval is 0 to 1 without runs.
    """

    runs: int
    failed: int
    timed_out: int
    crashed: int
    others: int
    refused: int
    share: float
    low: float
    high: float


FAST_ONES = "the runs that succeed may be the fast ones"
"""How the reason of a row ends that failures make invalid."""


WITHOUT_DIRECTION = "the pairs have a direction, medians and means don't agree"
"""How the reason of an inconclusive row begins whose interval excludes no difference."""


class FailureRates(RunGroup, frozen=True, kw_only=True):
    """How often the runs of baseline and candidate fail, on one workload under one load.

    Attributes:
        suite, workload, load: of the runs.
        baseline, candidate: the two variants.
        baseline_runs, candidate_runs: counts of each side.
        confidence: of the intervals of both shares, uncorrected.
        discordant: number of blocks in which one side has more failed runs than the other: what the p-value rests on.
        p_value: of equal rates, two-sided, uncorrected: signs of the blocks' differences are flipped, which is McNemar's exact test (1947)
            where a block has one run of each side.
        fails_more: the side that fails significantly more often, ``baseline`` or ``candidate``, corrected for all such tests of the
            report; else empty.
        unfit: the sides whose runs that succeed are no sample of all their runs, because too many fail or significantly more than of
            the other side: their rows are invalid.
    """

    baseline: Variant
    candidate: Variant
    baseline_runs: FailureCounts
    candidate_runs: FailureCounts
    confidence: float
    discordant: int
    p_value: float
    fails_more: str = ""
    unfit: tuple[str, ...] = ()

    @property
    def sides(self) -> dict[str, FailureCounts]:
        """Return the counts by side, ``baseline`` and ``candidate``."""
        return {"baseline": self.baseline_runs, "candidate": self.candidate_runs}


class Verdict(enum.Enum):
    """The decision about candidate against baseline, on one metric."""

    BETTER = "better"
    WORSE = "worse"
    CHANGED = "changed"  # differs, on a metric for which neither direction is better
    EQUIVALENT = "equivalent"
    BELOW_MARGIN = "below margin"  # exact values differ, within the margin
    SAME_MEDIAN = "same median"  # the median within the margin; the mean, or rare slow runs, not shown to be
    WORSE_TAIL = "worse tail"  # the same median, or an undecided one, and a worse mean
    BETTER_TAIL = "better tail"
    MIXED = "mixed"  # median and mean differ in opposite directions
    INCONCLUSIVE = "inconclusive"
    MEASURED = "measured"  # there is one variant: its value is stated, and compared with none
    DISTURBED = "disturbed"  # the machine did not give the work the processors that it needs
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"


NO_NUMBERS = (Verdict.DISTURBED, Verdict.INVALID, Verdict.UNAVAILABLE)
"""The runs can't be compared: no effect is printed, drawn or averaged."""

MEDIAN_DIFFERS = frozenset({Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED})
"""The median differs, and its sign is that of the verdict."""

SAME_CENTRE = frozenset({Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.BELOW_MARGIN})
"""The median is the same within the margin, and no tail is shown to differ."""

TAIL_DIFFERS = frozenset({Verdict.WORSE_TAIL, Verdict.BETTER_TAIL})
"""The median is the same or undecided, and the mean differs."""

DECIDED = MEDIAN_DIFFERS | TAIL_DIFFERS | {Verdict.MIXED}
"""A difference of the median or of the mean is shown."""


class Presence(enum.Enum):
    """The decision about an interaction of two factors' levels."""

    PRESENT = "present"
    ABSENT = "absent"  # the whole interval is within the margin
    UNDECIDED = "undecided"
    UNAVAILABLE = "unavailable"  # a combination of levels has no numbers


class Scale(enum.Enum):
    """How an effect is expressed: candidate / baseline, or candidate - baseline (where a value is zero); of one variant, its value."""

    RATIO = "ratio"
    DIFFERENCE = "difference"
    VALUE = "value"


class CaveatKind(enum.Enum):
    """Kinds of caveats."""

    BUSY_MACHINE = "busy-machine"
    STOLEN_TIME = "stolen-time"
    VIRTUAL_MACHINE = "virtual-machine"
    FEW_BLOCKS = "few-blocks"
    BUDGET_SPENT = "budget-spent"
    INTERRUPTED = "interrupted"
    RESUMED = "resumed"
    FAILED_TRIALS = "failed-trials"
    REFUSED_TRIALS = "refused-trials"
    DEPENDENT_RUNS = "dependent-runs"
    NULL_DIFFERS = "null-differs"
    DAMAGED_RECORD = "damaged-record"
    NOT_OBSERVED = "not-observed"
    CARRY_OVER = "carry-over"
    DISTURBED_RUNS = "disturbed-runs"
    OUTPUT_NOT_COMPARED = "output-not-compared"
    SAME_FILE = "same-file"
    PAGE_CACHE = "page-cache"
    WRITES_FILES = "writes-files"
    CHANGED_CONDITIONS = "changed-conditions"
    NOT_MEASURED = "not-measured"
    OTHER_SESSION = "other-session"


class Caveat(FrozenStruct, frozen=True, kw_only=True):
    """A limit of the results, with a hint how to remove it."""

    kind: CaveatKind
    message: str
    hint: str = ""


class RunSummary(FrozenStruct, frozen=True, kw_only=True):
    """Mean and tail of one side's runs, in the metric's unit.

    Attributes:
        runs: how many.
        mean: arithmetic.
        p90: 90th percentile: the smallest value that at least 90 % of the runs do not exceed.
        maximum: the largest value.
    """

    runs: int
    mean: float
    p90: float
    maximum: float


class CarryOver(FrozenStruct, frozen=True, kw_only=True):
    """How a run's value depends on which variant ran before it.

    Attributes:
        baseline_after_itself, baseline_after_other: geometric means of the baseline's runs, in the metric's unit, by what ran before.
        candidate_after_itself, candidate_after_other: the same of the candidate.
        effect: (candidate after the other / candidate after itself) / (baseline after the other / baseline after itself); 1.0 for none.
        p_value: of no such difference.
        discarded: how many runs of the same variant were made and discarded directly before each run that counts.
        matters: whether it could change the verdict: then the row is invalid.
    """

    baseline_after_itself: float
    baseline_after_other: float
    candidate_after_itself: float
    candidate_after_other: float
    effect: float
    p_value: float
    discarded: int
    matters: bool


class Estimate(RunGroup, frozen=True, kw_only=True):
    """An effect on one metric with its interval.

    Attributes:
        metric: of the values.
        scale: of `effect`, `low` and `high`.
        effect: Hodges-Lehmann estimate; a ratio (1.0: no difference) or a difference in the metric's unit; None without
            a single pair.
        low, high: interval around it at `confidence`; both None when there are too few pairs for one.
        confidence: the level of the interval after correction, e.g. 0.9931; 1.0 of the range of exact pairs, by rules 6.
        p_value: of no difference, uncorrected, two-sided.
        smallest_visible: minimum detectable effect at 80 % power with this number of pairs and this noise, as a ratio above 1 or an
            absolute difference; of exact pairs what all of them must exceed. None where it can't be computed.
        exact: whether no inference is needed: every run of each side has the same value (sizes, most memory figures), or each pair is
            exact; `low` and `high` are then the range of the pairs.
        reason: of an invalid, unavailable or inconclusive verdict, or of a difference below the margin.
        preferred: whether this is the time metric to read first (CPU time on a busy machine, else wall).
        floor: of exact values by rules 6: up to which difference the same work may differ, as a share of the baseline, or in the metric's
            unit on the difference scale. A difference beyond three floors in all pairs is stated. None for other rows.
    """

    metric: Metric
    scale: Scale
    effect: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    smallest_visible: float | None
    exact: bool
    reason: str = ""
    preferred: bool = False
    floor: float | None = None

    @property
    def one_number(self) -> bool:
        """Return whether it is exact, and the same in each pair."""
        return self.exact and self.low == self.high


class Comparison(Estimate, frozen=True, kw_only=True):
    """Baseline against candidate on one metric of one workload under one load.

    Of an experiment with one variant, both sides are that variant, the scale is `Scale.VALUE`, and every effect is a value in the metric's
    unit: `effect` is the median of its runs.

    Attributes:
        baseline, candidate: the two variants.
        baseline_values, candidate_values: one number per run, paired by block, in the metric's unit. Runs without a partner
            are left out. With layouts, one number per layout: the mean of its runs, geometric where no value is 0.
        verdict: the decision.
        mean_effect, mean_low, mean_high: ratio of the arithmetic means (a difference on the difference scale) and its interval; None where
            it can't be computed.
        median_effect, median_low, median_high: ratio of the medians of `baseline_values` and `candidate_values` (a difference on the
            difference scale) and its interval at 95 %, uncorrected; None where it can't be computed. By rules 3 a direction needs it.
        tail_p_value: of equal distributions, by a statistic that rare large values dominate; two-sided, uncorrected.
        baseline_runs, candidate_runs: mean, 90th percentile and maximum of each side; None without runs.
        rarest_mode: the smallest share of runs that a separate slow mode can have and still show up in these runs with 99 %
            probability; None for exact facts such as sizes.
        observed_s: time from the first to the last of the runs, in seconds; None where unknown.
        bounded: whether `low` and `high` are the range of the pairs, whose confidence needs no rank statistic: there are too few pairs for
            an interval, but every pair has the same sign.
        carry_over: how runs depend on what ran before them; None where it can't be tested.
    """

    baseline: Variant
    candidate: Variant
    baseline_values: tuple[float, ...]
    candidate_values: tuple[float, ...]
    verdict: Verdict
    mean_effect: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    median_effect: float | None = None
    median_low: float | None = None
    median_high: float | None = None
    tail_p_value: float | None = None
    baseline_runs: RunSummary | None = None
    candidate_runs: RunSummary | None = None
    rarest_mode: float | None = None
    observed_s: float | None = None
    bounded: bool = False
    carry_over: CarryOver | None = None

    @property
    def medians(self) -> tuple[float, float] | None:
        """Return the medians of both sides, in the metric's unit; None where a side has no value."""
        if not self.baseline_values or not self.candidate_values:
            return None
        return statistics.median(self.baseline_values), statistics.median(self.candidate_values)


class Index(FrozenStruct, frozen=True, kw_only=True):
    """Geometric mean over a suite's workloads of candidate / baseline.

    Attributes:
        suite, load, metric, baseline, candidate: of the comparisons.
        workloads: number of workloads.
        blocks: number of blocks that are complete for all workloads; with layouts, number of layouts; with `incomplete`, that of the
            workload with the fewest.
        effect, low, high: the ratio and its interval at `confidence`, corrected for the number of candidates. A single candidate's
            interval is not corrected.
        layouts: whether `blocks` counts layouts.
        incomplete: whether it is the mean of the workloads' own means, because few blocks are complete for all of them.
        median_effect, median_low, median_high: geometric mean of the workloads' ratios of medians, and its interval at 95 %, uncorrected;
            None by rules before 5.
        reason: why the interval shows no direction, though it excludes 1: the medians have another one; else empty.
    """

    suite: str
    load: str
    metric: str
    baseline: Variant
    candidate: Variant
    workloads: int
    blocks: int
    effect: float
    low: float | None
    high: float | None
    confidence: float
    layouts: bool = False
    incomplete: bool = False
    median_effect: float | None = None
    median_low: float | None = None
    median_high: float | None = None
    reason: str = ""


class LayoutSpread(RunGroup, frozen=True, kw_only=True):
    """The spread between pairs of links: the same code with functions and data in another order, at other addresses.

    Attributes:
        suite, workload, load: of the runs.
        metric: a time.
        baseline, candidate: the two variants.
        same_code: whether the candidate is the relinked copy of the baseline: then two links of the same code are compared.
        layouts: number of pairs of links.
        blocks: number of blocks in which they ran.
        low, high: the smallest and the largest ratio candidate / baseline of a pair of links, each the geometric mean over its blocks.
        expected: `high` / `low` from the noise between blocks alone: the median over random assignments of blocks to pairs; None
            where no pair ran twice.
        p_value: share of assignments with at least this spread (permutation test; Phipson and Smyth 2010); None where no pair ran twice.
        deviation: standard deviation between pairs of the ratio's logarithm, without the noise between blocks (one-way random effects);
            None where no pair ran twice. Where both sides vary alike, a single link's is smaller by the square root of 2.
    """

    metric: str
    baseline: Variant
    candidate: Variant
    same_code: bool
    layouts: int
    blocks: int
    low: float
    high: float
    expected: float | None
    p_value: float | None
    deviation: float | None


class LevelChange(FrozenStruct, frozen=True, kw_only=True):
    """A change of one factor from its baseline level to another level."""

    factor: str
    baseline: str
    level: str

    @property
    def label(self) -> str:
        """Return the changed level, e.g. ``libc=musl``."""
        return f"{self.factor}={self.level}"

    @property
    def shown(self) -> tuple[str, str]:
        """Return both levels as reports print them."""
        baseline, level = shown_levels((self.baseline, self.level))
        return baseline, level

    @property
    def shown_label(self) -> str:
        """Return the label as reports print it."""
        return f"{self.factor}={self.shown[1]}"


class CrossedEstimate(Estimate, frozen=True, kw_only=True):
    """An estimate where factors are crossed.

    Attributes:
        change: the level and its baseline level.
        averaged: combinations of the remaining factors' levels that are averaged: those with numbers on both sides. One empty text
            where no factor remains.
        missing: combinations without numbers.
        workloads: number of workloads.
        blocks: number of blocks that are complete for every variant of the mean.
        median_effect, median_low, median_high: the same contrast of the variants' medians, and its interval at 95 %, uncorrected; None by
            rules before 5, and where it can't be computed.
    """

    change: LevelChange
    averaged: tuple[str, ...]
    missing: tuple[str, ...]
    workloads: int
    blocks: int
    median_effect: float | None = None
    median_low: float | None = None
    median_high: float | None = None


class FactorEffect(CrossedEstimate, frozen=True, kw_only=True):
    """The effect of a factor's level against its baseline level, where factors are crossed.

    A main effect is the mean, in each block, over all combinations of the other factors' levels. A simple effect holds levels of other
    factors fixed, and is the mean over the combinations of the rest.

    Attributes:
        held: pairs (factor, level), none for a main effect.
        smallest_visible: for an inconclusive main effect only.
        verdict: the decision.
        depends_on: of a main effect, the factors that have a level with a present interaction. The mean then describes no combination.
    """

    held: tuple[tuple[str, str], ...]
    verdict: Verdict
    depends_on: tuple[str, ...] = ()


class Interaction(CrossedEstimate, frozen=True, kw_only=True):
    """How the effect of one factor's level changes with another factor's level: a ratio of two ratios, or a difference of differences.

    Attributes:
        change: a level of the factor that the experiment names first.
        by: a level of another factor, which changes the effect of `change`.
        scale, effect, low, high: (effect of `change` with `by`) / (its effect with the baseline level of `by`), 1.0 for no interaction,
            and its interval; on the difference scale one minus the other, 0.0 for none.
        smallest_visible: minimum detectable interaction, for an undecided one only.
        without, within: the effect of `change` with the baseline level of `by`, and with its other level: ratios or differences.
        closed: where the interaction is present and `without` is a difference: the share of that gap, as a logarithm, that `by` closes.
            1.0 for all of it, below 0 for a wider gap.
        presence: the decision.
        reason: of an undecided or unavailable interaction.
    """

    by: LevelChange
    without: float | None
    within: float | None
    closed: float | None
    presence: Presence


class NullResult(FrozenStruct, frozen=True, kw_only=True):
    """How often the baseline differs from a copy of itself: the false alarms of the experiment.

    Attributes:
        copy: the copy that was compared with the baseline.
        compared: number of comparisons.
        different: number of verdicts better, worse or changed among them.
        rows: those, as ``workload metric``.
        index: index of the copy against the baseline, on the preferred time metric, one per suite.
    """

    copy: Variant
    compared: int
    different: int
    rows: tuple[str, ...]
    index: tuple[Index, ...]


class Noise(FrozenStruct, frozen=True, kw_only=True):
    """How busy the machine was around the trials: medians and maxima over runs.

    Attributes:
        cpu_pressure_percent: median share of the time of a trial in which some task waited for a processor (PSI); None where unknown.
        cpu_pressure_max_percent: the largest over the runs; None where unknown.
        steal_percent: share of processor time that the hypervisor took, over all runs; None where unknown.
        load1: median one-minute load average; None where unknown.
        busy: whether CPU time is the time to read first.
    """

    cpu_pressure_percent: float | None
    cpu_pressure_max_percent: float | None
    steal_percent: float | None
    load1: float | None
    busy: bool


class Latency(RunGroup, frozen=True, kw_only=True):
    """The wake-up latencies of one variant under one load, over all replicates.

    Attributes:
        suite, workload, load, variant: of the runs.
        blocks: of `maxima`, ascending. A block is a replicate of all variants and loads.
        maxima, averages: one per block, in nanoseconds.
        histogram: of all blocks together, pairs (lower edge in microseconds, count) of bins of 1 us, ascending.
        percentiles: pairs (percent, lower edge of its bin in nanoseconds) of all blocks together.
        by_processor: on several processors, pairs (number of the processor, its histogram over all blocks); else empty.
        median_interval: of the median of the maxima, 95 %, in nanoseconds; None with too few blocks, and on the virtual clock.
        exceedance: the probability that one more block has a longer maximum than all of these, if blocks are exchangeable; None on the
            virtual clock.
    """

    variant: Variant
    blocks: tuple[int, ...]
    maxima: tuple[float, ...]
    averages: tuple[float, ...]
    histogram: tuple[tuple[int, int], ...]
    percentiles: tuple[tuple[float, float], ...]
    by_processor: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    median_interval: tuple[float, float] | None = None
    exceedance: float | None = None


class TimeSeries(RunGroup, frozen=True, kw_only=True):
    """Values sampled repeatedly during a run: one variant's, from the first block that has any.

    Attributes:
        suite, workload, load, variant, block: of the run.
        series: pairs (name, values); all equally long.
    """

    variant: Variant
    block: int
    series: tuple[tuple[str, tuple[float, ...]], ...]


class WorkloadPrecision(RunGroup, frozen=True, kw_only=True):
    """The precision of a workload's results while its experiment runs.

    Attributes:
        suite, workload, load: of the runs.
        pairs: complete pairs so far, the fewest over its candidates.
        half_width: widest half-width of the intervals that decide, as a ratio less 1 (0.012: plus or minus 1.2 %); None
            where there are too few pairs for an interval.
        lost: why more blocks give no verdict (refused, failing or unavailable trials); empty where they can.
        decided: whether each of these intervals has a verdict other than inconclusive now. It never stops an experiment.
        missing_runs: of an own program, how many more pairs it needs at least to be equivalent, or to have a direction; else 0.
        at_resolution: whether one of these intervals counts as narrow enough because it is as narrow as its metric's resolution.
    """

    pairs: int
    half_width: float | None
    lost: str = ""
    decided: bool = False
    missing_runs: int = 0
    at_resolution: bool = False


class Failure(FrozenStruct, frozen=True, kw_only=True):
    """A trial without numbers."""

    key: str
    status: str
    reason: str


class Analysis(FrozenStruct, frozen=True, kw_only=True, rename={"time_series": "courses"}, dict=True):
    """The result of an analysis of an experiment's runs.

    Attributes:
        comparisons: in the order of suites, workloads, loads, metrics, candidates. Comparisons with a copy of the baseline are included.
        indices: one per suite, load, time metric and candidate.
        nulls: one per copy of the baseline.
        noise: how busy the machine was.
        caveats: limits of the results.
        failures: trials without numbers.
        blocks: largest number of pairs of a comparison.
        runs: number of runs, warm-up included.
        correction: name of the method that sets the level of the intervals.
        layouts: spreads between links, for the time to read first; empty unless the experiment has layouts.
        effects: of single levels, where two factors or more are crossed: main effects, then simple effects, each workload's before
            its suite's index.
        interactions: of two factors' levels, in the same order.
        latencies: of runs that have a histogram, in the order of workloads, loads and variants.
        time_series: of runs that have series, in the same order. JSON calls them ``courses``.
        failure_rates: of every workload, load and candidate, in the order of the comparisons.
    """

    comparisons: tuple[Comparison, ...]
    indices: tuple[Index, ...]
    nulls: tuple[NullResult, ...]
    noise: Noise
    caveats: tuple[Caveat, ...]
    failures: tuple[Failure, ...]
    blocks: int
    runs: int
    correction: str
    layouts: tuple[LayoutSpread, ...] = ()
    effects: tuple[FactorEffect, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    latencies: tuple[Latency, ...] = ()
    time_series: tuple[TimeSeries, ...] = ()
    failure_rates: tuple[FailureRates, ...] = ()

    @functools.cached_property
    def copies(self) -> frozenset[Variant]:
        """Return the copies of the baseline: they test the measurement, and are no candidates."""
        return frozenset(null.copy for null in self.nulls)
