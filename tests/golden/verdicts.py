# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fixed analysis with a row of each verdict, for goldens and for tests of reports. Its numbers are synthetic, not measured."""

from __future__ import annotations

import functools

import msgspec
from tests.golden import synthetic

from swapstone.core.model import (
    CURRENT_RULES,
    REPORT_CORRECTION,
    Analysis,
    CarryOver,
    Caveat,
    CaveatKind,
    Comparison,
    Direction,
    Metric,
    Noise,
    RunSummary,
    Scale,
    Verdict,
)
from swapstone.core.report.context import ReportContext

PAIRS = 15
SHAPES: dict[Verdict, tuple[float, float]] = {
    Verdict.BETTER: (0.8, 0.81),
    Verdict.WORSE: (1.25, 1.26),
    Verdict.CHANGED: (1.4, 1.38),
    Verdict.EQUIVALENT: (1.001, 1.002),
    Verdict.BELOW_MARGIN: (1.0009, 1.0009),
    Verdict.SAME_MEDIAN: (1.003, 1.12),
    Verdict.WORSE_TAIL: (1.001, 1.45),
    Verdict.BETTER_TAIL: (0.999, 0.7),
    Verdict.MIXED: (0.9, 1.3),
    Verdict.INCONCLUSIVE: (1.01, 1.02),
}
"""Of each verdict with numbers: ratio of medians, ratio of means."""
REASONS = {
    Verdict.BELOW_MARGIN: "different, below the margin: +0.08960 % to +0.09040 %",
    Verdict.SAME_MEDIAN: "15 runs would miss a slow mode of less than 26 % of runs",
    Verdict.MIXED: "the median is 0.900 times, the mean 1.300 times",
    Verdict.INCONCLUSIVE: "the interval contains both no difference and one outside the margin (larger)",
    Verdict.DISTURBED: "it needs 4 processors, and had 2.3 of them at the median",
    Verdict.INVALID: "carry-over: after itself 6.3 ms and 22.6 ms, after the other 12.1 ms and 14.8 ms; try --prime 2",
    Verdict.UNAVAILABLE: "no uclibc here",
}
HALF = 0.008
WIDE = 0.06
NARROW = 0.000004
CARRIED = CarryOver(
    baseline_after_itself=6.3e6,
    baseline_after_other=12.1e6,
    candidate_after_itself=22.6e6,
    candidate_after_other=14.8e6,
    effect=0.341,
    p_value=0.0003,
    discarded=1,
    matters=True,
)


def row(verdict: Verdict, workload: str = "", metric: Metric = synthetic.WALL, *, bounded: bool = False) -> Comparison:
    """Return a row whose figures agree with its verdict.

    Args:
        verdict: of the row.
        workload: its name; empty for the verdict's.
        metric: of which a larger value is worse, but for the verdict `CHANGED`.
        bounded: whether its interval is the range of five pairs.
    """
    bare = Comparison(
        suite="own",
        workload=workload or f"prog-{verdict.value.replace(' ', '-')}",
        load="idle",
        metric=msgspec.structs.replace(metric, better=Direction.NEITHER) if verdict is Verdict.CHANGED else metric,
        baseline=synthetic.GLIBC,
        candidate=synthetic.MUSL,
        baseline_values=(),
        candidate_values=(),
        scale=Scale.RATIO,
        effect=None,
        low=None,
        high=None,
        confidence=0.99,
        p_value=None,
        smallest_visible=None,
        exact=False,
        verdict=verdict,
        reason=REASONS.get(verdict, ""),
        preferred=metric.name == "wall",
        carry_over=CARRIED if verdict is Verdict.INVALID else None,
    )
    if verdict not in SHAPES:
        return bare
    ratio, mean = SHAPES[verdict]
    half = WIDE if verdict is Verdict.INCONCLUSIVE else NARROW if verdict is Verdict.BELOW_MARGIN else HALF
    pairs = 5 if bounded else PAIRS
    before = tuple(2e6 + 1000.0 * n for n in range(pairs))
    after = tuple(ratio * value for value in before)
    tail = 30.0 if verdict in {Verdict.WORSE_TAIL, Verdict.MIXED} else 1.02
    exact = verdict is Verdict.BELOW_MARGIN
    return msgspec.structs.replace(
        bare,
        exact=exact,
        floor=0.00025 if exact else None,
        baseline_values=before,
        candidate_values=after,
        effect=ratio,
        low=ratio * (1 - half),
        high=ratio * (1 + half),
        confidence=0.9375 if bounded else 0.99,
        p_value=0.4 if verdict in {Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.INCONCLUSIVE} else 0.0002,
        smallest_visible=None if bounded else 1.013,
        mean_effect=mean,
        mean_low=mean * (1 - 3 * half),
        mean_high=mean * (1 + 3 * half),
        tail_p_value=0.0004 if verdict in {Verdict.WORSE_TAIL, Verdict.BETTER_TAIL, Verdict.MIXED} else 0.6,
        baseline_runs=RunSummary(runs=pairs, mean=2.1e6, p90=2.2e6, maximum=3.3e6),
        candidate_runs=RunSummary(runs=pairs, mean=2.1e6 * mean, p90=2.2e6 * ratio, maximum=3.3e6 * tail),
        rarest_mode=0.26 if verdict is Verdict.SAME_MEDIAN else 0.05,
        observed_s=12.0,
        bounded=bounded,
    )


COMPARED = tuple(verdict for verdict in Verdict if verdict is not Verdict.MEASURED)
"""Those of two variants."""


@functools.cache
def analysis() -> Analysis:
    """Return an analysis with a row of each verdict, a bounded one, a second invalid one, and the caveats of their kinds."""
    rows = [row(verdict) for verdict in COMPARED]
    rows += [row(Verdict.WORSE, "prog-bounded", bounded=True), row(Verdict.INVALID, "prog-carries-too")]
    caveats = (
        Caveat(
            kind=CaveatKind.CARRY_OVER,
            message="2 of 14 rows depend on what ran before them.",
            hint="Raise --prime or --budget.",
        ),
        Caveat(kind=CaveatKind.DISTURBED_RUNS, message="1 of 14 rows lacked processors.", hint="Stop other programs."),
        Caveat(kind=CaveatKind.OUTPUT_NOT_COMPARED, message="What the program prints is not compared."),
        Caveat(kind=CaveatKind.SAME_FILE, message="Both variants run the same file."),
        Caveat(kind=CaveatKind.WRITES_FILES, message="The program writes files."),
    )
    return Analysis(
        comparisons=tuple(rows),
        indices=(),
        nulls=(),
        noise=Noise(cpu_pressure_percent=1.0, cpu_pressure_max_percent=2.0, steal_percent=0.0, load1=0.2, busy=False),
        caveats=caveats,
        failures=(),
        blocks=PAIRS,
        runs=440,
        correction="Benjamini-Hochberg over all rows of the report",
    )


def context() -> ReportContext:
    """Return the report context of the analysis: an experiment by the current rules."""
    old = synthetic.context(published="")
    experiment = msgspec.structs.replace(
        old.experiment,
        published="",
        rules=CURRENT_RULES,
        correction=REPORT_CORRECTION,
        confidence=0.99,
        null=False,
        workloads=tuple(("own", each.workload) for each in analysis().comparisons),
    )
    return msgspec.structs.replace(old, experiment=experiment, notes=())
