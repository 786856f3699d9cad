# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record of one program, with the reference program beside it."""

from __future__ import annotations

import functools
import random

import msgspec
from tests.golden import synthetic

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import (
    CURRENT_RULES,
    NOW,
    OWN_SUITE,
    REPORT_CORRECTION,
    SESSION,
    Analysis,
    Experiment,
    FactorLevels,
    OwnProgram,
    Run,
    Sample,
    Status,
    Trial,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.workloads import REFERENCE, own_workload

EXPERIMENT = Experiment(
    name="compare",
    factors=(FactorLevels(factor=SESSION, levels=(NOW,)),),
    workloads=((OWN_SUITE, "prog"), REFERENCE),
    budget_ns=60_000_000_000,
    margin=0.02,
    confidence=0.99,
    seed=7,
    own=OwnProgram(name="prog", arguments=("/home/me/prog", "ARG")),
    rules=CURRENT_RULES,
    correction=REPORT_CORRECTION,
    failures_count=True,
)


@functools.cache
def analysis() -> Analysis:
    """Return the analysis of 20 runs of each program."""
    rng = random.Random(7)
    runs = []
    for block in range(1, 21):
        for (suite, name), wall_ns, bytes_ in zip(
            EXPERIMENT.workloads, (12_300_000, 9_100_000), (3 << 20, 2 << 20), strict=True
        ):
            wall = round(wall_ns * (1 + abs(rng.gauss(0, 0.01))))
            values = {"wall": wall, "cpu": round(0.98 * wall), "maxrss": bytes_, "minflt": 640 + block % 3, "majflt": 0}
            runs.append(
                Run(
                    trial=Trial(
                        suite=suite, workload=name, load="idle", variant=f"{SESSION}={NOW}", block=block, position=0
                    ),
                    status=Status.OK,
                    samples=tuple(Sample(metric=metric, values=(float(value),)) for metric, value in values.items()),
                )
            )
    workload = own_workload(EXPERIMENT, "prog")
    return analyse(EXPERIMENT, plan.variants(EXPERIMENT), {"prog": workload, REFERENCE[1]: workload}, runs)


def context() -> ReportContext:
    """Return the report context of the analysis."""
    return msgspec.structs.replace(
        synthetic.context(published=""), experiment=EXPERIMENT, command="-- /home/me/prog ARG", notes=()
    )
