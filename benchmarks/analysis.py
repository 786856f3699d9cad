# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time and memory of analysing a million values, in three shapes. `benchmarks/analysis`."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

from swapstone.comparison import analyse
from swapstone.model import (
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    Quantity,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Workload,
)
from swapstone.plan import variants
from swapstone.stats import SignedRank, log_ratios

METRICS = tuple(
    Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=name, leads=name == "cpu")
    for name in ("wall", "cpu", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9")
)


def whole(found: SignedRank) -> None:
    """Compute everything that a row needs."""
    _ = found.p_value, found.estimate(), found.interval(0.05), found.smallest_visible(0.05)


def thousand_rows() -> None:
    """1000 comparisons of 500 pairs: 1000 values each."""
    random = np.random.default_rng(1)
    for _ in range(1000):
        baseline, candidate = random.lognormal(10, 0.1, (2, 500))
        whole(log_ratios(baseline, candidate))


def one_row() -> None:
    """One comparison of 500 thousand pairs."""
    baseline, candidate = np.random.default_rng(2).lognormal(10, 0.1, (2, 500_000))
    whole(log_ratios(baseline, candidate))


def experiment_and_runs() -> tuple[Experiment, dict[str, Workload], list[Run]]:
    """Return 50 workloads x 2 variants x 1000 blocks x 10 metrics."""
    random = np.random.default_rng(3)
    names = [f"w{number}" for number in range(50)]
    experiment = Experiment(
        name="compare",
        factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
        workloads=tuple(("s", name) for name in names),
        budget_ns=1,
        margin=0.02,
        confidence=0.95,
        seed=1,
    )
    workloads = {
        name: Workload(name=name, origin=Source(file="x.c"), description="", metrics=METRICS) for name in names
    }
    values = random.lognormal(10, 0.1, (50, 2, 1000, 10))
    runs = [
        Run(
            trial=Trial(suite="s", workload=name, load="idle", variant=variant.label, block=block + 1, position=0),
            status=Status.OK,
            samples=tuple(
                Sample(metric=metric.name, values=(value,))
                for metric, value in zip(METRICS, values[i, j, block].tolist(), strict=True)
            ),
        )
        for i, name in enumerate(names)
        for j, variant in enumerate(variants(experiment))
        for block in range(1000)
    ]
    return experiment, workloads, runs


def timed(name: str, act: Callable[[], object]) -> None:
    """Time a function, and print the time and the process's peak resident size so far."""
    start = time.perf_counter()
    act()
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:62} {took:7.2f} s   peak so far {peak:6.0f} MiB")


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(prog="benchmarks/analysis", description=__doc__).parse_args()
    timed("1000 comparisons x 1000 values, statistics alone", thousand_rows)
    timed("1 comparison x 10^6 values, statistics alone", one_row)
    experiment, workloads, runs = experiment_and_runs()
    timed(
        "500 comparisons x 2000 values (100 thousand runs), analyse()",
        lambda: analyse(experiment, variants(experiment), workloads, runs),
    )


if __name__ == "__main__":
    main()
