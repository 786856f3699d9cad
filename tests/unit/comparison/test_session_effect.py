# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of one variant, and two sessions of it: a difference counts only beyond that of the reference program."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.model import (
    BEFORE,
    CURRENT_RULES,
    NOW,
    OWN_SUITE,
    REPORT_CORRECTION,
    SESSION,
    VIRTUAL_CLOCK,
    Analysis,
    CaveatKind,
    Comparison,
    Experiment,
    FactorLevels,
    OwnProgram,
    Run,
    Sample,
    Scale,
    Status,
    Trial,
    Variant,
    Verdict,
    Workload,
    WorkloadPrecision,
)
from swapstone.core.plan.stopping import decide
from swapstone.core.record import Manifest
from swapstone.core.record.validation import experiment_problem
from swapstone.core.report.answer.outcome import FailIf, outcome_of, without_result
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.two_sessions import session_notes
from swapstone.core.stats import median_interval
from swapstone.core.workloads import REFERENCE as REFERENCE_PROGRAM
from swapstone.core.workloads import own_workload

PROGRAM, REFERENCE = (OWN_SUITE, "prog"), REFERENCE_PROGRAM
Values = Mapping[tuple[str, str], Sequence[float]]
"""Of each workload, its elapsed times in order."""


def experiment_of(*levels: str, workloads: Sequence[tuple[str, str]] = (PROGRAM, REFERENCE)) -> Experiment:
    return Experiment(
        name="compare",
        factors=(FactorLevels(factor=SESSION, levels=levels),),
        workloads=tuple(workloads),
        budget_ns=10**12,
        margin=0.02,
        confidence=0.99,
        seed=1,
        own=OwnProgram(name="prog", arguments=("/prog",)),
        rules=CURRENT_RULES,
        correction=REPORT_CORRECTION,
        failures_count=True,
    )


def runs_of(level: str, values: Values, start_ns: int, *, metric: str = "wall") -> Iterator[Run]:
    label = Variant(levels=((SESSION, level),)).label
    for (suite, name), every in values.items():
        for block, value in enumerate(every, start=1):
            yield Run(
                trial=Trial(suite=suite, workload=name, load="idle", variant=label, block=block, position=0),
                status=Status.OK,
                samples=(Sample(metric=metric, values=(float(value),)), Sample(metric="majflt", values=(0.0,))),
                started_unix_ns=start_ns + block * 10**9,
                elapsed_ns=10**6,
            )


def works(experiment: Experiment) -> dict[str, Workload]:
    found = own_workload(experiment, "prog")
    return {name: found for _, name in experiment.workloads}


def analysed(now: Values, then: Values | None = None) -> tuple[Experiment, Analysis]:
    experiment = experiment_of(*((BEFORE, NOW) if then else (NOW,)), workloads=tuple(now))
    runs = [*runs_of(NOW, now, 10**18), *(runs_of(BEFORE, then, 10**17) if then else ())]
    return experiment, analyse(experiment, plan.variants(experiment), works(experiment), runs)


def row(analysis: Analysis, place: tuple[str, str] = PROGRAM, metric: str = "wall") -> Comparison:
    (found,) = [c for c in analysis.comparisons if ((c.suite, c.workload), c.metric.name) == (place, metric)]
    return found


def noisy(level: float, seed: int, count: int = 40, spread: float = 0.003) -> list[float]:
    return list(level * np.exp(np.random.default_rng(seed).normal(0, spread, count)))


def test_a_value_is_the_median_with_the_interval_of_its_runs() -> None:
    values = noisy(12e6, 1, 25)
    experiment, analysis = analysed({PROGRAM: values, REFERENCE: noisy(9e6, 2, 25)})
    found = row(analysis)
    low, high = median_interval(values, 0.99) or (0, 0)
    assert (found.effect, found.low, found.high) == pytest.approx((float(np.median(values)), low, high))
    assert (found.scale, found.verdict, found.confidence) == (Scale.VALUE, Verdict.MEASURED, 0.99)
    assert found.baseline == found.candidate and found.baseline_values == found.candidate_values == tuple(values)
    assert found.mean_effect == pytest.approx(np.mean(values))
    assert (found.p_value, found.floor, found.bounded) == (None, None, False)
    assert not analysis.indices and not analysis.failure_rates
    assert outcome_of(analysis, experiment, (FailIf(),)).reason == ""


def test_a_value_that_never_varies_is_exact_and_zero_is_a_value() -> None:
    _, analysis = analysed({PROGRAM: noisy(12e6, 1, 20)})
    found = row(analysis, metric="majflt")
    assert (found.effect, found.low, found.high, found.exact) == (0.0, 0.0, 0.0, True)


def test_an_exact_value_has_the_range_of_its_replicates() -> None:
    experiment = msgspec.structs.replace(experiment_of(NOW, workloads=(PROGRAM,)), clock=VIRTUAL_CLOCK)
    runs = list(runs_of(NOW, {PROGRAM: [3e6, 1e6]}, 10**18))
    found = row(analyse(experiment, plan.variants(experiment), works(experiment), runs))
    assert (found.effect, found.low, found.high, found.exact) == (2e6, 1e6, 3e6, True)


def test_few_runs_have_a_median_and_no_interval() -> None:
    _, analysis = analysed({PROGRAM: [3e6, 1e6, 2e6]})
    found = row(analysis)
    assert (found.effect, found.low, found.high, found.verdict) == (2e6, None, None, Verdict.MEASURED)


def test_measuring_ends_when_the_interval_is_as_narrow_as_the_margin() -> None:
    experiment = experiment_of(NOW)
    for spread, decided in ((0.003, True), (0.3, False)):
        values = {PROGRAM: noisy(12e6, 1, 30, spread), REFERENCE: noisy(9e6, 2, 30)}
        found = precision(experiment, plan.variants(experiment), works(experiment), list(runs_of(NOW, values, 10**18)))
        width = found[*PROGRAM, "idle"].half_width
        assert width is not None and (width <= experiment.margin) == decided


def test_a_program_that_fails_has_no_result() -> None:
    experiment = experiment_of(NOW)
    runs = [
        Run(
            trial=Trial(
                suite=OWN_SUITE, workload="prog", load="idle", variant=f"{SESSION}={NOW}", block=block, position=0
            ),
            status=Status.FAILED,
            reason="it ended with status 1",
        )
        for block in range(1, 4)
    ]
    analysis = analyse(experiment, plan.variants(experiment), works(experiment), runs)
    assert {(each.verdict, each.reason) for each in without_result(analysis)} == {
        (Verdict.INVALID, "it fails: it ended with status 1 (3 of 3 runs)")
    }


def test_a_difference_beyond_the_session_is_stated_with_the_sum_of_both_intervals() -> None:
    then, now = {PROGRAM: noisy(10e6, 1)}, {PROGRAM: noisy(11e6, 2)}
    reference = {REFERENCE: noisy(9e6, 3)}, {REFERENCE: noisy(9e6 * 1.01, 4)}
    _, analysis = analysed(now | reference[1], then | reference[0])
    found, session = row(analysis), row(analysis, REFERENCE)
    assert found.verdict is Verdict.WORSE
    assert session.low is not None and session.high is not None
    bound = max(abs(math.log(session.low)), abs(math.log(session.high)))
    _, without = analysed(now, then)
    bare = row(without)
    assert found.low is not None and bare.low is not None and found.high is not None and bare.high is not None
    assert math.log(found.high / found.low) == pytest.approx(math.log(bare.high / bare.low) + 2 * bound)
    assert bare.confidence == session.confidence  # both together hold with less
    assert found.confidence == pytest.approx(bare.confidence + session.confidence - 1)
    assert found.mean_low is not None and bare.mean_low is not None
    assert found.mean_low == pytest.approx(bare.mean_low * math.exp(-bound))


@pytest.mark.parametrize("now", [1.015, 0.985])
def test_a_difference_that_the_reference_program_has_too_is_not_attributed(now: float) -> None:
    # The same factor in the opposite direction: the session may act on either program so.
    then = {PROGRAM: noisy(10e6, 1), REFERENCE: noisy(9e6, 3)}
    _, analysis = analysed({PROGRAM: noisy(10e6 * now, 2), REFERENCE: noisy(9e6 / now / now, 4)}, then)
    found = row(analysis)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason.startswith(
        "not beyond what the session itself changes: the reference program's wall differs by "
    )


def test_equal_needs_the_extended_interval_inside_the_margin() -> None:
    values = [noisy(10e6, seed, 150) for seed in (1, 2)]
    for factor, verdict in ((1.0, Verdict.EQUIVALENT), (1.05, Verdict.INCONCLUSIVE)):
        then = {PROGRAM: values[0], REFERENCE: noisy(9e6, 3, 150)}
        _, analysis = analysed({PROGRAM: values[1], REFERENCE: noisy(9e6 * factor, 4, 150)}, then)
        assert row(analysis).verdict is verdict, factor


def test_too_few_runs_of_the_reference_program_decide_nothing() -> None:
    then = {PROGRAM: noisy(10e6, 1), REFERENCE: noisy(9e6, 3, 3)}
    _, analysis = analysed({PROGRAM: noisy(20e6, 2), REFERENCE: noisy(9e6, 4, 3)}, then)
    assert row(analysis).verdict is Verdict.INCONCLUSIVE
    assert row(analysis).reason.endswith("has too few runs for an interval")


def test_the_reference_program_is_a_caveat_and_no_result() -> None:
    then = {PROGRAM: noisy(10e6, 1), REFERENCE: noisy(9e6, 3)}
    experiment, analysis = analysed({PROGRAM: noisy(10e6, 2), REFERENCE: noisy(18e6, 4)}, then)
    assert row(analysis, REFERENCE).verdict is Verdict.WORSE
    assert outcome_of(analysis, experiment, (FailIf(),)).reason == ""
    (caveat,) = [each for each in analysis.caveats if each.kind is CaveatKind.OTHER_SESSION]
    head = r"The two sessions are not interleaved\. The reference program itself differs by [0-9.]+ % \([0-9.]+ to [0-9.]+ %\): "
    assert re.match(head, caveat.message)


def test_the_time_that_runs_span_is_that_of_a_session_and_not_that_between_two() -> None:
    then = {PROGRAM: noisy(10e6, 1, 9), REFERENCE: noisy(9e6, 3, 9)}
    _, analysis = analysed({PROGRAM: noisy(10e6, 2, 9), REFERENCE: noisy(9e6, 4, 9)}, then)
    assert row(analysis).observed_s == pytest.approx(8.001)


def test_the_reference_program_is_measured_as_long_as_any_program() -> None:
    groups = [(*PROGRAM, "idle"), (*REFERENCE, "idle")]
    widths = dict(zip(groups, (0.3, 0.001), strict=True))

    def decided(experiment: Experiment) -> tuple[object, ...]:
        found = {
            group: WorkloadPrecision(suite=group[0], workload=group[1], load="idle", pairs=15, half_width=width)
            for group, width in widths.items()
        }
        return decide(experiment, still_open=groups, block=15, used_ns=1, next_block_ns=1, precisions=found).still_open

    assert decided(experiment_of(NOW)) == tuple(groups)
    assert decided(experiment_of(BEFORE, NOW)) == tuple(groups[:1])
    widths[groups[0]] = 0.001
    assert decided(experiment_of(NOW)) == ()


def test_an_earlier_session_is_not_planned_again() -> None:
    experiment = experiment_of(BEFORE, NOW)
    trials = plan.block(experiment, 1, plan.groups(experiment))
    assert {trial.variant for trial in trials} == {f"{SESSION}={NOW}"}
    alone = experiment_of(NOW)
    assert trials == plan.block(alone, 1, plan.groups(alone))


def test_the_first_runs_of_a_first_replicate_are_printed_at_once_on_the_exact_clock() -> None:
    for clock, count in ((VIRTUAL_CLOCK, 8), ("wall", 0)):
        experiment = msgspec.structs.replace(experiment_of(NOW, workloads=(PROGRAM,)), clock=clock, blocks=2)
        notes: list[str] = []
        progress = LineProgress(notes.append)
        progress.experiment_started(experiment, "")
        first, second = runs_of(NOW, {PROGRAM: [12_345_678.0, 1.0]}, 10**18)
        for run in (second, *[first] * 9):
            progress.measured(run)
        assert notes == ["First replicate: prog session=now idle: wall 12.3 ms"] * count


def test_what_differs_beside_the_program_is_listed() -> None:
    then = Manifest(machine=(("kernel", "Linux 6.1"), ("cpu", "Z80")), tools=(("cc", "12"),), artifacts=(), passes=())
    now = msgspec.structs.replace(then, machine=(("kernel", "Linux 6.2"), ("cpu", "Z80")), earlier=then)
    (note,) = session_notes(now)
    assert note == "Differs since: machine kernel: 'Linux 6.1' then, 'Linux 6.2' now."
    (note,) = session_notes(msgspec.structs.replace(then, earlier=then))
    assert note.startswith("Nothing else")
    assert not list(session_notes(then))


@pytest.mark.parametrize("levels", [(BEFORE,), (NOW, BEFORE), (BEFORE, NOW, "later"), ("now ",)])
def test_other_sessions_are_no_experiment(levels: tuple[str, ...]) -> None:
    assert "the factor session has other levels" in experiment_problem(experiment_of(*levels))
    assert not experiment_problem(experiment_of(BEFORE, NOW))
