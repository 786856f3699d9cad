# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs are reduced to one value for each block."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.comparison.cells import collect
from swapstone.model import Sample, Status, Verdict
from tests.unit import builders


@pytest.mark.parametrize("reverse", [False, True])
def test_discarded_runs_are_counted_and_give_no_value_in_any_order(reverse: bool) -> None:
    run = next(run for run in builders.runs(builders.experiment(), 1) if run.trial.block == 1)
    measured = msgspec.structs.replace(run, samples=(Sample(metric="wall", values=(3.0,)),))
    trial = msgspec.structs.replace(run.trial, prime=1)
    discarded = msgspec.structs.replace(
        run, trial=trial, samples=(Sample(metric="wall", values=(5.0,)),), elapsed_ns=77
    )
    runs = [discarded, measured]
    found = collect(runs[:: -1 if reverse else 1])
    cell = found[trial.suite, trial.workload, trial.load][trial.variant]
    assert cell.counts.total() == 2
    blocks, values = cell.series("wall")
    assert (blocks.tolist(), values.tolist()) == ([1], [3.0])
    assert cell.span_ns(cell.blocks) == (run.started_unix_ns, run.started_unix_ns + run.elapsed_ns)


@pytest.mark.parametrize(("statuses", "verdict"), [("U", Verdict.UNAVAILABLE), ("UO", None), ("OU", None)])
def test_a_variant_that_was_built_after_all_is_compared(statuses: str, verdict: Verdict | None) -> None:
    """A variant that could not be built in the first session may be built when the experiment is resumed."""
    run = next(run for run in builders.runs(builders.experiment(), 1) if run.trial.block == 1)
    made = [
        msgspec.structs.replace(
            run,
            trial=msgspec.structs.replace(run.trial, block=block),
            status=Status.OK if letter == "O" else Status.UNAVAILABLE,
            reason="" if letter == "O" else "no compiler",
        )
        for block, letter in enumerate(statuses, start=1)
    ]
    cell = collect(made)[run.trial.suite, run.trial.workload, run.trial.load][run.trial.variant]
    assert cell.exclusion("baseline") == (verdict and (verdict, "baseline: no compiler"))
