# SPDX-License-Identifier: MIT OR Apache-2.0
"""The moving line has what a reader needs to decide whether to wait, on every width, and cuts no number."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from swapstone.cli.display import TerminalDisplay
from swapstone.core.model import CURRENT_RULES, REPORT_CORRECTION, VIRTUAL_CLOCK, Experiment, OwnProgram, Trial
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.session.precision_stop import needed_pairs
from swapstone.core.session.progress import LineProgress, ProgressText
from swapstone.core.workloads import find_suite
from tests.unit.builders import experiment

WORKLOADS = tuple(("libc", f"b_pthread_createjoin_minimal{number}") for number in range(27))
DECISION = StopDecision((), "", 754_000_000_000, 0.1234, 19)
TRIAL = Trial(
    suite="libc",
    workload="b_pthread_createjoin_minimal1",
    load="idle",
    variant="libc=glibc,allocator=mimalloc",
    block=12,
    position=3,
)


def _experiment() -> Experiment:
    return experiment(workloads=WORKLOADS)


def _shown(width: int, label: str = "") -> tuple[str, TerminalDisplay]:
    """Return what the terminal shows during a trial."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    display = TerminalDisplay(console)
    display.experiment_started(_experiment(), label)
    display.block_done(DECISION, 11, 60_000_000_000)
    display.trial(TRIAL, 42, 54)
    bar = display._bar
    assert bar is not None
    shown = Console(file=io.StringIO(), width=width, color_system=None)
    with shown.capture() as capture:
        shown.print(bar.get_renderable())
    display.experiment_ended()
    return capture.get(), display


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_line_fits_and_has_what_matters_most_first(width: int) -> None:
    text, _ = _shown(width)
    (line,) = text.splitlines()
    assert len(line) <= width
    assert "…" not in line
    assert "about 12 min 34 s left; 19 of" in line
    assert "0:00:0" in line  # elapsed
    if width >= 120:
        assert "19 of 27 rows decided; block 12; trial 43 of 54; b_" in line


def test_a_part_of_a_study_is_named_first() -> None:
    text, _ = _shown(120, "part 2 of 4")
    assert "part 2 of 4; about 12 min 34 s left; 19 of 27 rows decided" in text


def _text(label: str = "") -> ProgressText:
    made = ProgressText(_experiment(), label)
    made.block_done(DECISION, 11, 60_000_000_000)
    return made


def test_builds_have_a_count_and_a_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    text = _text()
    assert text.step("building", 0, 54, "lua libc=glibc") == "building 1 of 54; lua libc=glibc"
    for done, left in ((1, ""), (2, ""), (3, ""), (4, "about 3 min 20 s left; "), (5, "about 3 min 16 s left; ")):
        clock[0] += 4
        assert text.step("building", done, 54, "lua") == f"building {done + 1} of 54; {left}lua"


@pytest.mark.parametrize("took_s", [(0.0, 0.0, 0.0, 200.0), (200.0, 0.1, 0.1, 0.1), (3.0, 40.0, 3.0, 3.0)])
def test_no_remaining_time_follows_from_programs_of_other_kinds(
    monkeypatch: pytest.MonkeyPatch, took_s: tuple[float, ...]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    text = _text()
    text.step("building", 0, 20, "lwip")
    for done, each_s in enumerate(took_s, start=1):
        clock[0] += each_s
        shown = text.step("building", done, 20, "lwip")
    assert shown == "building 5 of 20; lwip"
    for done in range(5, 20):  # another step has a time of its own
        text.step("calibrating", done - 5, 20, "w")
        clock[0] += 5
    assert text.step("calibrating", 15, 20, "w") == "calibrating 16 of 20; about 25 s left; w"


def test_before_the_first_check_the_line_names_it_and_a_fixed_number_of_blocks_is_counted() -> None:
    text = ProgressText(experiment(workloads=WORKLOADS, blocks=20), "")
    shown = text.trial(TRIAL, 0, 54)
    assert "verdicts at the end" in shown
    assert "block 12 of 20" in shown


def test_a_number_of_blocks_of_known_length_is_announced_and_no_time_beyond_a_budget_of_the_user() -> None:
    fields = {"workloads": WORKLOADS, "blocks": 20, "wakeups": 50_000, "budget_ns": 60 * 10**9}
    exact, timed = (ProgressText(experiment(**fields, budget_extends=extends)) for extends in (True, False))
    assert _left(exact) == "about 7 min 30 s left"  # 9 blocks of 10 trials
    assert _left(timed) == "at most 60 s left"


def _left(text: ProgressText) -> str:
    return text.trial(TRIAL, 0, 10).partition(";")[0]


def _running(
    *, decided: int | None = None, remaining_ns: int = 0, next_ns: int = 0, budget_ns: int = 120 * 10**9
) -> ProgressText:
    """Return the text of an experiment of 2 min after a decision at block 6."""
    text = ProgressText(experiment(workloads=WORKLOADS, budget_ns=budget_ns))
    decision = StopDecision((), "", remaining_ns, None, decided, next_ns=next_ns, budget_ns=budget_ns)
    text.block_done(decision, 6, 60 * 10**9)
    return text


def test_what_is_built_and_calibrated_takes_no_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    text = ProgressText(experiment(workloads=WORKLOADS, budget_ns=60 * 10**9))
    clock[0] += 300 * 10**9
    assert _left(text) == "at most 60 s left"
    clock[0] += 20 * 10**9
    assert _left(text) == "at most 40 s left"


def test_the_first_replicate_is_completed_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    works = (("libc", "b_string_strlen"), ("libc", "b_malloc_tiny1"))
    text = ProgressText(experiment(workloads=works, budget_ns=60 * 10**9, clock=VIRTUAL_CLOCK))
    assert _left(text).startswith("first verdicts after replicate")  # how long a trial takes is not known
    for done, left in ((1, "at most 55 s left"), (2, "at most 50 s left"), (4, "at most 40 s left")):
        clock[0] += (done - done // 2) * 5 * 10**9
        assert text.trial(TRIAL, done, 10).startswith(f"{left}; ")
    clock[0] += 40 * 10**9
    assert text.trial(TRIAL, 5, 10).startswith("about 60 s left of the first replicate; ")


def test_the_time_left_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    text = _running(decided=3, remaining_ns=40 * 10**9, next_ns=10 * 10**9)
    assert _left(text) == "about 40 s left"
    clock[0] += 5 * 10**9
    assert _left(text) == "about 35 s left"
    clock[0] += 40 * 10**9
    assert _left(text) == "longer than estimated"


def test_before_the_first_check_the_time_left_is_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    text = _running(remaining_ns=40 * 10**9, next_ns=10 * 10**9)
    assert _left(text) == "40 s to 60 s left"
    clock[0] += 50 * 10**9
    assert _left(text) == "longer than estimated"
    assert _left(_running(remaining_ns=60 * 10**9, next_ns=10 * 10**9)) == "about 60 s left"  # the budget


def test_stored_runs_announce_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a resumed part of a study: the last block took no time, and trials of the next take 20 s each."""
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    text = _running(decided=3, remaining_ns=10**6, next_ns=10**6)
    assert _left(text) == "about 0 s left"
    clock[0] += 20 * 10**9
    assert _left(text) == "longer than estimated"


def test_in_the_first_block_the_budget_is_a_limit_only_if_it_is_not_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    fixed = ProgressText(experiment(workloads=WORKLOADS, budget_ns=40 * 10**9))
    default = ProgressText(experiment(workloads=WORKLOADS, budget_ns=40 * 10**9, budget_extends=True))
    for text, shown in ((fixed, "at most 40 s left"), (default, "about 40 s left, or longer")):
        assert _left(text) == shown
    clock[0] += 30 * 10**9
    assert _left(fixed) == "at most 10 s left"
    clock[0] += 30 * 10**9
    assert _left(fixed) == _left(default) == "longer than estimated"  # the block that runs is completed


def test_no_verdict_is_announced_for_a_block_after_the_end() -> None:
    assert _running(next_ns=5 * 10**9).knowledge() == "first verdicts after block 15"
    assert _running(next_ns=10 * 10**9).knowledge() == "verdicts at the end"
    assert _running(next_ns=10 * 10**9, decided=3).knowledge() == "3 of 27 rows decided"
    assert ProgressText(experiment(blocks=9)).knowledge() == "verdicts at the end"


def test_the_first_verdicts_are_those_of_the_first_check_with_enough_pairs_for_an_interval() -> None:
    """27 workloads are so many hypotheses that 17 pairs are needed; precision is checked after 15 and 20."""
    names = tuple(("libc", workload.name) for workload in find_suite("libc").workloads)
    assert len(names) == 27
    whole = experiment(workloads=names, rules=CURRENT_RULES, correction=REPORT_CORRECTION, confidence=0.99)
    assert needed_pairs(whole) == 17
    text = ProgressText(whole)
    text.block_done(StopDecision((), "", 0, None, None, next_ns=10**9, budget_ns=60 * 10**9), 6, 10**9)
    assert text.knowledge() == "first verdicts after block 20"


def test_without_a_terminal_there_is_a_line_at_once_and_then_every_fifteen_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, lines = [100.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shown = LineProgress(lines.append)
    shown.experiment_started(_experiment(), "part 2 of 4")
    for done in range(54):
        shown.building(done, 54, f"w{done} libc=musl")
        clock[0] += 1
    shown.block_done(DECISION, 11, 60_000_000_000)
    clock[0] += 15
    shown.trial(TRIAL, 42, 54)
    assert lines[0] == "part 2 of 4: building 54 programs"
    assert lines[1] == "part 2 of 4; building 16 of 54; about 39 s left; w15 libc=musl"
    assert len(lines) == 5
    assert lines[-1].startswith(
        "part 2 of 4; about 12 min 34 s left; 19 of 27 rows decided; block 12; trial 43 of 54; b_"
    )


def test_a_program_that_is_built_already_is_not_called_built() -> None:
    for own, what in ((OwnProgram(name="w", arguments=("w",)), "preparing 1 program"), (None, "building 1 program")):
        lines: list[str] = []
        shown = LineProgress(lines.append)
        shown.experiment_started(experiment(own=own), "")
        shown.building(0, 1, "w")
        assert lines == [what]
