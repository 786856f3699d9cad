# SPDX-License-Identifier: MIT OR Apache-2.0
"""The histograms of a variant's replicates become one distribution."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison.latencies import latencies
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import Run, Sample
from swapstone.core.stats import median_interval
from tests.unit import builders

PARTS = ({1: 50_000, 2: 40_000, 4: 90}, {2: 9_000, 3: 900, 5: 9, 6: 1})  # in microseconds


def test_the_percentiles_are_those_of_all_replicates_together() -> None:
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    runs = [
        msgspec.structs.replace(run, histogram=tuple(PARTS[run.trial.block - 1].items()))
        for run in builders.runs(subject, 2)
        if run.trial.block > 0
    ]
    for found in latencies(subject, plan.variants(subject), as_table(runs)):
        assert found.histogram == ((1, 50_000), (2, 49_000), (3, 900), (4, 90), (5, 9), (6, 1))
        assert found.percentiles == (
            (50.0, 1000.0),
            (99.0, 2000.0),
            (99.9, 3000.0),
            (99.99, 4000.0),
            (99.999, 5000.0),
        )


def made(blocks: int) -> list[Run]:
    """Return the runs of two variants. Each has a maximum, and histograms of two processors in any order."""
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    return [
        msgspec.structs.replace(
            run,
            histogram=((1, 3), (2, 4), (9, run.trial.block)),
            by_processor=((7, ((2, 4),)), (3, ((1, 3), (9, run.trial.block)))),
            samples=(Sample(metric="max", values=(float(run.trial.block**2),)),),
        )
        for run in builders.runs(subject, blocks)
    ]


def test_histograms_of_processors_are_added_up_and_in_their_order() -> None:
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    for found in latencies(subject, plan.variants(subject), as_table(made(3))):
        assert found.by_processor == ((3, ((1, 9), (9, 1 + 2 + 3))), (7, ((2, 12),)))


@pytest.mark.parametrize("blocks", [3, 8])
def test_maxima_have_an_interval_and_are_exceeded_by_chance_unless_they_are_exact(blocks: int) -> None:
    subject = builders.experiment(workloads=(("libc", "b_malloc_tiny1"),))
    maxima = tuple(float(block**2) for block in range(1, blocks + 1))
    for found in latencies(subject, plan.variants(subject), as_table(made(blocks))):
        assert found.maxima == maxima
        assert found.exceedance == 1 / (blocks + 1)
        assert found.median_interval == (None if blocks == 3 else median_interval(maxima) or ())
    virtual = msgspec.structs.replace(subject, clock="virtual")
    for found in latencies(virtual, plan.variants(virtual), as_table(made(blocks))):
        assert (found.median_interval, found.exceedance) == (None, None)
