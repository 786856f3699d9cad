# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of instructions by function."""

from __future__ import annotations

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

from swapstone.core.comparison.profile_difference import ProfileDifference
from swapstone.core.model.profile import OWN_OBJECT, Frame
from swapstone.core.report.render import terminal
from swapstone.parts.explain.instruments.counted_runs import unfollowed
from swapstone.parts.explain.instruments.function_names import KernelSymbols
from swapstone.parts.explain.model.instruction_counts import (
    MOST_FUNCTIONS,
    InstructionExplanation,
    InstructionPaths,
    PathTree,
)
from swapstone.parts.explain.report.instruction_explanation import (
    GRAPH,
    GRAPH_NOTE,
    compared,
    document_of,
    event_rows,
    file_rows,
    function_rows,
    notes,
    sentence,
)

FOUND = msgspec.json.decode(COUNTED_ROW, type=InstructionExplanation)


def test_the_sums_are_the_sides_instructions() -> None:
    assert FOUND.problem() == ""
    assert file_rows(FOUND, compared(FOUND)) == [
        ("libc.so", "0", "20", "+20", "133 %"),
        ("kernel", "14.5", "10", "-4.50", "-30 %"),
        ("lost", "0.500", "0", "-0.500", "-3 %"),
        ("sum", "15", "30", "+15", "100 %"),
        ("elapsed ns by its clock", "14", "27.5", "+13.5", "90 %"),
    ]
    assert event_rows(FOUND) == [("system call brk", "1", "0.500")]


def test_the_functions_with_the_largest_differences_are_listed_with_callers() -> None:
    paths = msgspec.json.decode(PATHS_OF_ROW, type=InstructionPaths)
    split = compared(FOUND, paths)
    strlen = "0", "20", "+20", "+20"
    assert function_rows(split) == [
        ("strlen", "libc.so", *strlen, "main +20"),
        ("__x64_sys_brk", "kernel", "14.5", "0", "-14.5", "-14.5", "main -14.5"),
        ("below main", "kernel", "0", "10", "+10", "+10", "main +10"),
        ("main", "program", "0", "0", "0", "+15.5", ""),
        ("sum", "", "14.5", "30", "+15.5", "", ""),
    ]
    assert function_rows(compared(FOUND))[0] == ("strlen", "libc.so", *strlen, "")
    many = msgspec.structs.replace(
        FOUND,
        functions=(*FOUND.functions, *(msgspec.structs.replace(FOUND.functions[1], name=f"f{n}") for n in range(9))),
    )
    assert function_rows(compared(many))[8:] == [
        ("3 more", "", "43.5", "30", "-13.5", "", ""),
        ("sum", "", "145", "120", "-25", "", ""),
    ]
    assert split.notes == paths.sides[1].notes()
    assert split.notes[0] in terminal.render(document_of(FOUND, split)).replace("\n  ", " ")


def _made(before: dict[str, int], after: dict[str, int]) -> tuple[InstructionExplanation, ProfileDifference]:
    """Return a row whose functions of the program are below `main`."""
    names = sorted({*before, *after})
    frames = tuple(Frame(symbol=name, object=OWN_OBJECT) for name in ("main", *names))
    above, numbers = (-1, *(0 for _ in names)), tuple(range(len(frames)))
    trees = [
        PathTree(frames=frames, above=above, frame=numbers, own=(0, *(side.get(name, 0) for name in names)))
        for side in (before, after)
    ]
    paths = InstructionPaths(chain="c", sides=(trees[0], trees[1]))
    sides = [msgspec.structs.replace(side, operations=1.0) for side in FOUND.sides]
    found = msgspec.structs.replace(FOUND, sides=tuple(sides))
    return found, compared(found, paths)


def _sentence(before: dict[str, int], after: dict[str, int]) -> str:
    return sentence(*_made(before, after)).partition(" with glibc: ")[2]


def test_the_other_functions_are_summed_up_without_what_they_call() -> None:
    before = {f"f{number}": 5 for number in range(9)}
    _, split = _made(before, {**before, "f0": 6, "f1": 4})
    assert function_rows(split)[8:] == [("2 more", "", "5", "5", "0", "", ""), ("sum", "", "45", "45", "0", "", "")]


def test_the_sentence_names_the_function_with_the_difference() -> None:
    assert sentence(FOUND, compared(FOUND)) == (
        "w executes 30 instructions with musl instead of 15 with glibc: strlen (libc.so) executes 20 more, 129 % of the difference; "
        "__x64_sys_brk (kernel) executes 4.50 fewer, -29 % of the difference."
    )
    work = {"work": 100, "rest": 50}
    assert _sentence(work, {**work, "work": 12_345}) == (
        "work, called by main, executes 12.2 k more, 100 % of the difference."
    )
    assert _sentence(work, {**work, "work": 90}) == "work, called by main, executes 10 fewer, 100 % of the difference."
    assert _sentence(work, {"work": 160, "rest": 90}) == (
        "work, called by main, executes 60 more, 60 % of the difference; rest, called by main, executes 40 more, 40 % of the difference."
    )
    assert _sentence(work, work) == "there is no difference."
    assert _sentence(work, {"work": 101, "rest": 49}) == "the differences of 2 functions cancel out."
    apart = msgspec.structs.replace(
        FOUND, functions=tuple(msgspec.structs.replace(FOUND.functions[0], name=name) for name in "abcd")
    )
    assert sentence(apart, compared(apart)).endswith(
        ": the difference is spread over 4 functions; the largest differences of functions themselves are a (libc.so) +20 "
        "and b (libc.so) +20."
    )


@pytest.mark.parametrize("entry", ["__x64_sys_brk", "__arm64_sys_brk", "__riscv_sys_brk", "sys_brk"])
def test_system_calls_of_each_architecture_are_named(entry: str) -> None:
    functions = (FOUND.functions[0], msgspec.structs.replace(FOUND.functions[1], name=entry))
    assert event_rows(msgspec.structs.replace(FOUND, functions=functions))[0][0] == "system call brk"


def test_the_clock_is_divided_by_its_scale() -> None:
    slower = msgspec.structs.replace(FOUND, ns_per_instruction=2)
    assert file_rows(slower, compared(slower))[-1][:3] == ("elapsed ns by its clock / 2", "7", "13.5")


def test_contradicting_numbers_are_named() -> None:
    sides = (msgspec.structs.replace(FOUND.sides[0], instructions=31), FOUND.sides[1])
    assert "don't sum" in msgspec.structs.replace(FOUND, sides=sides).problem()
    with pytest.raises(msgspec.ValidationError, match="ns_per_instruction"):
        msgspec.json.decode(msgspec.structs.replace(FOUND, ns_per_instruction=0).encoded(), type=InstructionExplanation)


def test_notes_and_functions_beyond_their_limits_are_refused() -> None:
    assert msgspec.structs.replace(FOUND, notes=("n",) * 100).problem() == ""
    assert "more than 100 notes" in msgspec.structs.replace(FOUND, notes=("n",) * 101).problem()
    none = msgspec.structs.replace(FOUND.functions[0], baseline=0, candidate=0)
    many = (*FOUND.functions, *(none,) * (MOST_FUNCTIONS - 2))
    assert msgspec.structs.replace(FOUND, functions=many).problem() == ""
    assert "functions" in msgspec.structs.replace(FOUND, functions=(*many, none)).problem()


def test_the_notes_name_the_flame_graph_or_why_there_is_none() -> None:
    assert GRAPH_NOTE in notes(msgspec.structs.replace(FOUND, no_graph="")) and GRAPH in GRAPH_NOTE
    missing = msgspec.structs.replace(FOUND, no_graph=unfollowed("riscv64", KernelSymbols([])))
    assert any(note.startswith("A flame graph of the difference is unavailable: calls") for note in notes(missing))
    assert not any(GRAPH in note for note in notes(missing))
    assert any("is of an earlier version" in note for note in notes(FOUND))
