# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runs so far, by block and place: what a block needs of them is what a scan of all of them finds."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core import plan
from swapstone.core.model import CURRENT_RULES, Run, Status
from swapstone.core.plan.stopping import MadeRuns
from tests.unit import builders

EXPERIMENT = builders.experiment(rules=CURRENT_RULES, failures_count=True)
RUNS = list(builders.runs(EXPERIMENT, 5))
LAST = max(run.trial.block for run in RUNS)


@given(st.lists(st.sampled_from(list(Status)), min_size=len(RUNS), max_size=len(RUNS)), st.integers(0, len(RUNS)))
def test_each_block_finds_what_a_scan_finds(statuses: list[Status], earlier: int) -> None:
    runs = [
        msgspec.structs.replace(run, status=status, elapsed_ns=number**2)
        for number, (run, status) in enumerate(zip(RUNS, statuses, strict=True))
    ]
    made, waiting = MadeRuns(runs[:earlier]), runs[earlier:]
    seen: list[Run] = runs[:earlier]
    assert all((run.trial in made) == (run in seen) for run in runs)
    for block in range(LAST + 1):
        while waiting and waiting[0].trial.block <= block:
            seen.append(waiting[0])
            made.add(waiting.pop(0))
        so_far = [run for run in seen if run.trial.block <= block]
        assert list(made.of_block(block)) == [run for run in seen if run.trial.block == block]
        assert list(made.up_to(block)) == so_far
        assert made.elapsed_ns(block) == sum(run.elapsed_ns for run in so_far)
        given_up = plan.given_up(EXPERIMENT, seen, block)
        assert plan.given_up(EXPERIMENT, made.of_troubled_places(), block) == given_up
        for suite, workload, load, variant in given_up:
            of_place = [run for run in seen if run.trial.workload == workload and run.trial.variant == variant]
            assert list(made.of_place(suite, workload, load, variant)) == of_place


def test_the_list_of_runs_grows_in_place() -> None:
    made = MadeRuns(RUNS)
    first = made.up_to(1)
    assert made.up_to(2) is first and made.up_to(2) == [run for run in RUNS if run.trial.block <= 2]
    assert MadeRuns().up_to(3) == [] and MadeRuns().of_block(1) == () and MadeRuns().elapsed_ns(0) == 0
