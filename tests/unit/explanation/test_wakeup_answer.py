# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer about a row of latencies: the paths of the worst wake-ups, and the functions in which they differ."""

from __future__ import annotations

import json

import msgspec
import pytest
from tools.fuzz_seeds import WAKEUP_ROW

from swapstone.core.model.profile import KERNEL, Frame, Profile
from swapstone.core.report.render import find_renderer
from swapstone.parts.explain.explanation.machine_answer import delay, ended_by, explain_wakeups, phase_rows
from swapstone.parts.explain.model.explanation import (
    DisabledSection,
    TracedRow,
    WakeupPath,
)
from swapstone.parts.explain.report.explanation_document import document_of, function_table, summary_of, to_json
from tests.json_schema import check_printed

FOUND = msgspec.json.decode(WAKEUP_ROW, type=TracedRow)
RT, GENERIC = FOUND.sides
SWAPPED = msgspec.structs.replace(FOUND, sides=(GENERIC, RT))


def test_the_functions_that_differ_and_what_delayed_the_later_thread_are_the_answer() -> None:
    assert FOUND.problem() == ""
    waited = (
        "With generic the thread waited without a switch to it, ended by __cond_resched in tlb_batch_pages_flush (a voluntary preemption "
        "point)."
    )
    assert explain_wakeups(FOUND).sentence == (
        "The worst wake-up of cyclictest takes 9 us with generic instead of 1 us with rt: release_pages (kernel), called by "
        f"tlb_batch_pages_flush (kernel), executes 9100 more, 110 % of the difference. {waited}"
    )
    swapped = explain_wakeups(SWAPPED).sentence
    assert "executes 9100 fewer, 110 % of the difference" in swapped and swapped.endswith(waited)


def _path(**functions: float) -> WakeupPath:
    """Return a path of functions without callers."""
    frames: dict[tuple[Frame, ...], float] = {
        (Frame(symbol=name, object=KERNEL),): own for name, own in functions.items()
    }
    profile = Profile.of(frames, kind="instructions", unit="1", operations=1.0)
    every = int(sum(functions.values()))
    return msgspec.structs.replace(GENERIC, instructions=every, phases=(0, 0, every, 0), profile=profile)


def test_several_functions_grew_or_many() -> None:
    before = _path(**dict.fromkeys("abcde", 50))
    after = _path(a=100, b=90, c=50, d=50, e=50)
    assert (
        ": a (kernel) executes 50 more, 56 % of the difference; b (kernel) executes 40 more, 44 % of the difference; together 100 %. With"
    ) in explain_wakeups(msgspec.structs.replace(FOUND, sides=(before, after))).sentence
    many = msgspec.structs.replace(FOUND, sides=(before, _path(**dict.fromkeys("abcde", 60))))
    assert (
        ": the difference is spread over 5 functions, and no three of them are shown" in explain_wakeups(many).sentence
    )


def test_phases_and_functions_have_the_whole() -> None:
    rows = {row[0]: row[1:3] for row in phase_rows(FOUND)}
    assert rows["before the last switch"] == ("600", "9,000") and rows["sum"] == ("1,200", "9,500")
    assert rows["reported by the program"] == ("1 us", "9 us")
    _, *functions = function_table(explain_wakeups(FOUND))
    assert functions[0][:4] == ("release_pages (kernel)", "200", "9300", "+9100")
    below = ("zram, below release_pages", "0", "300", "+300", "4 %", "+300", "release_pages (kernel)")
    assert below in functions
    assert functions[-1][:4] == ("all of them (instructions)", "1200", "9500", "+8300")


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
    assert "waited with 3 other switches, ended by" in delay(msgspec.structs.replace(GENERIC, switches=3))


def test_disabled_interrupts_are_the_reason_where_they_delayed_the_interrupt() -> None:
    section = DisabledSection(begins="spin", ends="other", modules=("planted", ""), instructions=8000)
    side = msgspec.structs.replace(GENERIC, phases=(9000, 100, 200, 200), disabled=section)
    assert delay(side).endswith("with interrupts disabled by spin (planted) until other (kernel).")
    unknown = msgspec.structs.replace(side, disabled=None)
    assert delay(unknown).endswith("the timer had expired and its interrupt was not delivered.")
    late = msgspec.structs.replace(GENERIC, phases=(0, 100, 200, 9200))
    assert delay(late) == " With generic the thread waited after the switch to it."


def test_every_format_has_the_path() -> None:
    found = explain_wakeups(FOUND)
    for name in ("html", "markdown", "text"):
        text = find_renderer(name).render(document_of(found)).replace("\\", "")
        assert "tlb_batch_pages_flush" in text and "before the last switch" in text
    assert "wake-up 1 of 9" in str(found.methods)
    assert summary_of(found, [("a", "b")]).ledger == function_table(found)
    printed = to_json(found, FOUND)
    assert check_printed(printed) == "swapstone-explanation"
    assert json.loads(printed)["traced"]["sides"][1]["ended_by"] == ["__cond_resched", "tlb_batch_pages_flush"]
    assert json.loads(printed)["measured"] is None


def test_text_from_a_record_is_not_printed_raw() -> None:
    hostile = msgspec.structs.replace(_path(**{"a\x1b[31m": 9500}), variant="kernel=\x1b[2J")
    found = explain_wakeups(msgspec.structs.replace(FOUND, sides=(RT, hostile)))
    assert "\x1b" in found.sentence
    for name in ("html", "markdown", "text"):
        assert "\x1b" not in find_renderer(name).render(document_of(found))
    assert "\x1b" not in str(summary_of(found, ())).replace("\\x1b", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"profile": None}, "no profile"),
        ({"instructions": 0}, "phases"),
        ({"cycle": 10}, "not one of its cycles"),
        ({"equal": 0}, "not one of its cycles"),
        ({"phases": (0, 0, 0, 9)}, "phases"),
        ({"profile": _path(a=9).profile}, "don't sum to its instructions"),
        ({"profile": _path(a=-1, b=9501).profile}, "contradicts itself"),
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
            msgspec.json.decode(found.encoded(), type=TracedRow)
