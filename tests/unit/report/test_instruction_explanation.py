# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of instructions by function."""

from __future__ import annotations

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW

from swapstone.parts.explain.instruments.counted_runs import unfollowed
from swapstone.parts.explain.instruments.function_names import KernelSymbols
from swapstone.parts.explain.model.instruction_counts import MOST_FUNCTIONS, InstructionExplanation
from swapstone.parts.explain.report.instruction_explanation import (
    GRAPH,
    GRAPH_NOTE,
    event_rows,
    function_rows,
    kind_rows,
    notes,
    sentence,
)

FOUND = msgspec.json.decode(COUNTED_ROW, type=InstructionExplanation)


def test_the_sums_are_the_sides_instructions() -> None:
    assert FOUND.problem() == ""
    assert kind_rows(FOUND) == [
        ("C library", "0", "20", "+20", "133 %"),
        ("kernel", "14.5", "10", "-4.50", "-30 %"),
        ("lost", "0.500", "0", "-0.500", "-3 %"),
        ("sum", "15", "30", "+15", "100 %"),
        ("elapsed ns by its clock", "14", "27.5", "+13.5", "90 %"),
    ]
    assert function_rows(FOUND)[0] == ("strlen", "libc.so", "0", "20", "+20", "133 %")
    assert event_rows(FOUND) == [("system call brk", "1", "0.500")]
    assert sentence(FOUND) == (
        "w executes 30 instructions with musl instead of 15 with glibc; 133 % of the difference is in the C library (strlen) "
        "and -30 % is in the kernel (__x64_sys_brk)."
    )


@pytest.mark.parametrize("entry", ["__x64_sys_brk", "__arm64_sys_brk", "__riscv_sys_brk", "sys_brk"])
def test_system_calls_of_each_architecture_are_named(entry: str) -> None:
    functions = (FOUND.functions[0], msgspec.structs.replace(FOUND.functions[1], name=entry))
    assert event_rows(msgspec.structs.replace(FOUND, functions=functions))[0][0] == "system call brk"


def test_the_clock_is_divided_by_its_scale() -> None:
    slower = msgspec.structs.replace(FOUND, ns_per_instruction=2)
    assert kind_rows(slower)[-1][:3] == ("elapsed ns by its clock / 2", "7", "13.5")


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
