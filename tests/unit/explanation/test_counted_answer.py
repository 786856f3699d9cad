# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer about a row on the exact clock: the functions whose instructions lead, and tables of all of them."""

from __future__ import annotations

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

from swapstone.core.model.profile import OWN_OBJECT, Frame
from swapstone.core.report.render import terminal
from swapstone.parts.explain.explanation.counted_answer import GRAPH_NOTE, event_rows, explain_counts, file_rows
from swapstone.parts.explain.model.instruction_counts import MOST_FUNCTIONS, CountedRow, PathTree
from swapstone.parts.explain.report.explanation_document import document_of, function_table, summary_of
from swapstone.parts.explain.session.explanation_files import profiles

FOUND = msgspec.json.decode(COUNTED_ROW, type=CountedRow)
WITH_PATHS = msgspec.json.decode(PATHS_OF_ROW, type=CountedRow)


def test_the_sums_are_the_sides_instructions() -> None:
    assert FOUND.problem() == WITH_PATHS.problem() == ""
    assert file_rows(FOUND) == (
        ("C library", "0", "20", "+20", "133 %"),
        ("kernel", "14.5", "10", "-4.50", "-30 %"),
        ("lost", "0.500", "0", "-0.500", "-3 %"),
        ("sum", "15", "30", "+15", "100 %"),
        ("elapsed ns by its clock", "14", "27.5", "+13.5", "90 %"),
    )
    assert event_rows(FOUND) == (("system call brk", "1", "0.500"),)


def test_the_functions_with_the_largest_differences_are_listed_with_callers() -> None:
    assert function_table(explain_counts(WITH_PATHS)) == (
        ("function, with what it calls", "baseline", "candidate", "difference", "share", "itself", "called by"),
        ("strlen (C library)", "0", "20", "+20", "129 %", "+20", "main"),
        ("brk (system call)", "14.5", "0", "-14.5", "-94 %", "-14.5", "main"),
        ("kernel, below main", "0", "10", "+10", "65 %", "+10", "main"),
        ("all of them (instructions)", "14.5", "30", "+15.5", "100 %", "", ""),
    )
    brief = explain_counts(WITH_PATHS, brief=True)
    assert function_table(brief)[1] == ("strlen (C library)", "0", "20", "+20", "129 %", "+20")
    assert summary_of(brief, ()).ledger == function_table(brief)


def test_the_first_screen_has_what_is_not_known_and_how_to_see_the_callers() -> None:
    assert WITH_PATHS.paths is not None
    notes = WITH_PATHS.paths[1].notes()
    found = explain_counts(WITH_PATHS)
    text = " ".join(terminal.render(document_of(found, record="/r"), terminal.Terminal(width=120)).split())
    assert notes and all(note in text for note in notes) and "elapsed ns by its clock" in text
    assert "swapstone profile /r wall --only w --candidate libc=musl --instructions --open" in text
    assert found.methods[-1] == GRAPH_NOTE


def _made(before: dict[str, int], after: dict[str, int]) -> CountedRow:
    """Return a row whose functions of the program are below `main`."""
    names = sorted({*before, *after})
    frames = tuple(Frame(symbol=name, object=OWN_OBJECT) for name in ("main", *names))
    above, numbers = (-1, *(0 for _ in names)), tuple(range(len(frames)))
    trees = [
        PathTree(frames=frames, above=above, frame=numbers, own=(0, *(side.get(name, 0) for name in names)))
        for side in (before, after)
    ]
    sides = [msgspec.structs.replace(side, operations=1.0) for side in FOUND.sides]
    return msgspec.structs.replace(FOUND, sides=(sides[0], sides[1]), paths=(trees[0], trees[1]), no_paths="")


def _sentence(before: dict[str, int], after: dict[str, int]) -> str:
    return explain_counts(_made(before, after)).sentence.partition(" with glibc: ")[2]


def test_the_sentence_names_the_functions_with_the_difference() -> None:
    assert explain_counts(FOUND).sentence == (
        "w executes 30 instructions with musl instead of 15 with glibc: strlen (C library) executes 20 more, 129 % of the difference; "
        "brk (system call) executes 4.50 fewer, -29 % of the difference; together 100 %."
    )
    work = {"work": 100, "rest": 50}
    assert _sentence(work, {**work, "work": 12_345}) == (
        "work, called by main, executes 12.2 k more, 100 % of the difference."
    )
    assert _sentence(work, {**work, "work": 90}) == "work, called by main, executes 10 fewer, 100 % of the difference."
    assert _sentence(work, {"work": 160, "rest": 90}) == (
        "work, called by main, executes 60 more, 60 % of the difference; rest, called by main, executes 40 more, 40 % of the difference; "
        "together 100 %."
    )
    assert _sentence(work, work) == "no function accounts for it."
    assert _sentence(work, {"work": 101, "rest": 49}) == "the differences of 2 functions cancel out."
    apart = _sentence({}, dict.fromkeys("abcd", 20))
    assert apart == "the difference is spread over 4 functions, and no three of them are shown to have 80 % of it."


@pytest.mark.parametrize("entry", ["__x64_sys_brk", "__arm64_sys_brk", "__riscv_sys_brk", "sys_brk"])
def test_system_calls_of_each_architecture_are_named(entry: str) -> None:
    functions = (FOUND.functions[0], msgspec.structs.replace(FOUND.functions[1], name=entry))
    assert event_rows(msgspec.structs.replace(FOUND, functions=functions))[0][0] == "system call brk"


def test_the_clock_is_divided_by_its_scale() -> None:
    slower = msgspec.structs.replace(FOUND, ns_per_instruction=2)
    assert file_rows(slower)[-1][:3] == ("elapsed ns by its clock / 2", "7", "13.5")


def test_contradicting_numbers_are_named() -> None:
    sides = (msgspec.structs.replace(FOUND.sides[0], instructions=31), FOUND.sides[1])
    assert "don't sum" in msgspec.structs.replace(FOUND, sides=sides).problem()
    assert "no reason" in msgspec.structs.replace(FOUND, no_paths="").problem()
    with pytest.raises(msgspec.ValidationError, match="ns_per_instruction"):
        msgspec.json.decode(msgspec.structs.replace(FOUND, ns_per_instruction=0).encoded(), type=CountedRow)


def test_notes_and_functions_beyond_their_limits_are_refused() -> None:
    assert msgspec.structs.replace(FOUND, notes=("n",) * 100).problem() == ""
    assert "more than 100 notes" in msgspec.structs.replace(FOUND, notes=("n",) * 101).problem()
    none = msgspec.structs.replace(FOUND.functions[0], baseline=0, candidate=0)
    many = (*FOUND.functions, *(none,) * (MOST_FUNCTIONS - 2))
    assert msgspec.structs.replace(FOUND, functions=many).problem() == ""
    assert "functions" in msgspec.structs.replace(FOUND, functions=(*many, none)).problem()


def test_why_there_are_no_callers_is_stated_and_no_graph_is_drawn() -> None:
    assert explain_counts(FOUND).unknown == ("Callers and flame graphs are unavailable: none.",)
    assert GRAPH_NOTE not in explain_counts(FOUND).methods
    assert profiles(FOUND, "instructions") == (None, None) == profiles(WITH_PATHS, "on-cpu")
    assert None not in profiles(WITH_PATHS, "instructions")
