# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time and memory of analysing many runs.

    benchmarks/analysis                  100,000 runs, held in memory: some seconds
    benchmarks/analysis --runs 1000000   a million runs, each made when it is read, as a record's are: half a minute

Processor time, because machines are busy; and the process's peak resident size so far.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from typing import overload

import msgspec
import numpy as np
from benchmarks.shared import parser_of

from swapstone.core.comparison import analyse
from swapstone.core.model import (
    CURRENT_RULES,
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
from swapstone.core.plan import variants

METRICS = tuple(
    Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=name, leads=name == "cpu")
    for name in ("wall", "cpu", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9")
)


WORKLOADS, RUNS = 50, 100_000


class MadeRuns(Sequence[Run]):
    """Runs of two variants of each workload, one of each in each block. A run is made each time it is read.

    Args:
        runs: their number.
        labels: of the two variants.
    """

    def __init__(self, runs: int, labels: Sequence[str]) -> None:
        self._labels, self._blocks = labels, runs // (WORKLOADS * 2)
        random = np.random.default_rng(3)
        self._values = random.lognormal(10, 0.1, (WORKLOADS, 2, self._blocks, len(METRICS)))
        self._first = random.integers(0, 2, (WORKLOADS, self._blocks))

    def __len__(self) -> int:
        return self._blocks * 2 * WORKLOADS

    @overload
    def __getitem__(self, number: int) -> Run: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Run]: ...

    def __getitem__(self, number: int | slice) -> Run | Sequence[Run]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        place, block = divmod(range(len(self))[number], self._blocks)
        workload, variant = divmod(place, 2)
        values = self._values[workload, variant, block].tolist()
        return Run(
            trial=Trial(
                suite="s",
                workload=f"w{workload}",
                load="idle",
                variant=self._labels[variant],
                block=block + 1,
                position=int(self._first[workload, block] != variant),
            ),
            status=Status.OK,
            samples=tuple(
                Sample(metric=metric.name, values=(value,)) for metric, value in zip(METRICS, values, strict=True)
            ),
        )


def experiment_of_runs() -> tuple[Experiment, dict[str, Workload]]:
    """Return the experiment of the runs, and its workloads."""
    names = [f"w{number}" for number in range(WORKLOADS)]
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
    return experiment, workloads


def timed(name: str, act: Callable[[], object]) -> None:
    """Print the processor time that a function takes, and the process's peak resident size so far."""
    start = time.process_time()
    act()
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:68} {took:7.2f} s   peak so far {peak:6.0f} MiB", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = parser_of("analysis", __doc__)
    parser.add_argument("--runs", type=int, help="analyse this number of runs, a multiple of 100")
    wanted = parser.parse_args(arguments).runs
    experiment, workloads = experiment_of_runs()
    both = variants(experiment)
    runs: Sequence[Run] = MadeRuns(wanted or RUNS, [variant.label for variant in both])
    if wanted:
        timed(f"{len(runs):,} runs are made", lambda: sum(1 for _ in runs))
    else:
        runs = list(runs)
    for words, rules in (("the first rules", 1), ("the current rules", CURRENT_RULES)):
        judged = msgspec.structs.replace(experiment, rules=rules)
        shape = f"500 comparisons x {len(runs) // WORKLOADS:,} values ({len(runs):,} runs), {words}"
        timed(shape, lambda judged=judged: analyse(judged, both, workloads, runs))  # type: ignore[misc]
