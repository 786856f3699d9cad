# SPDX-License-Identifier: MIT OR Apache-2.0
"""Signs, names and clauses of comparisons: each case of the functions that choose words."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison import outputs
from swapstone.core.comparison.outputs import Agreement, Relation
from swapstone.core.comparison.row_judgements import Judgement, Outcome, clock_judgement, sign_of, signs
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.side_by_side import side_by_side
from swapstone.core.comparison.suite_index import index_estimates
from swapstone.core.comparison.verdicts import too_few_pairs_reason, undecided_reason
from swapstone.core.model import CURRENT_RULES, Analysis, Comparison, Experiment, OwnProgram, Scale, Verdict
from swapstone.core.stats import Interval
from tests.unit import builders
from tests.unit.comparison.conftest import Bench
from tests.unit.comparison.test_limits import row


def compared(verdict: Verdict = Verdict.WORSE, effect: float | None = 1.5, **changes: Any) -> Comparison:
    bench = Bench()
    bench.pairs("w", "wall", [1.0] * 6, [1.5] * 6)
    (found,) = bench.analysis().comparisons
    return msgspec.structs.replace(found, verdict=verdict, effect=effect, **changes)


CLOCKS = ("1 ns", "2 ns", "4 ns")
SIGNED = {Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED, Verdict.MIXED}
WITHIN = {Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.BELOW_MARGIN}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_sign_is_that_of_the_effect_where_a_verdict_states_one(verdict: Verdict) -> None:
    def sign(effect: float | None, scale: Scale = Scale.RATIO) -> int | None:
        return sign_of(compared(verdict, effect, scale=scale))

    found = [sign(1.5), sign(0.5), sign(0.5, Scale.DIFFERENCE), sign(-0.5, Scale.DIFFERENCE), sign(None)]
    if verdict in WITHIN:
        assert found == [0] * 5
    elif verdict in SIGNED:
        assert found == [1, -1, 1, -1, None]
    else:
        assert found == [None] * 5


EQUIVALENT, INCONCLUSIVE, INVALID = (
    compared(each) for each in (Verdict.EQUIVALENT, Verdict.INCONCLUSIVE, Verdict.INVALID)
)


@pytest.mark.parametrize(
    ("sides", "outcome", "reason"),
    [
        ([None, compared()], Outcome.NOT_COMPARABLE, "1 ns: not measured, 2 ns: worse"),
        ([compared(), None], Outcome.NOT_COMPARABLE, "1 ns: worse, 2 ns: not measured"),
        ([INCONCLUSIVE, INVALID], Outcome.NOT_COMPARABLE, "1 ns: inconclusive, 2 ns: invalid"),
        ([INVALID, INVALID], Outcome.NOT_COMPARABLE, "invalid"),
        ([compared(), INVALID], Outcome.NOT_COMPARABLE, "1 ns: worse, 2 ns: invalid"),
        ([compared(), compared()], Outcome.AGREE, ""),
        ([EQUIVALENT, compared(Verdict.SAME_MEDIAN)], Outcome.AGREE, ""),
        ([compared(), compared(), INCONCLUSIVE], Outcome.AGREE, "1 ns: worse, 2 ns: worse, 4 ns: inconclusive"),
        (
            [compared(), compared(scale=Scale.DIFFERENCE), INCONCLUSIVE],
            Outcome.AGREE,
            "1 ns: worse, 2 ns: worse, 4 ns: inconclusive",
        ),
        ([compared(effect=0.5), compared()], Outcome.OPPOSITE, "1 ns: worse, less, 2 ns: worse, more"),
        ([compared(Verdict.BETTER, 0.5), compared()], Outcome.OPPOSITE, "1 ns: better, 2 ns: worse"),
        ([compared(), EQUIVALENT], Outcome.DIFFER, "1 ns: worse, 2 ns: equivalent"),
        ([EQUIVALENT, compared(Verdict.BETTER, 0.5)], Outcome.DIFFER, "1 ns: equivalent, 2 ns: better"),
    ],
)
def test_signs(sides: list[Comparison | None], outcome: Outcome, reason: str) -> None:
    assert signs(sides, CLOCKS[: len(sides)]) == Judgement(outcome=outcome, reason=reason)
    on_clocks = clock_judgement(sides, [Outcome.AGREE] * (len(sides) - 1), CLOCKS[: len(sides)])
    differs = outcome in {Outcome.OPPOSITE, Outcome.DIFFER}
    undecided = outcome is Outcome.AGREE and reason
    wanted = Outcome.VERDICT if differs else Outcome.UNDECIDED if undecided else outcome
    assert on_clocks == Judgement(outcome=wanted, reason=reason)


@pytest.mark.parametrize(
    ("effects", "sizes", "outcome", "reason"),
    [
        ([1.5, 1.5], [Outcome.DIFFER], Outcome.SIZE, "another size at 2 ns than at 1 ns"),
        ([1.4, 1.5], [Outcome.AGREE], Outcome.AGREE, ""),
        ([1.5, 1.5], [Outcome.UNDECIDED], Outcome.AGREE, ""),
        ([1.4, 1.5], [Outcome.UNDECIDED], Outcome.UNDECIDED, "the sizes at 1 ns and 2 ns are not shown to be equal"),
        ([1.5, 1.4, 1.3], [Outcome.DIFFER] * 2, Outcome.SIZE, "another size at 2 ns, 4 ns than at 1 ns"),
        (
            [1.5, 1.4, 1.3],
            [Outcome.AGREE, Outcome.UNDECIDED],
            Outcome.UNDECIDED,
            "the sizes at 1 ns and 4 ns are not shown to be equal",
        ),
    ],
)
def test_sizes_on_several_clocks(effects: list[float], sizes: list[Outcome], outcome: Outcome, reason: str) -> None:
    sides = [compared(effect=each) for each in effects]
    assert clock_judgement(sides, sizes, CLOCKS[: len(sides)]) == Judgement(outcome=outcome, reason=reason)


# Outputs


def test_a_discarded_output_is_a_caveat_unless_files_are_compared() -> None:
    own = OwnProgram(name="p", arguments=("p",))
    for artifacts, named in (((), 1), (("f",), 0)):
        subject = builders.experiment(own=msgspec.structs.replace(own, artifacts=artifacts, output="/dev/null"))
        runs = [msgspec.structs.replace(run, digests=(("f", "0" * 64),)) for run in builders.runs(subject, 5)]
        found = outputs.check(subject, plan.variants(subject), {}, as_table(runs))
        assert len(found.caveats) == named


def test_each_relation_of_outputs_has_its_words() -> None:
    shown = {
        Agreement.NONE: "none",
        Agreement.EQUAL: "equal (x)",
        Agreement.SIMILAR: "equal but for what varies from run to run",
        Agreement.DIFFERENT: "different",
        Agreement.UNKNOWN: "not compared, because it varies from run to run",
        Agreement.DISCARDED: "discarded",
        Agreement.ALLOWED: "not compared",
    }
    absent, shows = (Agreement.NONE, Agreement.DISCARDED), (Agreement.EQUAL, Agreement.SIMILAR, Agreement.DIFFERENT)
    for one, other in itertools.product(shown, shown):
        relations = {"stdout": Relation(one, "x"), "exit_status": Relation(Agreement.EQUAL), "f": Relation(other, "x")}
        nothing = {one, other}.isdisjoint(shows) and not {one, other}.isdisjoint(absent)
        ending = ", so nothing shows that it is the same work" if nothing else ""
        assert outputs.agreement_text(relations) == f"output: {shown[one]}, 'f': {shown[other]}{ending}"
    assert outputs.agreement_text({}) == ""


# Reasons


@pytest.mark.parametrize(
    ("low", "high", "sides"), [(-1.0, 1.0, "smaller or larger"), (-1.0, 0.0, "smaller"), (0.0, 1.0, "larger")]
)
def test_an_undecided_interval_names_its_sides(low: float, high: float, sides: str) -> None:
    text = f"the interval contains both no difference and one outside the margin ({sides})"
    assert undecided_reason(Interval(low, high)) == text
    assert undecided_reason(Interval(low, high), "interaction") == text.replace("difference", "interaction")


@pytest.mark.parametrize(("alpha", "text"), [(0.05, "95 % needs 6"), (0.01, "99 % needs 8"), (1e-6, "100 % needs 21")])
def test_too_few_pairs_name_what_is_needed(alpha: float, text: str) -> None:
    assert too_few_pairs_reason(alpha, 3) == f"few blocks: an interval at {text} pairs, and there are 3"
    assert too_few_pairs_reason(alpha, 3, 3) == too_few_pairs_reason(alpha, 3)


def test_too_few_pairs_name_what_the_whole_report_needs() -> None:
    assert too_few_pairs_reason(0.01, 3, 14, "replicates") == (
        "few replicates: an interval needs 14 pairs, and there are 3"
    )


def test_ratios_of_any_positive_values_are_compared_between_clocks() -> None:
    def record(clock_ns: int, factor: float, zero: float | None = None, **changes: Any) -> tuple[Experiment, Analysis]:
        made = Bench(clock="virtual", rules=CURRENT_RULES)
        before = [0.1 + number / 1000 for number in range(8)]
        made.pairs("w", "wall", before, [factor * each for each in before])
        analysis = made.analysis()
        (found,) = analysis.comparisons
        if zero is not None:
            changes["candidate_values"] = (zero, *found.candidate_values[1:])
        analysis = msgspec.structs.replace(analysis, comparisons=(msgspec.structs.replace(found, **changes),))
        return msgspec.structs.replace(made.experiment, target="vm", ns_per_instruction=clock_ns), analysis

    def outcome(**changes: Any) -> Outcome:
        (found,) = side_by_side([record(1, 1.5), record(2, 1.9, **changes)]).rows
        return found.judgement.outcome

    assert outcome() is Outcome.SIZE
    # They are not separate: a ratio of 0 has no logarithm.
    assert outcome(scale=Scale.DIFFERENCE) is outcome(zero=0.0, scale=Scale.DIFFERENCE)
    assert outcome(scale=Scale.DIFFERENCE) is Outcome.UNDECIDED


def test_indices_of_each_load_and_copy_are_a_family() -> None:
    again = builders.variant("libc=glibc (again)")
    one = row([1.0, 2.0], [2.0, 4.5])
    places = [("s", "w", "idle"), ("s", "v", "cpu"), ("t", "w", "idle")]
    rows = [msgspec.structs.replace(one, group=group) for group in places]
    rows.append(msgspec.structs.replace(one, candidate=again, null=True))
    families = [each.family for each in index_estimates(rows)]
    assert [each.name for each in families] == [
        *(("index", suite, load, "wall") for suite, _, load in places),
        ("index", "s", "idle", "wall"),
    ]
    assert [each.copy for each in families] == [None, None, None, again]
