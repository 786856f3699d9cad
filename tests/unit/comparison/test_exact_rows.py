# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exact values: what is stated of planted differences, of the same work built in other ways, and of what depends on the replicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.comparison.exact_floors import FLOORS, STATED, Exactness, constant_floor
from swapstone.core.comparison.row_judgements import Outcome
from swapstone.core.comparison.side_by_side import side_by_side
from swapstone.core.comparison.verdicts import comparison
from swapstone.core.model import (
    CONTRAST_RULES,
    CURRENT_RULES,
    REPORT_CORRECTION,
    VIRTUAL_CLOCK,
    WALL_CLOCK,
    Analysis,
    CaveatKind,
    Comparison,
    Direction,
    Experiment,
    Metric,
    Presence,
    Quantity,
    Scale,
    Status,
    UserError,
    Verdict,
)
from swapstone.core.report import formatting
from swapstone.core.report.answer.conclusion import conclude
from swapstone.core.report.answer.figures import mean_cell
from swapstone.core.report.answer.means import mean_of, places_of
from swapstone.core.report.answer.outcome import FailIf, outcome_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics import factorial_answer, sentences
from swapstone.core.report.topics.comparison_answer import answer
from swapstone.core.session.outcome import check_fail_if
from swapstone.exit_status import ExitStatus
from swapstone.parts.explain.session.explain import has_other_medians
from tests.unit.comparison import crossing
from tests.unit.comparison.conftest import AGAIN, BASE, CANDIDATE, METRICS, RELINKED, Bench
from tests.unit.comparison.test_limits import row

Sides = tuple[Sequence[float], Sequence[float]]

STATES = {Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED, Verdict.BELOW_MARGIN}
MARGIN = 0.001


def counter(name: str, *, exact: bool = False, quantity: Quantity = Quantity.EVENTS, unit: str = "1") -> Metric:
    return Metric(name=name, unit=unit, quantity=quantity, better=Direction.LOWER, meaning=name, exact=exact)


USER, KERNEL, CALLS, FAULTS = map(counter, ("instructions", "kernel_instructions", "getppid", "minflt"))
WALL = METRICS["wall"]


def bench_of(
    works: Mapping[str, Mapping[Metric, Sides]],
    copies: Mapping[str, Mapping[Metric, Sequence[float]]] = {},
    **fields: Any,
) -> Bench:
    """Return an experiment by the current rules, on the exact clock, with the values of both sides by workload and metric."""
    usual = {"clock": VIRTUAL_CLOCK, "rules": CURRENT_RULES, "confidence": 0.99, "margin": MARGIN}
    bench = Bench(correction=REPORT_CORRECTION, null=bool(copies), **{**usual, **fields})
    for name, metrics in works.items():
        bench.workload(name)
        bench.workloads[name] = msgspec.structs.replace(bench.workloads[name], metrics=tuple(metrics))
        for at, variant in enumerate((BASE, CANDIDATE)):
            for block in range(len(next(iter(metrics.values()))[at])):
                values = {metric.name: float(sides[at][block]) for metric, sides in metrics.items()}
                bench.run(name, variant, block + 1, Status.OK, "idle", **values)
        for variant, of in copies.items():
            for block in range(len(next(iter(of.values())))):
                bench.run(
                    name,
                    variant,
                    block + 1,
                    Status.OK,
                    "idle",
                    **{metric.name: float(each[block]) for metric, each in of.items()},
                )
    return bench


def rows_of(bench: Bench, candidate: str = CANDIDATE) -> dict[str, Comparison]:
    return {c.metric.name: c for c in bench.analysis().comparisons if c.candidate.label == candidate}


def judged(metrics: Mapping[Metric, Sides], **fields: Any) -> dict[str, Comparison]:
    return rows_of(bench_of({"w": metrics}, **fields))


def program(
    instructions: float,
    replicates: int,
    seed: int,
    *,
    share: float = 0.0,
    calls: int = 0,
    faults: int = 0,
    way: float = 0.0,
) -> dict[Metric, Sides]:
    """Return counts of a program on both sides, and what is planted in the candidate.

    The kernel's instructions and guest time depend on the replicate, on both sides alike, by 0.6 % as measured.

    Args:
        instructions: in user mode.
        replicates: number of pairs.
        seed: of what depends on the replicate.
        share: more user work.
        calls: more system calls, each of 321 instructions.
        faults: more page faults, each of 3200 instructions.
        way: from -1 to 1: how far the build of the candidate moves each count, relative to the largest that was measured.
    """
    random = np.random.default_rng(seed)
    kernel = np.rint(0.11 * instructions * np.exp(random.uniform(-0.003, 0.003, replicates)))
    user = np.full(replicates, float(round(instructions)))
    more_user = round(share * instructions) + 10 * calls + round(700 * way)
    more_kernel = np.rint(321 * calls + 3200 * faults + kernel * 0.0036 * way)
    base = {USER: user, KERNEL: kernel, CALLS: np.full(replicates, 1000.0), FAULTS: np.full(replicates, 100.0)}
    new = {
        USER: user + more_user,
        KERNEL: kernel + more_kernel,
        CALLS: base[CALLS] + calls,
        FAULTS: base[FAULTS] + faults,
    }
    sides = {metric: (list(base[metric]), list(new[metric])) for metric in base}
    return {**sides, WALL: (list(user + kernel), list((user + kernel) * (1 + 0.00021 * way) + more_user + share * 0))}


@pytest.mark.parametrize("replicates", [2, 3])
@pytest.mark.parametrize("instructions", [5.2e6, 28.2e6, 1.9e9])
@pytest.mark.parametrize("share", [0.0002, 0.001, 0.005, 0.01])
def test_planted_work_in_user_mode_is_stated(instructions: float, share: float, replicates: int) -> None:
    found = judged(program(instructions, replicates, 7, share=share))
    user = found["instructions"]
    seen = share * instructions > STATED * 1000
    assert (user.verdict in STATES) == seen, "three floors of a small program are 3000 instructions"
    assert user.exact and user.low == user.high == user.effect == pytest.approx(1 + share, rel=1e-6)
    assert seen or user.verdict is Verdict.EQUIVALENT
    if seen:
        beyond = share > MARGIN * 1.0001
        assert user.verdict is (Verdict.WORSE if beyond else Verdict.BELOW_MARGIN) or share == MARGIN
    for name in ("getppid", "minflt"):
        assert (found[name].verdict, found[name].effect) == (Verdict.EQUIVALENT, 1.0), "nothing else moved"
    assert found["kernel_instructions"].verdict is Verdict.EQUIVALENT
    assert (found["wall"].verdict in STATES) == (share >= 0.001), "guest time has a floor of 0.025 %"


def test_the_figure_of_a_difference_below_the_margin_is_in_the_reason() -> None:
    (found,) = judged({WALL: ([31_000_000.0, 31_120_000.0], [31_027_930.0, 31_148_050.0])}).values()
    assert found.verdict is Verdict.BELOW_MARGIN and found.exact
    assert found.reason == "different, below the margin: +0.09010 % to +0.09013 %"
    assert found.low is not None and found.high is not None and 1.0009 < found.low < found.high < 1.000902
    assert (found.p_value, found.confidence) == (None, 1.0) and found.floor == pytest.approx(0.00025)


@pytest.mark.parametrize("replicates", [2, 3, 6])
def test_one_call_in_a_thousand_and_one_fault_in_a_hundred_are_stated(replicates: int) -> None:
    call = judged(program(28.2e6, replicates, 3, calls=1))
    assert call["getppid"].verdict in {Verdict.WORSE, Verdict.BELOW_MARGIN}
    assert (call["getppid"].effect, call["getppid"].floor) == (1.001, 0.0)
    assert call["instructions"].verdict is Verdict.EQUIVALENT, "ten instructions are below the floor"
    fault = judged(program(28.2e6, replicates, 3, faults=1))
    assert (fault["minflt"].verdict, fault["minflt"].effect) == (Verdict.WORSE, 1.01)


def test_a_call_that_was_not_made_before_is_a_difference() -> None:
    (found,) = judged({CALLS: ([0.0, 0.0], [2.0, 2.0])}).values()
    assert (found.verdict, found.scale, found.effect, found.low, found.high) == (
        Verdict.WORSE,
        Scale.DIFFERENCE,
        2.0,
        2.0,
        2.0,
    )
    assert formatting.estimate(found) == "+2"


def test_of_a_hundred_nulls_none_is_stated() -> None:
    """The same work, built in other ways: each count moves as far as the largest that was measured."""
    random = np.random.default_rng(11)
    for seed in range(100):
        way = float(random.uniform(-1, 1))
        found = judged(program(10 ** random.uniform(6.5, 9), int(random.integers(2, 8)), seed, way=way))
        assert not {c.metric.name for c in found.values() if c.verdict in STATES}, (seed, way)
        assert all(c.verdict is not Verdict.SAME_MEDIAN and not c.reason.startswith("few ") for c in found.values())
        assert all(c.exact and c.low is not None for c in found.values())


@pytest.mark.parametrize(("replicates", "most"), [(2, 0.11), (3, 0.03), (4, 0.015), (6, 0.035)])
def test_what_depends_on_the_replicate_is_rarely_stated(replicates: int, most: float) -> None:
    """Effects symmetric about 0, as of the worst case of a machine: two replicates have one sign in half of all cases."""
    random = np.random.default_rng(23)
    effects = np.exp(0.1 * random.normal(size=(400, replicates)))
    rows = (
        row(np.full(replicates, 1e6), 1e6 * each, exactness=Exactness(MARGIN, 8), unit="replicates") for each in effects
    )
    verdicts = [comparison(each, alpha=0.01, margin=MARGIN, preferred=True).verdict for each in rows]
    assert sum(each in STATES for each in verdicts) <= most * len(verdicts)


def test_signs_that_differ_state_nothing_and_name_the_range() -> None:
    (mixed,) = judged({WALL: ([1e6] * 3, [1.002e6, 0.997e6, 1.004e6])}).values()
    assert (mixed.verdict, mixed.exact, mixed.confidence) == (Verdict.INCONCLUSIVE, True, 1.0)
    assert mixed.reason == (
        "the difference does not exceed three floors (+0.07502 %) with one sign in all 3 pairs: -0.3000 % to +0.4000 %"
    )
    (far,) = judged({WALL: ([1e6] * 2, [1.02e6, 1.4e6])}).values()
    assert far.verdict is Verdict.INCONCLUSIVE
    assert far.reason.startswith(
        "the difference has one sign, and varies too much for a direction, in all 2 pairs: +2.000 %"
    )
    assert far.smallest_visible is not None and far.smallest_visible > 1.4


def test_beyond_the_margin_and_within_three_floors_is_inconclusive() -> None:
    (found,) = judged({KERNEL: ([8e6, 8e6], [8.04e6, 8.04e6])}).values()
    assert found.verdict is Verdict.INCONCLUSIVE and found.smallest_visible == pytest.approx(1.003**3)
    assert "three floors (+0.9027 %)" in found.reason and found.reason.endswith("+0.5000 %")
    (more,) = judged({KERNEL: ([8e6, 8e6], [8.1e6, 8.1e6])}).values()
    assert more.verdict is Verdict.WORSE


def test_many_replicates_with_both_signs_are_a_sample() -> None:
    random = np.random.default_rng(5)
    after = 1e6 * np.exp(random.normal(0.015, 0.01, 16))
    assert after.min() < 1e6 < after.max()
    (found,) = judged({WALL: ([1e6] * 16, list(after))}).values()
    assert (found.verdict, found.exact) == (Verdict.WORSE, False)
    assert found.p_value is not None and found.low is not None and found.low > 1


def test_the_sample_must_exceed_three_floors_too() -> None:
    random = np.random.default_rng(5)
    after = 8e6 * np.exp(random.normal(0.003, 0.0025, 16))
    (found,) = judged({KERNEL: ([8e6] * 16, list(after))}).values()
    assert found.p_value is not None and found.p_value < 0.01
    assert (found.verdict, found.reason) == (
        Verdict.INCONCLUSIVE,
        "the interval contains differences within three floors",
    )


def test_one_replicate_is_too_few() -> None:
    bench = bench_of({"w": {WALL: ([1e6], [2e6])}})
    (found,) = rows_of(bench).values()
    assert (found.verdict, found.reason) == (
        Verdict.INCONCLUSIVE,
        "few replicates: an interval needs 2 pairs, and there are 1",
    )
    assert [c.kind for c in bench.analysis().caveats] == [CaveatKind.FEW_BLOCKS]
    assert "too few pairs" not in str(bench_of({"w": {WALL: ([1e6] * 2, [2e6] * 2)}}).analysis().caveats)


def test_copies_of_the_baseline_raise_the_floor() -> None:
    relinked = [1.003e6, 1.003e6]
    for share, verdict in ((0.005, Verdict.INCONCLUSIVE), (0.01, Verdict.WORSE)):
        sides = {WALL: ([1e6, 1e6], [1e6 * (1 + share)] * 2)}
        (found,) = rows_of(bench_of({"w": sides}, {RELINKED: {WALL: relinked}})).values()
        assert found.verdict is verdict and found.floor == pytest.approx(0.003), share
        assert judged(sides)["wall"].verdict is Verdict.WORSE, "without copies the constant alone counts"


def test_the_range_is_that_of_all_copies_around_the_baseline() -> None:
    copies = {AGAIN: {WALL: [0.999e6, 1e6]}, RELINKED: {WALL: [1e6, 1.002e6]}}
    bench = bench_of({"w": {WALL: ([1e6, 1e6], [1.01e6] * 2)}}, copies, clock=WALL_CLOCK)
    bench.workloads["w"] = msgspec.structs.replace(
        bench.workloads["w"], metrics=(msgspec.structs.replace(WALL, exact=True),)
    )
    assert rows_of(bench)["wall"].floor == pytest.approx(0.003)
    assert rows_of(bench, RELINKED)["wall"].floor == pytest.approx(0.00025), "a copy is no measure of itself"


def test_a_deterministic_count_on_the_wall_clock() -> None:
    copies = counter("copies", exact=True)
    before, after = [8.0205, 8.021, 8.0205], [7.01, 7.0105, 7.01]
    found = judged({copies: (before, after)}, clock=WALL_CLOCK, margin=0.02)["copies"]
    assert (found.verdict, found.exact, formatting.estimate(found)) == (
        Verdict.BETTER,
        True,
        "-12.60 %",
    )
    assert judged({counter("copies"): (before, after)}, clock=WALL_CLOCK)["copies"].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "changes", [{"rules": CONTRAST_RULES}, {"processors": 2}, {"layouts": 2}, {"clock": WALL_CLOCK}]
)
def test_what_is_not_exact(changes: dict[str, Any]) -> None:
    """Records of earlier rules, machines with several processors, layouts, and times on the wall clock."""
    bench = bench_of({"w": {WALL: ([1e6] * 3, [1.01e6, 1.011e6, 1.01e6])}})
    assert bench.experiment.exact()
    experiment = msgspec.structs.replace(bench.experiment, **changes)
    assert not experiment.exact()
    (found,) = analyse(experiment, plan.variants(experiment), bench.workloads, bench.runs).comparisons
    assert (found.verdict, found.exact, found.floor, found.low) == (Verdict.INCONCLUSIVE, False, None, None)


def test_an_index_over_rows_of_opposite_signs_is_left_out() -> None:
    up, down, slight = (([1e6] * 2, [1e6 * ratio] * 2) for ratio in (1.02, 0.97, 0.9992))

    def of(*sides: Sides) -> Analysis:
        return bench_of({f"w{n}": {WALL: each} for n, each in enumerate(sides)}).analysis()

    assert not of(up, down).indices
    for found in (of(up, up), of(up, slight)):
        (index,) = found.indices
        assert index.low is not None and index.high is not None and index.low <= index.effect <= index.high
        assert index.blocks == 2
    (mean,) = places_of(of(up, up))[0].means
    assert mean.exact and mean_cell(mean).effect == "+2.000 %"
    assert mean_of([c for c in of(up, down).comparisons if c.candidate.label == CANDIDATE]) is None
    assert "new" not in headline(of(up, down)) and "no common ratio" in headline(of(up, down))
    assert "1 of 2 is slower and 1 faster" in headline(of(up, down))


EXACT_CLOCK: dict[str, Any] = {"clock": VIRTUAL_CLOCK, "rules": CURRENT_RULES, "confidence": 0.99, "margin": MARGIN}


def crossed(*effects: float, more: float = 0.0, **changes: Any) -> Analysis:
    """Return an analysis of two crossed factors in two replicates.

    Args:
        effects: of each workload: how many times as long it takes with the other libc.
        more: by how much longer with both other levels.
        changes: of the experiment.
    """
    names = [f"w{number}" for number in range(len(effects))]

    def value(workload: str, levels: crossing.Levels, block: int) -> float:
        musl, fast = levels["libc"] == "musl", levels["allocator"] == "fast"
        own = effects[names.index(workload)] if musl else 1.0
        return 1e7 * (1 + 0.01 * block) * own * (1.3 if fast else 1.0) * (1 + more * (musl and fast))

    return crossing.analysed(value, blocks=2, workloads=names, **{**EXACT_CLOCK, **changes})


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.0002, Verdict.EQUIVALENT), (1.0009, Verdict.BELOW_MARGIN), (1.01, Verdict.WORSE), (0.98, Verdict.BETTER)],
)
def test_effects_of_crossed_factors_are_stated_from_two_replicates_on(ratio: float, verdict: Verdict) -> None:
    found = crossed(ratio)
    effect = crossing.main_effect(found, "libc=musl", "w0")
    assert (effect.verdict, effect.exact, effect.confidence, effect.p_value) == (verdict, True, 1.0, None)
    assert effect.effect == pytest.approx(ratio) and effect.floor == pytest.approx(0.00025)
    assert formatting.estimate(effect).startswith(formatting.exact_effect(ratio))
    assert crossing.interaction(found, "libc=musl", "allocator=fast", "w0").presence is Presence.ABSENT
    assert "too few" not in repr(found.effects) and Verdict.SAME_MEDIAN not in {each.verdict for each in found.effects}
    before = crossing.main_effect(crossed(ratio, rules=CONTRAST_RULES), "libc=musl", "w0")
    assert (before.verdict, before.exact, before.floor) == (Verdict.INCONCLUSIVE, False, None)


def test_an_interaction_adds_two_differences() -> None:
    """Each of its two effects may be a floor apart for the same work."""
    for more, presence in ((0.00125, Presence.UNDECIDED), (0.003, Presence.PRESENT)):
        each = crossing.interaction(crossed(1.0, more=more), "libc=musl", "allocator=fast", "w0")
        assert (each.presence, each.floor) == (presence, pytest.approx(0.0005, rel=1e-3))


def test_an_effect_on_a_suite_is_the_mean_of_one_sign() -> None:
    whole = crossing.main_effect(crossed(1.01, 1.02), "libc=musl", "")
    assert (whole.verdict, whole.exact, whole.workloads) == (Verdict.WORSE, True, 2)
    assert whole.effect == pytest.approx(np.sqrt(1.01 * 1.02))
    opposite = crossed(1.02, 0.97)
    assert "libc=musl" not in {each.change.label for each in opposite.effects if not each.workload}


def context_of(experiment: Experiment) -> ReportContext:
    return ReportContext(experiment=experiment, record_id="r", record_path="r")


def headline(found: Analysis) -> str:
    context = context_of(bench_of({"w": {WALL: ([1e6], [1e6])}}).experiment)
    mine = answer(context, found)
    assert mine is not None
    return conclude(context, found, [mine]).sentence


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0009, "musl is 0.09 % slower than glibc, below the margin of 0.1 % on w (virtual clock)."),
        (1.0043, "musl is 0.43 % slower than glibc on w (virtual clock)."),
        (1.0, "musl takes as long as glibc (within 0.1 %) on w (virtual clock)."),
        (2.97, "musl takes 3 times as long as glibc on w (virtual clock)."),
    ],
)
def test_the_headline_has_the_figure(ratio: float, text: str) -> None:
    found = bench_of({"w": {WALL: ([1e6, 1.1e6], [ratio * 1e6, ratio * 1.1e6])}}).analysis()
    assert headline(found) == text


def test_the_sentences_about_an_index_and_an_effect_have_the_figure() -> None:
    up: Sides = [1e6] * 2, [1.0043e6, 1.0044e6]
    bench = bench_of({"w": {WALL: up}, "v": {WALL: up}})
    (index,) = bench.analysis().indices
    assert "musl differs by +0.4350 % from glibc (+0.4300 % to +0.4400 %), geometric mean of 2" in sentences.index(
        index, context_of(bench.experiment)
    )
    found = crossed(1.0009)
    (claim, *_) = factorial_answer.claims(context_of(bench.experiment), found, places_of(found))
    assert "musl is 0.09 % slower than glibc on average, below the margin of 0.1 %" in claim.text


def test_the_range_of_the_pairs_bounds_the_ratio_of_medians() -> None:
    (found,) = judged({WALL: ([1e6, 1.1e6], [1.01e6, 1.1121e6])}).values()
    assert found.median_effect is not None and found.low is not None and found.high is not None
    assert found.low < found.median_effect < found.high
    assert (found.median_low, found.median_high) == (found.low, found.high)
    assert has_other_medians(found), "an explanation of the row splits that difference"


def test_two_exact_records_agree_by_their_ranges() -> None:
    def of(*ratios: float) -> tuple[Experiment, Analysis]:
        bench = bench_of({"w": {WALL: ([1e6] * 2, [1e6 * ratio for ratio in ratios])}})
        return bench.experiment, bench.analysis()

    def sized(*records: tuple[Experiment, Analysis]) -> Any:
        (compared,) = side_by_side(records).rows
        return compared.judgement

    near = sized(of(1.02, 1.0201), of(1.0203, 1.0202))
    assert near.outcome is Outcome.AGREE and not near.exact and near.confidence is None
    assert sized(of(1.02, 1.0201), of(1.04, 1.0401)).outcome is Outcome.DIFFER
    assert sized(of(1.02, 1.02), of(1.02, 1.02)).exact


def test_fail_if_below_the_margin() -> None:
    bench = bench_of({"w": {WALL: ([1e6] * 2, [1.0009e6] * 2)}})
    experiment, found = bench.experiment, bench.analysis()
    for margin, status in ((None, ExitStatus.SUCCESS), (0.001, ExitStatus.SUCCESS), (0.0005, ExitStatus.WORSE)):
        condition = (FailIf(margin=margin),)
        check_fail_if(condition, experiment, bench.workloads.values)
        assert outcome_of(found, experiment, condition).status is status
    reason = outcome_of(found, experiment, (FailIf(margin=0.0005),)).reason
    assert reason == "--fail-if: w, libc=musl: wall +0.09000 % is below margin"
    better = bench_of({"w": {WALL: ([1e6] * 2, [0.9991e6] * 2)}})
    assert outcome_of(better.analysis(), experiment, (FailIf(margin=0.0005),)).status is ExitStatus.SUCCESS


def test_fail_if_below_the_margin_needs_exact_values() -> None:
    exact, other = counter("copies", exact=True), counter("others")
    bench = bench_of({"w": {exact: ([1.0], [1.0]), other: ([1.0], [1.0])}}, clock=WALL_CLOCK, margin=0.02)
    check_fail_if((FailIf(metric="copies", margin=0.001),), bench.experiment, bench.workloads.values)
    for condition in (FailIf(metric="others", margin=0.001), FailIf(margin=0.001)):
        with pytest.raises(UserError, match="is below the experiment's margin of 2 %"):
            check_fail_if((condition,), bench.experiment, bench.workloads.values)
    earlier = msgspec.structs.replace(bench.experiment, rules=CONTRAST_RULES)
    with pytest.raises(UserError):
        check_fail_if((FailIf(metric="copies", margin=0.001),), earlier, bench.workloads.values)


def test_what_is_stated_is_precise_and_what_varies_as_before() -> None:
    random = np.random.default_rng(2)
    leads = msgspec.structs.replace(WALL, leads=True)
    stated: Sides = [1e6] * 8, [1.02e6] * 8
    varied: Sides = [1e6] * 16, list(1e6 * np.exp(random.normal(0, 0.01, 16)))
    far: Sides = [1e6] * 16, list(1e6 * np.exp(random.normal(0, 0.2, 16)))
    widths = []
    for sides in (stated, varied, far):
        bench = bench_of({"w": {leads: sides}})
        experiment = bench.experiment
        (found,) = precision(experiment, plan.variants(experiment), bench.workloads, bench.runs).values()
        widths.append(found.half_width)
    assert widths[:2] == [0.0, MARGIN] and widths[2] is not None and widths[2] > 0.02


def test_three_floors_of_a_tool_are_at_least_a_step() -> None:
    coarse = msgspec.structs.replace(WALL, resolution=1000.0)
    assert STATED * constant_floor(coarse, 6000.0) == 1000.0
    assert judged({coarse: ([6000.0] * 2, [7000.0] * 2)})["wall"].verdict is Verdict.INCONCLUSIVE
    assert judged({coarse: ([6000.0] * 2, [8000.0] * 2)})["wall"].verdict is Verdict.WORSE


def test_the_table_of_floors() -> None:
    user, kernel, switches, time = (0.00005, 1000.0), (0.003, 8000.0), (0.0, 1.0), (0.00025, 0.0)
    assert {getattr(key, "value", key): tuple(floor) for key, floor in FLOORS.items()} == {
        "instructions": user,
        "rep_turns": user,
        "kernel_instructions": kernel,
        "call_instructions": kernel,
        "fault_instructions": kernel,
        "interrupt_instructions": kernel,
        "nvcsw": switches,
        "nivcsw": switches,
        "task_switches": switches,
        "run_delay": (0.00025, 8000.0),
        "time": time,
        "rate": time,
    }


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e59])
def test_numbers_are_finite_whatever_the_record_has(scale: float) -> None:
    sides: Sides = [scale, 1e-60, 1e60], [1e-60, 1e60, scale]
    for metric in (WALL, USER, KERNEL):
        for copies in ({}, {RELINKED: {metric: [1e60, -1e60, 0.0]}}):
            for found in bench_of({"w": {metric: sides}}, copies).analysis().comparisons:
                numbers = (found.effect, found.low, found.high, found.smallest_visible, found.floor)
                assert all(number is None or np.isfinite(number) for number in numbers)
