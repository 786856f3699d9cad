# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tasks that the emulator's plugin follows, without an emulator (native/plugin/tasks.c)."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.instruments.plugin_driver import compile_program

K = 1 << 63
SWITCH, COPY, MARK, EXECVE, ENTRY, FAULT, FROM_USER, LEAVE, TIMER, GETPID, OTHER = (
    K + 0x1000 * number for number in range(1, 12)
)
AGENT, PROGRAM = 0x60000000, 0x400000
POINTS = f"""\
m {AGENT:x} {AGENT:x} -
w {SWITCH:x} {SWITCH + 32:x} -
n {COPY:x} {COPY + 32:x} -
eus {ENTRY:x} {ENTRY:x} -
ef {FAULT:x} {FAULT:x} -
u {FROM_USER:x} {FROM_USER:x} -
l {LEAVE:x} {LEAVE:x} -
i {TIMER:x} {TIMER:x} -
rc {EXECVE:x} {EXECVE:x} execve
c {GETPID:x} {GETPID:x} getpid
"""
NOP, POP, STORE_SP, LOAD_SP, STORE = "90", "58", "4889a700180000", "488ba600180000", "488903"
BLOCKS = (
    f"b {SWITCH:x} {STORE_SP} {LOAD_SP} {NOP}",
    f"b {COPY:x} {NOP} {STORE}",
    *(f"b {place:x} {NOP} {NOP}" for place in (EXECVE, ENTRY, FAULT, FROM_USER, LEAVE, TIMER, GETPID, OTHER)),
    f"b {AGENT:x} {NOP}",
    f"b {PROGRAM:x} {POP} {POP} {POP}",
)
START = (f"x {AGENT:x} 1", f"x {ENTRY:x} 2", f"x {EXECVE:x} 2")
"""The agent executes the program."""

Run = Callable[..., dict[str, int]]


@pytest.fixture(scope="module", params=["", "WITH_SCOREBOARDS"], ids=["QEMU 7.2", "QEMU 10.0"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = ("tasks", "instruction", "blocks", "interface")
    return compile_program(tmp_path_factory.mktemp("tasks"), "tasks_driver", *parts, define=request.param)


@pytest.fixture
def run(program: Path, tmp_path: Path) -> Run:
    """Return a function that feeds events to the mode, and returns what it writes."""
    (tmp_path / "points").write_text(POINTS)

    def feed(*events: str) -> dict[str, int]:
        lines = "\n".join((*BLOCKS, *events)) + "\n"
        command = [str(program), "x86_64", str(tmp_path / "points")]
        found = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        assert found[0] == "swapstone-tasks 1"
        return {name: int(number) for name, number in map(str.split, found[1:])}

    return feed


def switch(*tasks: int) -> list[str]:
    """Switch from the first task to the second, and so on."""
    found = []
    for before, after in itertools.pairwise(tasks):
        found += [f"x {SWITCH:x} 1", f"s {SWITCH:x} {before:x}"]
        found += [f"l {SWITCH + 7:x} {after:x}"]
    return found


def call(function: int) -> tuple[str, str]:
    return f"x {ENTRY:x} 2", f"x {function:x} 2"


def fault(instructions: int, *, user: bool) -> list[str]:
    return [f"x {PROGRAM:x} {instructions}", f"x {FAULT:x} 2", *([f"x {FROM_USER:x} 2"] if user else [])]


def test_nothing_is_counted_before_the_program_and_without_it(run: Run) -> None:
    before = run(f"x {PROGRAM:x} 3", *call(EXECVE), f"x {PROGRAM:x} 3", *call(GETPID))
    assert before["roots"] == before["user_instructions"] == before["kernel_instructions"] == before["syscalls"] == 0


def test_the_program_is_counted_from_its_execve_on(run: Run) -> None:
    found = run(f"x {PROGRAM:x} 3", *call(GETPID), *START, f"x {PROGRAM:x} 3", *call(GETPID), f"x {PROGRAM:x} 3")
    assert (found["roots"], found["tasks"], found["copied"]) == (1, 1, 0)
    assert (found["user_instructions"], found["syscalls"]) == (6, 2)
    assert (found["calls.execve"], found["calls.getpid"]) == (1, 1)
    assert (found["kernel.execve"], found["kernel.getpid"], found["kernel_instructions"]) == (2, 4, 6)


def test_children_are_counted_and_others_are_not(run: Run) -> None:
    fork = (*call(OTHER), f"x {COPY:x} 2", f"s {COPY + 1:x} 3000")
    work = (f"x {PROGRAM:x} 3",)
    alien = (f"x {COPY:x} 2", f"s {COPY + 1:x} 4000")
    found = run(
        *switch(0x1000, 0x2000),
        *START,
        *fork,
        *switch(0x2000, 0x1000),
        *alien,
        *work,
        *switch(0x1000, 0x4000),
        *work,
        *switch(0x4000, 0x3000),
        *work,
        *switch(0x3000, 0x2000),
        *work,
        *switch(0x2000, 0x3000),
        *work,
    )
    assert (found["tasks"], found["copied"], found["task_switches"]) == (2, 1, 3)
    assert found["user_instructions"] == 9


def test_the_memory_of_a_task_that_ended_may_be_that_of_an_outsider(run: Run) -> None:
    copies = (f"x {COPY:x} 2", f"s {COPY + 1:x} 3000")
    found = run(
        *switch(0x1000, 0x2000),
        *START,
        *copies,
        *switch(0x2000, 0x3000, 0x1000),
        *copies,
        *switch(0x1000, 0x3000),
        f"x {PROGRAM:x} 3",
    )
    assert (found["tasks"], found["user_instructions"]) == (2, 0)


def test_an_instruction_that_faults_counts_once(run: Run) -> None:
    inside = run(*START, *fault(2, user=True), f"x {PROGRAM:x} 3")
    assert (inside["user_instructions"], inside["uncertain_instructions"]) == (1 + 3, 0)
    assert (inside["user_faults"], inside["kernel_faults"]) == (1, 0)
    assert inside["fault_instructions"] == 4
    at_end = run(*START, *fault(3, user=True), f"x {PROGRAM:x} 3")
    assert (at_end["user_instructions"], at_end["uncertain_instructions"]) == (6, 1), (
        "or the next instruction could not be fetched"
    )
    kernel = run(*START, *call(GETPID), *fault(0, user=False), f"x {OTHER:x} 2")
    assert (kernel["user_faults"], kernel["kernel_faults"], kernel["kernel.getpid"]) == (0, 1, 2 + 2 - 1 + 2 + 2)


@pytest.mark.parametrize("user", [False, True])
def test_an_entry_of_an_unknown_reason_is_no_fault(run: Run, user: bool) -> None:
    leave = () if user else (f"x {LEAVE:x} 2",)
    found = run(*START, *fault(2, user=user), *leave, f"x {PROGRAM:x} 3", f"x {FROM_USER:x} 2")
    assert (found["user_faults"], found["kernel_faults"]) == (user, not user)


def test_interrupts_are_apart_and_nest(run: Run) -> None:
    tick, leave = f"x {TIMER:x} 2", f"x {LEAVE:x} 2"
    found = run(*START, *call(GETPID), tick, tick, leave, leave, f"x {OTHER:x} 2")
    assert (found["interrupt_instructions"], found["kernel.getpid"]) == (2 + 2 + 2, 4 + 2 + 2)
    of_user = run(*START, f"x {PROGRAM:x} 3", tick, f"x {FROM_USER:x} 2", leave, f"x {PROGRAM:x} 3", *call(GETPID))
    assert (of_user["interrupt_instructions"], of_user["kernel.getpid"], of_user["user_instructions"]) == (6, 4, 6)


def test_turns_of_rep_are_apart(run: Run) -> None:
    found = run(*START, "b 500000 90 f3aa", "x 500000 2", "b 500001 f3aa", "x 500001 1", "x 500001 1")
    assert (found["user_instructions"], found["rep_turns"]) == (1, 3)


@pytest.mark.parametrize("points", ["", "w 1 2 -\n", POINTS + "x\n", POINTS.replace("w ", "c ")])
def test_damaged_points_are_refused(program: Path, tmp_path: Path, points: str) -> None:
    (tmp_path / "points").write_text(points)
    command = [str(program), "x86_64", str(tmp_path / "points")]
    assert subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout.startswith(
        "points=FILE"
    )
