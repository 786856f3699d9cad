"""What an analysis says: comparisons, verdicts and caveats."""

from __future__ import annotations

import enum

from swapstone.model.experiment import Variant
from swapstone.model.frozen_struct import FrozenStruct
from swapstone.model.metric import Metric


class Verdict(enum.Enum):
    """What may be said of candidate against baseline, on one metric."""

    BETTER = "better"
    WORSE = "worse"
    CHANGED = "changed"  # differs, on a metric for which neither direction is better
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"


class Presence(enum.Enum):
    """What may be said of an interaction of two factors' levels."""

    PRESENT = "present"
    ABSENT = "absent"  # wholly inside the margin
    UNDECIDED = "undecided"
    UNAVAILABLE = "unavailable"  # a combination that it needs gave no numbers


class Scale(enum.Enum):
    """How an effect is expressed: candidate / baseline, or candidate - baseline (where a value is zero)."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


class CaveatKind(enum.Enum):
    """Reasons for distrust."""

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


class Caveat(FrozenStruct, frozen=True, kw_only=True):
    """A reason for distrust, with what would mend it."""

    kind: CaveatKind
    message: str
    hint: str = ""


class Comparison(FrozenStruct, frozen=True, kw_only=True):
    """Baseline against candidate on one metric of one workload under one load.

    Attributes:
        suite, workload, load: where.
        metric: what.
        baseline, candidate: the two variants.
        baseline_values, candidate_values: one number per run, paired by block, in the metric's unit. Runs without a partner
            are left out of both. Of an experiment with layouts, one number per layout: the mean of its runs, geometric where none is 0.
        scale: how `effect`, `low` and `high` are expressed.
        effect: Hodges-Lehmann estimate; a ratio (1.0: no difference) or a difference in the metric's unit; None without
            a single pair.
        low, high: interval around it at `confidence`; both None when there are too few pairs for one.
        confidence: the level that the interval really has, after correction, e.g. 0.9931.
        p_value: of no difference, uncorrected, two-sided.
        smallest_visible: the smallest effect (as a ratio above 1, or an absolute difference) that this many pairs with this
            noise would show as a difference with 80 % power; None where it can't be told.
        exact: true when every run of each side gave the same number (sizes, most memory figures): no inference was needed.
        verdict: what may be said.
        reason: why, for invalid, unavailable and inconclusive.
        preferred: whether this is the time metric to read first (CPU time on a busy machine, else wall).
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    baseline: Variant
    candidate: Variant
    baseline_values: tuple[float, ...]
    candidate_values: tuple[float, ...]
    scale: Scale
    effect: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    smallest_visible: float | None
    exact: bool
    verdict: Verdict
    reason: str = ""
    preferred: bool = False


class Index(FrozenStruct, frozen=True, kw_only=True):
    """Geometric mean over a suite's workloads of candidate / baseline.

    Attributes:
        suite, load, metric, baseline, candidate: of what.
        workloads: how many workloads entered it.
        blocks: how many blocks, each complete for all of them; of an experiment with layouts, how many layouts.
        effect, low, high: the ratio and its interval at `confidence`, which is corrected for the number of candidates. One candidate's
            index is one claim, and not corrected.
        layouts: whether `blocks` counts layouts.
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


class LayoutSpread(FrozenStruct, frozen=True, kw_only=True):
    """How far pairs of links differ: the same two codes, with functions and data in another order, at other addresses.

    Attributes:
        suite, workload, load: where.
        metric: which time.
        baseline, candidate: the two variants.
        same_code: whether the candidate is the relinked copy of the baseline: then two links of the same code are compared.
        layouts: how many pairs of links.
        blocks: how many blocks they ran in.
        low, high: the smallest and the largest ratio candidate / baseline of a pair of links, each the geometric mean over its blocks.
        expected: what `high` / `low` would be from the noise between blocks alone, the median over random assignments of the blocks
            to pairs; None where no pair ran twice.
        p_value: share of those assignments with such a spread or a larger one, Phipson and Smyth's (2010) estimate; None as before.
        deviation: standard deviation between pairs of the ratio's logarithm, the noise between blocks taken off (one-way random
            effects); a single link's is that by the square root of 2 where both sides vary alike. None as before.
    """

    suite: str
    workload: str
    load: str
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
    """One factor going from its baseline level to another."""

    factor: str
    baseline: str
    level: str

    @property
    def label(self) -> str:
        """Return the level as a variant's label has it, e.g. ``libc=musl``."""
        return f"{self.factor}={self.level}"


class FactorEffect(FrozenStruct, frozen=True, kw_only=True):
    """What one level of a factor does against the factor's baseline level, where factors are crossed.

    With nothing held it is the main effect: in each block, the mean over the combinations of the other factors' levels. With levels of
    other factors held it is a simple effect, averaged over the combinations of those that are not held.

    Attributes:
        suite, workload, load: where; without a workload it is of the suite's index, the geometric mean over its workloads.
        metric: what.
        change: which level, against which.
        held: pairs (factor, level), none for a main effect.
        averaged: the combinations of the factors neither changed nor held, over which it is the mean: those of which both sides gave
            numbers. One empty text where no factor is left to average over.
        missing: the combinations that could not enter.
        workloads: how many workloads entered it.
        blocks: how many blocks, each complete for every variant that entered.
        scale, effect, low, high, confidence, p_value, exact: as in `Comparison`.
        smallest_visible: as in `Comparison`, for an inconclusive main effect only.
        verdict, reason: as in `Comparison`.
        preferred: whether this is the time metric to read first.
        depends_on: of a main effect, the factors with one of whose levels this level has a present interaction: there the mean
            describes none of the combinations.
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    change: LevelChange
    held: tuple[tuple[str, str], ...]
    averaged: tuple[str, ...]
    missing: tuple[str, ...]
    workloads: int
    blocks: int
    scale: Scale
    effect: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    smallest_visible: float | None
    exact: bool
    verdict: Verdict
    reason: str = ""
    preferred: bool = False
    depends_on: tuple[str, ...] = ()


class Interaction(FrozenStruct, frozen=True, kw_only=True):
    """How the effect of one factor's level changes with another factor's level: a ratio of two ratios, or a difference of differences.

    Attributes:
        suite, workload, load, metric, averaged, missing, workloads, blocks, confidence, p_value, exact, preferred: as in `FactorEffect`.
        change: the level whose effect is looked at, of the factor that the experiment names first.
        by: the level that changes it.
        scale, effect, low, high: (effect of `change` with `by`) / (its effect with the baseline level of `by`), 1.0 for no interaction,
            and its interval; on the difference scale the one less the other, 0.0 for none.
        smallest_visible: the smallest interaction that would have been seen, as in `Comparison`, for an undecided one only.
        without, within: the effect of `change` with the baseline level of `by`, and with its other level: ratios or differences.
        closed: where the interaction is present and `without` is a difference by itself: which share of that gap, as a logarithm, is
            gone with `by`: 1.0 for all of it, below 0 where the gap is wider.
        presence: what may be said.
        reason: why, for undecided and unavailable.
    """

    suite: str
    workload: str
    load: str
    metric: Metric
    change: LevelChange
    by: LevelChange
    averaged: tuple[str, ...]
    missing: tuple[str, ...]
    workloads: int
    blocks: int
    scale: Scale
    effect: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    smallest_visible: float | None
    exact: bool
    without: float | None
    within: float | None
    closed: float | None
    presence: Presence
    reason: str = ""
    preferred: bool = False


class NullResult(FrozenStruct, frozen=True, kw_only=True):
    """How often a variant "differs" from itself: the false alarms of this very experiment.

    Attributes:
        copy: the copy that was compared with the baseline.
        compared: how many comparisons.
        different: how many of them got a verdict of better, worse or changed.
        rows: which, as ``workload metric``.
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
        cpu_pressure_percent: median share of wall time in which some task waited for a processor; None where unknown.
        cpu_pressure_max_percent: the largest over the runs; None where unknown.
        steal_percent: share of processor time that the hypervisor took, over all runs; None where unknown.
        load1: median one-minute load average; None where unknown.
        busy: whether the report leads with CPU time.
    """

    cpu_pressure_percent: float | None
    cpu_pressure_max_percent: float | None
    steal_percent: float | None
    load1: float | None
    busy: bool


class Latency(FrozenStruct, frozen=True, kw_only=True):
    """What one variant's wake-up latencies were under one load, over all draws: one draw's maximum is not *the* maximum.

    Attributes:
        suite, workload, load, variant: where.
        blocks: the draws that `maxima` are of, ascending: variants and loads of one block are the same draw.
        maxima, averages: one for each draw (block), ascending by block, in nanoseconds.
        histogram: of all draws together, pairs (lower edge in microseconds, how many) of bins 1 us wide, ascending.
        percentiles: pairs (percent, nanoseconds) of all draws together: the lower edge of the bin that holds it.
    """

    suite: str
    workload: str
    load: str
    variant: Variant
    blocks: tuple[int, ...]
    maxima: tuple[float, ...]
    averages: tuple[float, ...]
    histogram: tuple[tuple[int, int], ...]
    percentiles: tuple[tuple[float, float], ...]


class TimeSeries(FrozenStruct, frozen=True, kw_only=True):
    """Values sampled repeatedly during a run: one variant's, from the first block that has any.

    Attributes:
        suite, workload, load, variant, block: where.
        series: pairs (name, values); all equally long.
    """

    suite: str
    workload: str
    load: str
    variant: Variant
    block: int
    series: tuple[tuple[str, tuple[float, ...]], ...]


class WorkloadPrecision(FrozenStruct, frozen=True, kw_only=True):
    """How far a workload has come towards an answer, while its experiment runs.

    Attributes:
        suite, workload, load: which.
        pairs: complete pairs so far, the fewest over its candidates.
        half_width: widest half-width of the intervals that decide, as a ratio less 1 (0.012: plus or minus 1.2 %); None
            where there are too few pairs for an interval.
        lost: why more blocks can't give it a verdict (refused, failing or unavailable trials); empty when they can.
    """

    suite: str
    workload: str
    load: str
    pairs: int
    half_width: float | None
    lost: str = ""


class Failure(FrozenStruct, frozen=True, kw_only=True):
    """A trial without numbers, for the report's list."""

    key: str
    status: str
    reason: str


class Analysis(FrozenStruct, frozen=True, kw_only=True, rename={"time_series": "courses"}):
    """The result of an analysis of an experiment's runs.

    Attributes:
        comparisons: in the order of suites, workloads, loads, metrics, candidates; the nulls' own rows are among them
            (their candidate is the `copy` of one of `nulls`).
        indices: one per suite, load, time metric and candidate.
        nulls: empty unless the experiment asked for them.
        noise: how busy the machine was.
        caveats: reasons for distrust.
        failures: trials that gave no numbers.
        blocks: largest number of pairs that any comparison has.
        runs: how many runs were read, warm-up included.
        correction: name of the method that sets the level of the intervals.
        layouts: how far links of the same code differ, for the time that decides; empty unless the experiment has layouts.
        effects: of single levels, where two factors or more are crossed: main effects, then simple effects, each workload's before
            its suite's index.
        interactions: of two factors' levels, in the same order.
        latencies: of runs that have a histogram, in the order of workloads, loads and variants.
        time_series: of runs that have series, in the same order. JSON calls them ``courses``.
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
