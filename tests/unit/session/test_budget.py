# SPDX-License-Identifier: MIT OR Apache-2.0
"""A budget that can't hold the pairs of runs that an interval needs is extended, or gives medians without intervals and says so."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import (
    CURRENT_RULES,
    REPORT_CORRECTION,
    VIRTUAL_CLOCK,
    CaveatKind,
    Experiment,
    Run,
    Sample,
    UserError,
)
from swapstone.core.plan import block as trials_of
from swapstone.core.plan import groups
from swapstone.core.session.precision_stop import (
    PrecisionStop,
    check_budget,
    extended_again,
    first_decisive_look,
    fitted,
    needed_pairs,
)
from swapstone.core.workloads import workloads_by_name
from tests.unit.builders import experiment, run

SECOND_NS = 10**9


def current(**changes: object) -> Experiment:
    """Return an experiment by the current rules: two workloads with 7 metrics and their tails are 32 hypotheses, which need 14 pairs."""
    fields = {"rules": CURRENT_RULES, "correction": REPORT_CORRECTION, "confidence": 0.99, **changes}
    return experiment(**fields)


def block(subject: Experiment, number: int, measured_ns: int, setup_ns: int = 0) -> list[Run]:
    """Return the runs of a block; each takes `measured_ns`, and `setup_ns` that its process does not."""
    return [
        run(trial, elapsed_ns=measured_ns + setup_ns, facts=(("wall_ns", measured_ns),))
        for trial in trials_of(subject, number, groups(subject))
    ]


NEEDED = needed_pairs(current())


def test_the_number_of_pairs_is_corrected() -> None:
    assert needed_pairs(experiment()) < NEEDED  # 95 % a family
    assert needed_pairs(current(workloads=tuple(("libc", f"b_malloc_tiny{n}") for n in (1, 2)) * 4)) > NEEDED
    assert needed_pairs(current(clock=VIRTUAL_CLOCK)) == 2, "exact values"
    assert needed_pairs(current(clock=VIRTUAL_CLOCK, processors=2)) == 8  # 2 / 2^8 <= 1 %
    assert first_decisive_look(current()) >= max(15, NEEDED)


def test_a_budget_that_holds_the_first_look_says_nothing() -> None:
    # 2 variants x 2 workloads x 80 ms, with the warm-up
    subject = current(budget_ns=(first_decisive_look(current()) + 1) * 320_000_000)
    assert check_budget(subject) == (subject, "")


def test_a_budget_without_intervals_is_named_before_anything_is_built() -> None:
    least_ns = (NEEDED + 1) * 320_000_000
    subject = current(budget_ns=least_ns - 1)
    same, note = check_budget(subject)
    assert (
        same is subject
        and f"holds about {NEEDED - 1} pairs of runs on an idle machine: medians without intervals." in note
    )
    assert f"The {NEEDED} pairs that an interval needs take about" in note and "--budget " in note
    assert "without intervals" not in check_budget(current(budget_ns=least_ns))[1]


def test_a_budget_without_a_pair_of_runs_is_refused_before_anything_is_built() -> None:
    assert "holds about 1 pair of runs on an idle machine" in check_budget(current(budget_ns=640_000_000))[1]
    with pytest.raises(UserError, match="too small for a pair of runs") as caught:
        check_budget(current(budget_ns=639_000_000))
    assert f"The {NEEDED} pairs that an interval needs" in caught.value.message and "Use --budget " in caught.value.hint


def test_a_default_budget_is_extended_before_anything_is_built() -> None:
    subject = current(budget_ns=2 * SECOND_NS, budget_extends=True)
    extended, note = check_budget(subject)
    assert extended.budget_ns == (NEEDED + 1) * 320_000_000
    assert f"The {NEEDED} pairs of runs that an interval needs take" in note and "the usual 2 s" in note
    with pytest.raises(UserError, match="too small"):
        check_budget(msgspec.structs.replace(subject, budget_ns=SECOND_NS // 10))


def test_a_number_of_blocks_that_a_budget_does_not_hold_is_named() -> None:
    """As everywhere: before anything is built, and again after two blocks. Enough pairs for intervals are not called too few."""
    subject = current(budget_ns=NEEDED * 320_000_000, blocks=40)
    same, note = check_budget(subject)
    assert same is subject
    assert (
        f"holds about {NEEDED - 1} pairs of runs on an idle machine: medians without intervals. "
        "The 40 blocks that are asked for take about 13 s" in note
    )
    note = check_budget(current(budget_ns=(NEEDED + 1) * 320_000_000, blocks=40))[1]
    assert f"holds about {NEEDED} pairs of runs on an idle machine. The 40 blocks that are asked for take" in note
    assert not check_budget(current(budget_ns=41 * 320_000_000, blocks=40))[1]
    assert "holds about 1 pair of runs on an idle machine" in check_budget(current(budget_ns=1, blocks=40))[1], (
        "one is always made"
    )
    primed = current(budget_ns=41 * 320_000_000, blocks=40, prime=1, prime_more=True)
    assert "The 40 blocks that are asked for take about 34 s" in check_budget(primed)[1], (
        "with discarded runs before each"
    )
    runs = block(subject, 0, SECOND_NS // 5) + block(subject, 1, SECOND_NS // 5)
    assert (
        "The 40 blocks that are asked for take about 33 s (--budget 50s)."
        in fitted(subject, runs, 1, 1_600_000_000, 800_000_000)[1]
    )


def test_an_exact_number_of_blocks_needs_no_budget() -> None:
    subject = current(budget_ns=1, blocks=3, budget_extends=True)
    assert check_budget(subject) == (subject, "")
    assert fitted(subject, block(subject, 0, SECOND_NS), 0, 4 * SECOND_NS, 4 * SECOND_NS) == (subject, "")


def test_records_of_the_first_rules_keep_theirs() -> None:
    subject = experiment(budget_ns=1)
    assert fitted(subject, block(subject, 0, SECOND_NS), 0, 4 * SECOND_NS, 4 * SECOND_NS) == (subject, "")


def test_the_first_block_is_not_taken_for_the_others() -> None:
    """Its runs contain setup: a block of 10 s whose processes run for 0.4 s does not end an experiment of 30 s."""
    subject = current(budget_ns=30 * SECOND_NS)
    runs = block(subject, 0, SECOND_NS // 10, setup_ns=24 * SECOND_NS // 10)
    assert fitted(subject, runs, 0, 10 * SECOND_NS, 10 * SECOND_NS) == (subject, "")
    runs += block(subject, 1, SECOND_NS // 10)
    assert fitted(subject, runs, 1, 10 * SECOND_NS + 400_000_000, 400_000_000) == (subject, "")


def test_a_budget_of_the_user_is_spent_on_medians() -> None:
    subject = current(budget_ns=30 * SECOND_NS)
    runs = block(subject, 0, SECOND_NS)
    assert fitted(subject, runs, 0, 4 * SECOND_NS, 4 * SECOND_NS) == (subject, "")  # 60 s, which may be 30 s when warm
    runs += block(subject, 1, SECOND_NS)
    needed_s = 8 + (NEEDED - 1) * 4
    same, note = fitted(subject, runs, 1, 8 * SECOND_NS, 4 * SECOND_NS)
    assert same is subject
    assert note == (
        "A block takes 4.0 s. The budget of 30 s holds about 6 pairs of runs: medians without intervals. "
        f"The {NEEDED} pairs that an interval needs take about {needed_s} s (--budget 90s)."
    )
    assert fitted(subject, runs, 2, 12 * SECOND_NS, 4 * SECOND_NS) == (subject, "")  # decided before


def test_a_first_block_that_takes_the_whole_budget_is_followed_by_one_pair() -> None:
    subject = current(budget_ns=5 * SECOND_NS)
    notes: list[str] = []
    stop = PrecisionStop(subject, notes.append, lambda _: None)
    runs = block(subject, 0, SECOND_NS)
    assert not stop(runs, groups(subject), 0, 4 * SECOND_NS, 4 * SECOND_NS).stop
    assert "holds about 1 pair of runs" in notes[0]
    runs += block(subject, 1, SECOND_NS)
    assert stop(runs, groups(subject), 1, 8 * SECOND_NS, 4 * SECOND_NS).stop


@pytest.mark.parametrize("extends", [False, True])
def test_a_message_does_not_contradict_itself(extends: bool) -> None:
    """Blocks of 68 ms need 1.02 s of a budget of 1 s: rounded, "0.0 s" and "1 s" would be too much for it."""
    subject = current(budget_ns=SECOND_NS // (10 if extends else 1), budget_extends=extends)
    block_ns, runs = 68_000_000, block(subject, 0, 17_000_000) + block(subject, 1, 17_000_000)
    note = fitted(subject, runs, 1, 2 * block_ns, block_ns)[1]
    budget, pairs, needed = ("0.1 s", "1 pair", "1.0 s") if extends else ("1.00 s", f"{NEEDED - 1} pairs", "1.02 s")
    assert note.startswith(f"A block takes 68 ms. The budget of {budget} holds about {pairs} of runs")
    assert f"The {NEEDED} pairs that an interval needs take about {needed} (" in note


def test_a_default_budget_is_extended_to_the_pairs_up_to_ten_times() -> None:
    subject = current(budget_ns=30 * SECOND_NS, budget_extends=True)
    notes: list[str] = []
    stored: list[Experiment] = []
    stop = PrecisionStop(subject, notes.append, stored.append)
    runs = block(subject, 0, SECOND_NS)
    stop(runs, groups(subject), 0, 4 * SECOND_NS, 4 * SECOND_NS)
    runs += block(subject, 1, SECOND_NS)
    decision = stop(runs, groups(subject), 1, 8 * SECOND_NS, 4 * SECOND_NS)
    assert not decision.stop
    needed_ns = (8 + (NEEDED - 1) * 4) * SECOND_NS
    assert [each.budget_ns for each in stored] == [needed_ns]
    assert len(notes) == 1 and f"The {NEEDED} pairs of runs that an interval needs take about" in notes[0]
    assert "A block takes 4.0 s." in notes[0] and "the usual 30 s" in notes[0]
    slow = fitted(subject, block(subject, 0, 30 * SECOND_NS), 0, 120 * SECOND_NS, 120 * SECOND_NS)
    assert slow[0] is subject and "medians without intervals" in slow[1], "it is not extended for nothing"


def test_a_default_budget_is_extended_again_when_blocks_get_slower() -> None:
    """As of the first command of the README: 17 pairs were announced, and the budget ended after 13."""
    subject = current(budget_ns=30 * SECOND_NS, budget_extends=True)
    notes: list[str] = []
    stored: list[Experiment] = []
    stop = PrecisionStop(subject, notes.append, stored.append)
    runs: list[Run] = []
    used_s = 0
    for number in range(NEEDED + 1):
        each_s = 4 if number < 2 else 6
        runs += block(subject, number, each_s * SECOND_NS // 4)
        used_s += each_s
        decision = stop(runs, groups(subject), number, used_s * SECOND_NS, each_s * SECOND_NS)
        assert bool(decision.stop) == (number == NEEDED)
        assert decision.budget_ns == (stored[-1].budget_ns if stored else subject.budget_ns)
        assert decision.next_ns == each_s * SECOND_NS
    assert len(notes) == 2 and "because a block now takes" in notes[1] and f"needs {NEEDED} pairs of runs" in notes[1]
    assert used_s * SECOND_NS > stored[0].budget_ns  # which the first note had announced


def test_a_budget_is_not_extended_without_end() -> None:
    subject = current(budget_ns=30 * SECOND_NS, budget_extends=True)
    assert extended_again(subject, 5, 28 * SECOND_NS, 6 * SECOND_NS, 50 * SECOND_NS) == (subject, "")
    longer, note = extended_again(subject, 5, 28 * SECOND_NS, 6 * SECOND_NS, 300 * SECOND_NS)
    assert longer.budget_ns > 50 * SECOND_NS and note
    of_the_user = current(budget_ns=30 * SECOND_NS)
    assert extended_again(of_the_user, 5, 28 * SECOND_NS, 6 * SECOND_NS, 300 * SECOND_NS) == (of_the_user, "")
    assert extended_again(subject, NEEDED, 28 * SECOND_NS, 6 * SECOND_NS, 300 * SECOND_NS) == (subject, "")


def test_the_second_block_shows_when_the_first_look_is() -> None:
    subject = current(budget_ns=(NEEDED + 1) * 4 * SECOND_NS)
    runs = block(subject, 0, SECOND_NS) + block(subject, 1, SECOND_NS)
    note = fitted(subject, runs, 1, 8 * SECOND_NS, 4 * SECOND_NS)[1]
    first = first_decisive_look(subject)
    assert f"holds {NEEDED} pairs of runs. The first check of every row's precision needs {first} pairs" in note


def test_all_that_is_printed_names_the_same_number() -> None:
    """Budget, note, progress, caveat and the reasons of rows."""
    subject = current(budget_ns=30 * SECOND_NS)
    runs = [each for number in range(4) for each in block(subject, number, SECOND_NS)]
    found = analyse(subject, plan.variants(subject), workloads_by_name(subject), runs)
    reasons = {row.reason for row in found.comparisons if row.reason.startswith("few")}
    assert reasons == {f"few blocks: an interval needs {NEEDED} pairs, and there are 3"}
    (caveat,) = [each for each in found.caveats if each.kind is CaveatKind.FEW_BLOCKS]
    assert f"(the fewest: 3; {NEEDED} are needed)" in caveat.message
    assert f"The {NEEDED} pairs that an interval needs" in fitted(subject, runs, 1, 8 * SECOND_NS, 4 * SECOND_NS)[1]
    assert (
        f"The {NEEDED} pairs that an interval needs"
        in check_budget(msgspec.structs.replace(subject, budget_ns=SECOND_NS))[1]
    )
    assert first_decisive_look(subject) - NEEDED in range(5)


def test_that_many_pairs_give_each_row_an_interval() -> None:
    subject = current(budget_ns=30 * SECOND_NS)
    runs = [each for number in range(NEEDED + 1) for each in block(subject, number, SECOND_NS)]
    noisy = [
        msgspec.structs.replace(
            each, samples=(Sample(metric="wall", values=(1000.0 + zlib.crc32(each.trial.key.encode()) % 97,)),)
        )
        for each in runs
    ]
    found = analyse(subject, plan.variants(subject), workloads_by_name(subject), noisy)
    rows = [row for row in found.comparisons if row.metric.name == "wall"]
    assert len(rows) == 2 and all(row.low is not None for row in rows)
