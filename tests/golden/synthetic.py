# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fixed analysis with every kind of row, for goldens and for tests of reports. Its numbers are synthetic, not measured."""

from __future__ import annotations

import functools
import random
import statistics

from swapstone.core.model import (
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Copy,
    Direction,
    Experiment,
    FactorLevels,
    Failure,
    Index,
    Metric,
    Noise,
    NullResult,
    Quantity,
    Scale,
    Variant,
    Verdict,
)
from swapstone.core.report.context import ReportContext

GLIBC, MUSL = (Variant(levels=(("libc", level),)) for level in ("glibc", "musl"))
AGAIN = Variant(levels=GLIBC.levels, copy=Copy.AGAIN)


def _metric(name: str, unit: str, quantity: Quantity, better: Direction, meaning: str) -> Metric:
    return Metric(name=name, unit=unit, quantity=quantity, better=better, meaning=meaning)


WALL = _metric("wall", "ns", Quantity.TIME, Direction.LOWER, "elapsed time of one operation")
CPU = _metric("cpu", "ns", Quantity.TIME, Direction.LOWER, "processor time of one operation")
VIRT = _metric("virt", "B", Quantity.MEMORY, Direction.LOWER, "virtual memory at the end")
RES = _metric("res", "B", Quantity.MEMORY, Direction.LOWER, "resident memory at the end")
DIRTY = _metric("dirty", "B", Quantity.MEMORY, Direction.LOWER, "dirty memory at the end")
MAXRSS = _metric("maxrss", "B", Quantity.MEMORY, Direction.LOWER, "peak resident size")
MINFLT = _metric("minflt", "1", Quantity.EVENTS, Direction.LOWER, "minor page faults")
NVCSW = _metric("nvcsw", "1", Quantity.EVENTS, Direction.NEITHER, "voluntary context switches")
FILE = _metric("file", "B", Quantity.SIZE, Direction.LOWER, "the stripped program on disk")
TEXT = _metric("text", "B", Quantity.SIZE, Direction.LOWER, "code and constants")

# name, baseline ns, ratio, spread, verdict of time, (virt, res, dirty) of both in KiB
WORKLOADS: tuple[tuple[str, float, float, float, Verdict, tuple[int, int, int], tuple[int, int, int]], ...] = (
    ("b_malloc_sparse", 66.2e6, 1.171, 0.012, Verdict.WORSE, (38992, 38980, 38976), (8480, 8480, 8480)),
    ("b_malloc_bubble", 63.1e6, 1.208, 0.015, Verdict.WORSE, (39364, 39240, 39236), (156, 92, 92)),
    ("b_malloc_tiny1", 2.1e6, 1.62, 0.03, Verdict.WORSE, (688, 568, 564), (32, 32, 32)),
    ("b_malloc_big1", 14.2e6, 2.91, 0.05, Verdict.WORSE, (160, 32, 28), (24, 24, 24)),
    ("b_malloc_thread_stress", 31.5e6, 6.37, 0.12, Verdict.WORSE, (16808, 164, 160), (52, 52, 52)),
    ("b_string_strstr(abcd)", 11.2e6, 1.004, 0.004, Verdict.EQUIVALENT, (160, 20, 16), (16, 16, 16)),
    ("b_string_memset", 9.8e6, 0.771, 0.01, Verdict.BETTER, (160, 20, 16), (16, 16, 16)),
    ("b_string_strlen", 7.9e6, 0.983, 0.055, Verdict.INCONCLUSIVE, (160, 20, 16), (16, 16, 16)),
    ("b_pthread_createjoin_serial1", 271e6, 1.11, 0.02, Verdict.WORSE, (8352, 28, 24), (16, 16, 16)),
    ("b_pthread_createjoin_minimal2", 248e6, 1.09, 0.02, Verdict.INVALID, (41120, 76, 72), (16, 16, 16)),
    ("b_stdio_putcgetc", 133e6, 0.864, 0.011, Verdict.BETTER, (160, 24, 20), (16, 16, 16)),
    ("b_regex_compile", 42e6, 0.947, 0.008, Verdict.BETTER, (160, 32, 28), (40, 28, 28)),
)
BLOCKS = 20


def _timed(
    *, name: str, metric: Metric, base: float, ratio: float, spread: float, verdict: Verdict, first: bool
) -> Comparison:
    rng = random.Random(f"{name} {metric.name}")
    drift = [rng.gauss(0, spread) for _ in range(BLOCKS)]
    before = tuple(round(base * (1 + d + rng.gauss(0, spread / 2))) for d in drift)
    after = tuple(round(base * ratio * (1 + d + rng.gauss(0, spread / 2))) for d in drift)
    effect = statistics.median(b / a for a, b in zip(before, after, strict=True))
    half = spread * 0.9
    return Comparison(
        suite="libc",
        workload=name,
        load="idle",
        metric=metric,
        baseline=GLIBC,
        candidate=MUSL,
        baseline_values=tuple(map(float, before)),
        candidate_values=tuple(map(float, after)),
        scale=Scale.RATIO,
        effect=effect,
        low=effect * (1 - half),
        high=effect * (1 + half),
        confidence=0.9931,
        p_value=0.0004 if verdict is not Verdict.INCONCLUSIVE else 0.31,
        smallest_visible=1 + 1.4 * spread,
        exact=False,
        verdict=verdict,
        reason="another level was in force: glibc 2.36" if verdict is Verdict.INVALID else "",
        preferred=first,
    )


def _exact(name: str, metric: Metric, before: float, after: float, *, runs: int = BLOCKS) -> Comparison:
    same = before == after
    better = after < before
    zero = before == 0
    verdict = Verdict.EQUIVALENT if same else Verdict.BETTER if better else Verdict.WORSE
    if metric.better is Direction.NEITHER and not same:
        verdict = Verdict.CHANGED
    effect = after - before if zero else after / before
    return Comparison(
        suite="libc",
        workload=name,
        load="idle",
        metric=metric,
        baseline=GLIBC,
        candidate=MUSL,
        baseline_values=(float(before),) * runs,
        candidate_values=(float(after),) * runs,
        scale=Scale.DIFFERENCE if zero else Scale.RATIO,
        effect=effect,
        low=effect,
        high=effect,
        confidence=1.0,
        p_value=None,
        smallest_visible=None,
        exact=True,
        verdict=verdict,
    )


def _comparisons() -> tuple[Comparison, ...]:
    found: list[Comparison] = []
    for name, base, ratio, spread, verdict, before, after in WORKLOADS:
        threads = "thread" in name
        found.append(
            _timed(
                name=name,
                metric=WALL,
                base=base * 1.02,
                ratio=ratio,
                spread=spread * 1.6,
                verdict=verdict,
                first=threads,
            )
        )
        found.append(
            _timed(name=name, metric=CPU, base=base, ratio=ratio, spread=spread, verdict=verdict, first=not threads)
        )
        for metric, x, y in zip((VIRT, RES, DIRTY), before, after, strict=True):
            found.append(_exact(name, metric, x * 1024, y * 1024))
        found.append(_exact(name, MAXRSS, (before[1] + 1400) * 1024, (after[1] + 520) * 1024))
        found.append(_exact(name, MINFLT, before[1] // 4, after[1] // 4))
        found.append(_exact(name, NVCSW, 0, 3 if threads else 0))
        found.append(_exact(name, FILE, 14472, 13912, runs=1))
        found.append(_exact(name, TEXT, 2911, 2304, runs=1))
    return tuple(found)


def _index(candidate: Variant, effect: float, half: float, metric: str = "cpu") -> Index:
    return Index(
        suite="libc",
        load="idle",
        metric=metric,
        baseline=GLIBC,
        candidate=candidate,
        workloads=11,
        blocks=20,
        effect=effect,
        low=effect - half,
        high=effect + half,
        confidence=0.95,
    )


@functools.cache
def analysis() -> Analysis:
    """Return an analysis with every verdict, both scales, exact rows, caveats, failures, an index and nulls."""
    return Analysis(
        comparisons=_comparisons(),
        indices=(_index(MUSL, 1.344, 0.011), _index(MUSL, 1.361, 0.019, "wall")),
        nulls=(
            NullResult(
                copy=AGAIN,
                compared=54,
                different=1,
                rows=("b_malloc_tiny1 cpu",),
                index=(_index(AGAIN, 1.002, 0.004),),
            ),
        ),
        noise=Noise(cpu_pressure_percent=27.3, cpu_pressure_max_percent=61.0, steal_percent=0.4, load1=3.1, busy=True),
        caveats=(
            Caveat(
                kind=CaveatKind.BUSY_MACHINE,
                message="Other work waited for the processor in 27 % of the time.",
                hint="Stop it, or read the CPU time only.",
            ),
            Caveat(kind=CaveatKind.VIRTUAL_MACHINE, message="This is a virtual machine (kvm)."),
        ),
        failures=(
            Failure(
                key="0007/libc/b_pthread_createjoin_minimal2/idle/libc=musl",
                status="refused",
                reason="asked for musl, but glibc was in force",
            ),
        ),
        blocks=BLOCKS,
        runs=504,
        correction="holm",
    )


def context(*, published: str = "musl-vs-glibc") -> ReportContext:
    """Return the report context of the analysis."""
    return ReportContext(
        experiment=Experiment(
            name="musl-vs-glibc",
            factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
            workloads=tuple(("libc", row[0]) for row in WORKLOADS),
            budget_ns=120_000_000_000,
            margin=0.02,
            confidence=0.95,
            seed=7,
            null=True,
            published=published,
        ),
        record_id="20261121-104000-abcd",
        record_path="records/20261121-104000-abcd",
        seal_digest="0123456789abcdef" * 4,
        started_unix_ns=1_795_257_600_000_000_000,
        finished_unix_ns=1_795_257_723_000_000_000,
        facts=(
            ("processor", "Example CPU @ 2.1 GHz, 2 cores"),
            ("kernel", "Linux 6.1.0"),
            ("glibc", "2.36"),
            ("musl", "1.2.3"),
            ("compiler", "gcc 12.2.0"),
        ),
        rerun="swapstone rerun records/20261121-104000-abcd",
        published=published,
        notes=("One workload was left out: b_malloc_huge needs 8 GiB.",),
        version="0.1.0",
    )
