# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of the paths of worst wake-ups, and the path that grew."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.json_schema import check_printed
from tools.fuzz_seeds import WAKEUP_ROW

from swapstone.core.report.render import find_renderer
from swapstone.parts.explain.model.wakeup_paths import (
    DisabledSection,
    PathFunction,
    WakeupExplanation,
    WakeupPath,
    growth_by_path,
    heaviest_path,
    totals_by_function,
    totals_by_path,
)
from swapstone.parts.explain.report.row_explanation import traced_json
from swapstone.parts.explain.report.wakeup_explanation import (
    document_of,
    ended_by,
    grown_rows,
    grown_sentence,
    path_rows,
    phase_rows,
    sentence,
    side_sentence,
    summary_of,
)

FOUND = msgspec.json.decode(WAKEUP_ROW, type=WakeupExplanation)
RT, GENERIC = FOUND.sides
SWAPPED = msgspec.structs.replace(FOUND, sides=(GENERIC, RT))


def test_the_path_that_grew_is_the_answer_where_the_candidate_is_worse() -> None:
    assert FOUND.problem() == ""
    assert sentence(FOUND) == (
        "The worst wake-up of generic took 9 us; 9,400 of its 9,500 instructions are in tlb_finish_mmu > tlb_batch_pages_flush > "
        "release_pages, without a switch to the woken thread, ended by __cond_resched in tlb_batch_pages_flush (a voluntary "
        "preemption point). "
        "The path that grew: tlb_finish_mmu > tlb_batch_pages_flush > release_pages, 9,400 instructions; release_pages has 200 with rt."
    )
    assert grown_sentence(SWAPPED) == ""
    assert sentence(SWAPPED) == f"{side_sentence(GENERIC)} {side_sentence(RT)}"
    assert "of rt took 1 us; 1,000 of its 1,200 instructions are in asm_sysvec_apic_timer_interrupt," in side_sentence(
        RT
    )


def _path(*functions: tuple[str, int, int]) -> WakeupPath:
    """Return a path of functions (name, depth, own instructions); ``irq`` handles an interrupt."""
    totals: list[int] = []
    for at, (_, depth, own) in enumerate(functions):
        below = [each for _, each, _ in functions[at + 1 :]]
        inside = next((number for number, each in enumerate(below) if each <= depth), len(below))
        totals.append(own + sum(each for _, _, each in functions[at + 1 : at + 1 + inside]))
    made = tuple(
        PathFunction(name=name, depth=depth, own=own, total=total, handler=name == "irq")
        for (name, depth, own), total in zip(functions, totals, strict=True)
    )
    every = sum(own for _, _, own in functions)
    return msgspec.structs.replace(GENERIC, instructions=every, phases=(0, 0, every, 0), functions=made)


def test_the_number_of_a_sentence_is_the_one_of_the_path_in_the_table() -> None:
    path = ("flush", 0, 100), ("release", 1, 6000), ("free_list", 2, 3000), ("irq", 3, 700), ("free_one", 3, 2600)
    before, after = _path(("free_one", 0, 900), ("idle", 0, 100)), _path(*path)
    found = msgspec.structs.replace(FOUND, sides=(before, after))
    assert found.problem() == ""
    rows = {row[0]: row[1] for row in path_rows(after)}
    assert rows == {"flush > release": "11,700", "> free_list": "5,600", "> > free_one": "2,600", "irq": "700"}
    assert "; 5,600 of its 12,400 instructions are in flush > release > free_list, with" in side_sentence(after)
    assert "grew: flush > release > free_list, 5,600 instructions; free_list has 0 with generic." in grown_sentence(
        found
    )
    longer = _path(*path[:3], ("free_one", 3, 9600))
    assert "; 9,600 of its 18,700 instructions are in flush > release > free_list > free_one" in side_sentence(longer)
    grown = grown_sentence(msgspec.structs.replace(found, sides=(before, longer)))
    assert grown.endswith("> free_list > free_one, 9,600 instructions; free_one has 900 with generic.")


def test_growth_is_that_of_the_function_wherever_it_was_called() -> None:
    growth = growth_by_path(RT, GENERIC)
    path = (("tlb_finish_mmu", ""), ("tlb_batch_pages_flush", ""), ("release_pages", ""))
    assert growth[path[:1]] == 9400 and growth[path] == 9300 - 200  # without callers there, and interrupted for 1000
    assert heaviest_path(growth, 9100) == path
    assert growth_by_path(GENERIC, RT)[(("release_pages", ""),)] == 200 - 9300


def test_recursion_counts_once() -> None:
    functions = [("a", 0, 10, 100), ("b", 1, 10, 90), ("a", 2, 80, 80), ("a", 0, 5, 5)]
    made = tuple(PathFunction(name=name, depth=depth, own=own, total=total) for name, depth, own, total in functions)
    assert totals_by_function(made) == {("a", ""): 105, ("b", ""): 90}
    assert totals_by_path(made)[(("a", ""),)] == 105


@pytest.mark.parametrize(("least", "length"), [(9401, 0), (9400, 2), (9300, 3), (300, 4), (-5, 4)])
def test_the_heaviest_path_ends_where_too_few_instructions_are_left(least: int, length: int) -> None:
    assert len(heaviest_path(totals_by_path(GENERIC.functions), least)) == length


def test_phases_and_functions_have_the_whole() -> None:
    rows = {row[0]: row[1:3] for row in phase_rows(FOUND)}
    assert rows["before the last switch"] == ("600", "9,000") and rows["sum"] == ("1,200", "9,500")
    assert rows["reported by the program"] == ("1 us", "9 us")
    assert path_rows(GENERIC) == [
        ("tlb_finish_mmu > tlb_batch_pages_flush > release_pages", "9,400", "99 %"),
        ("> code without a name [zram]", "300", "3 %"),
    ]
    assert grown_rows(FOUND)[0] == ("release_pages", "200", "9,000", "+8,800")


def test_lines_of_branches_are_indented_below_their_callers() -> None:
    side = _path(("a", 0, 0), ("b", 1, 0), ("c", 2, 0), ("d", 3, 30), ("e", 3, 30), ("f", 1, 40), ("g", 0, 50))
    assert [row[0] for row in path_rows(side)] == ["a", "> b > c", "> > d", "> > e", "> f", "g"]


@pytest.mark.parametrize(
    ("name", "caller", "words"),
    [
        ("__cond_resched", "x", "a voluntary preemption point"),
        ("preempt_schedule_irq", "asm_sysvec", "the return from an interrupt"),
        ("preempt_schedule", "x", "preemption enabled again"),
        ("schedule", "exit_to_user_mode_prepare", "the return to user mode"),
        ("schedule", "do_notify_resume", "the return to user mode"),
        ("schedule_idle", "do_idle", "the idle thread"),
        ("schedule_idle", "", "the idle thread"),
    ],
)
def test_what_ended_a_path_is_explained(name: str, caller: str, words: str) -> None:
    assert (
        ended_by(msgspec.structs.replace(GENERIC, ended_by=(name, caller)))
        == f"{name}{f' in {caller}' if caller else ''} ({words})"
    )
    assert ended_by(msgspec.structs.replace(GENERIC, ended_by=("schedule", "io_schedule"))) == "schedule in io_schedule"
    assert "with 3 other switches, ended by" in side_sentence(msgspec.structs.replace(GENERIC, switches=3))


def test_disabled_interrupts_are_the_reason_where_they_delayed_the_interrupt() -> None:
    section = DisabledSection(begins="spin", ends="other", modules=("planted", ""), instructions=8000)
    side = msgspec.structs.replace(GENERIC, phases=(9000, 100, 200, 200), disabled=section)
    assert side_sentence(side).endswith("with interrupts disabled by spin [planted] until other.")
    unknown = msgspec.structs.replace(side, disabled=None)
    assert side_sentence(unknown).endswith("the timer had expired and its interrupt was not delivered.")
    late = msgspec.structs.replace(GENERIC, phases=(0, 100, 200, 9200))
    assert side_sentence(late).endswith("after the switch to the thread.")


def test_every_format_has_the_path() -> None:
    for name in ("html", "markdown", "text"):
        text = find_renderer(name).render(document_of(FOUND)).replace("\\", "")
        assert "tlb_batch_pages_flush" in text and "wake-up 1 of 9" in text
    assert summary_of(FOUND, [("a", "b")]).ledger[-1] == ("reported by the program", "1 us", "9 us")
    assert check_printed(traced_json("wakeup-explanation", FOUND)) == "swapstone-wakeup-explanation"
    assert json.loads(traced_json("wakeup-explanation", FOUND))["sides"][1]["ended_by"] == [
        "__cond_resched",
        "tlb_batch_pages_flush",
    ]


def test_text_from_a_record_is_not_printed_raw() -> None:
    hostile = msgspec.structs.replace(
        GENERIC, functions=(PathFunction(name="a\x1b[31m", depth=0, own=9500, total=9500),), variant="kernel=\x1b[2J"
    )
    document = document_of(msgspec.structs.replace(FOUND, sides=(RT, hostile)))
    assert "\x1b" not in document.answer + "".join(str(section) for section in document.sections).replace("\\x1b", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"functions": ()}, "no functions"),
        ({"instructions": 0}, "phases"),
        ({"cycle": 10}, "not one of its cycles"),
        ({"equal": 0}, "not one of its cycles"),
        ({"phases": (0, 0, 0, 9)}, "phases"),
        ({"functions": (PathFunction(name="a", depth=1, own=9500, total=9500),)}, "no caller"),
        ({"functions": (PathFunction(name="a", depth=0, own=9, total=9500),)}, "don't sum to their callers"),
        ({"functions": (PathFunction(name="a", depth=0, own=9, total=9),)}, "don't sum to its instructions"),
        ({"functions": (PathFunction(name="a", depth=0, own=-1, total=-1),)}, "don't sum"),
    ],
)
def test_contradicting_numbers_are_named(change: dict[str, object], words: str) -> None:
    side: WakeupPath = msgspec.structs.replace(GENERIC, **change)
    assert words in msgspec.structs.replace(FOUND, sides=(RT, side)).problem()


@pytest.mark.parametrize("change", [{"latency_ns": -1}, {"switches": -1}, {"locks": (("lock", -1),)}])
def test_numbers_beyond_the_limits_are_refused(change: dict[str, object]) -> None:
    side: WakeupPath = msgspec.structs.replace(GENERIC, **change)
    for found in (
        msgspec.structs.replace(FOUND, sides=(RT, side)),
        msgspec.structs.replace(FOUND, ns_per_instruction=0),
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(found.encoded(), type=WakeupExplanation)
