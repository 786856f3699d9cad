# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs are reduced to one value for each block."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.rows import run_rows
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, VIRTUAL_CLOCK, WALL_CLOCK, Sample, Status, Verdict
from swapstone.core.plan import variants
from tests.unit import builders
from tests.unit.comparison.conftest import Bench


@pytest.mark.parametrize("reverse", [False, True])
def test_discarded_runs_are_counted_and_give_no_value_in_any_order(reverse: bool) -> None:
    run = next(run for run in builders.runs(builders.experiment(), 1) if run.trial.block == 1)
    measured = msgspec.structs.replace(run, samples=(Sample(metric="wall", values=(3.0,)),))
    trial = msgspec.structs.replace(run.trial, prime=1)
    discarded = msgspec.structs.replace(
        run, trial=trial, samples=(Sample(metric="wall", values=(5.0,)),), elapsed_ns=77
    )
    runs = [discarded, measured]
    found = collect(as_table(runs[:: -1 if reverse else 1]))
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
    cell = collect(as_table(made))[run.trial.suite, run.trial.workload, run.trial.load][run.trial.variant]
    assert cell.exclusion("baseline") == (verdict and (verdict, "baseline: no compiler"))


def observed_s(*runs: tuple[str, int, float, float], clock: str = WALL_CLOCK) -> float | None:
    """Return the time that a row's runs span, of which each has a variant, a block, a start and a length in seconds."""
    bench = Bench(rules=CURRENT_RULES, clock=clock)
    bench.workload("w", "wall")
    for level, block, start, length in runs:
        bench.run("w", f"libc={level}", block, wall=1e9)
        times = {"started_unix_ns": round(start * 1e9), "elapsed_ns": round(length * 1e9)}
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], **times)
    experiment = bench.experiment
    (row,) = run_rows(experiment, variants(experiment), bench.workloads, collect(as_table(bench.runs)))
    return row.observed_s


FIRST, SECOND = (("glibc", 1, 10.0, 1.0), ("musl", 1, 20.0, 5.0)), (("musl", 2, 30.0, 1.0), ("glibc", 2, 40.0, 2.5))


def test_a_row_spans_the_time_from_its_first_start_to_its_last_end() -> None:
    assert observed_s(*FIRST, *SECOND) == 32.5
    assert observed_s(*FIRST) == 15.0
    assert observed_s(*SECOND, ("glibc", 3, 5.0, 100.0)) == 12.5  # that run has no partner
    assert observed_s(("glibc", 1, 30.0, 9.0), ("musl", 1, 31.0, 1.0)) == 9.0


def test_a_span_is_unknown_where_a_start_is() -> None:
    assert observed_s(*FIRST, ("musl", 2, 0.0, 1.0), ("glibc", 2, 40.0, 2.5)) is None
    assert observed_s(("glibc", 1, 1e-9, 1.0), ("musl", 1, 20.0, 5.0)) == pytest.approx(25.0)
    assert observed_s(FIRST[0]) is None
    assert observed_s(*FIRST, *SECOND, clock=VIRTUAL_CLOCK) is None
