# SPDX-License-Identifier: MIT OR Apache-2.0
"""The histograms of a variant's replicates become one distribution."""

from __future__ import annotations

import msgspec

from swapstone import plan
from swapstone.comparison.latencies import latencies
from tests.unit import builders

PARTS = ({1: 50_000, 2: 40_000, 4: 90}, {2: 9_000, 3: 900, 5: 9, 6: 1})  # in microseconds


def test_the_percentiles_are_those_of_all_replicates_together() -> None:
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    runs = [
        msgspec.structs.replace(run, histogram=tuple(PARTS[run.trial.block - 1].items()))
        for run in builders.runs(subject, 2)
        if run.trial.block > 0
    ]
    for found in latencies(subject, plan.variants(subject), runs):
        assert found.histogram == ((1, 50_000), (2, 49_000), (3, 900), (4, 90), (5, 9), (6, 1))
        assert found.percentiles == (
            (50.0, 1000.0),
            (99.0, 2000.0),
            (99.9, 3000.0),
            (99.99, 4000.0),
            (99.999, 5000.0),
        )
