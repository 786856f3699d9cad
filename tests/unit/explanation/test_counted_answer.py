# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer about a row on the exact clock: the functions whose instructions lead, and tables of all of them."""

from __future__ import annotations

import json

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

from swapstone.core.model.profile import OWN_OBJECT, Frame, Profile
from swapstone.core.report.render import terminal
from swapstone.parts.explain.explanation.machine_answer import GRAPH_NOTE, event_rows, explain_counts, file_rows
from swapstone.parts.explain.model.explanation import MOST_EVENTS, CountedRow
from swapstone.parts.explain.report.explanation_document import document_of, function_table, summary_of, to_json
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
    flat = explain_counts(FOUND)
    assert function_table(flat)[1] == ("strlen (C library)", "0", "20", "+20", "129 %", "+20")
    assert summary_of(flat, ()).ledger == function_table(flat)


def test_the_first_screen_has_what_is_not_known_and_how_to_see_the_callers() -> None:
    notes = WITH_PATHS.profiles[1].notes
    found = explain_counts(WITH_PATHS)
    text = " ".join(terminal.render(document_of(found, record="/r"), terminal.Terminal(width=120)).split())
    assert notes and all(note in text for note in notes) and "elapsed ns by its clock" in text
    assert "swapstone profile /r wall --only w --candidate libc=musl --instructions --open" in text
    assert found.methods[-1] == GRAPH_NOTE


def _made(before: dict[str, int], after: dict[str, int]) -> CountedRow:
    """Return a row whose functions of the program are below `main`."""
    sides = [
        msgspec.structs.replace(side, profile=_below_main(weights), operations=1.0)
        for side, weights in zip(FOUND.sides, (before, after), strict=True)
    ]
    return msgspec.structs.replace(FOUND, sides=(sides[0], sides[1]), no_paths="")


def _below_main(weights: dict[str, int]) -> Profile:
    stacks: dict[tuple[Frame, ...], float] = {
        (Frame(symbol="main", object=OWN_OBJECT), Frame(symbol=name, object=OWN_OBJECT)): float(weight)
        for name, weight in weights.items()
    }
    return Profile.of(stacks, kind="instructions", unit="1", operations=1.0)


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


def test_the_clock_is_divided_by_its_scale() -> None:
    slower = msgspec.structs.replace(FOUND, ns_per_instruction=2)
    assert file_rows(slower)[-1][:3] == ("elapsed ns by its clock / 2", "7", "13.5")


def test_contradicting_numbers_are_named() -> None:
    sides = (msgspec.structs.replace(FOUND.sides[0], instructions=31), FOUND.sides[1])
    assert "don't sum" in msgspec.structs.replace(FOUND, sides=sides).problem()
    with pytest.raises(msgspec.ValidationError, match="ns_per_instruction"):
        msgspec.json.decode(msgspec.structs.replace(FOUND, ns_per_instruction=0).encoded(), type=CountedRow)


def test_notes_and_events_beyond_their_limits_are_refused() -> None:
    assert msgspec.structs.replace(FOUND, notes=("n",) * 100, events=FOUND.events * MOST_EVENTS).problem() == ""
    for change in ({"notes": ("n",) * 101}, {"events": FOUND.events * (MOST_EVENTS + 1)}):
        assert "more than 100 notes" in msgspec.structs.replace(FOUND, **change).problem()


def test_the_profiles_are_no_part_of_the_json() -> None:
    printed = json.loads(to_json(explain_counts(WITH_PATHS), WITH_PATHS))["counted"]
    assert [each.get("profile") for each in printed["sides"]] == [None, None] and printed["events"][0]["name"] == "brk"


def test_why_there_are_no_callers_is_stated_and_no_graph_is_drawn() -> None:
    assert explain_counts(FOUND).unknown == ("Callers and flame graphs are unavailable: none.",)
    assert GRAPH_NOTE not in explain_counts(FOUND).methods
    assert profiles(FOUND, "instructions") == (None, None) == profiles(WITH_PATHS, "on-cpu")
    assert None not in profiles(WITH_PATHS, "instructions")
