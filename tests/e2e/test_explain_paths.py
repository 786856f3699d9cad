# SPDX-License-Identifier: MIT OR Apache-2.0
"""Flame graphs of records on the exact clock: the calls of known programs, with the instructions of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import swapstone as api
from tests.e2e.cli import swapstone
from tests.e2e.explained_record import RECORD, ROW, explained_strlen
from tests.programs import require
from tests.shared import Shared

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the compilers are those of an x86_64 host"),
]

PROGRAM = """\
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/times.h>
#ifdef __aarch64__
#define TURN "subs %0, %0, #1\\n b.ne 1b"
#define TOUCH "strb wzr, [%0]\\n add %0, %0, #4096\\n subs %1, %1, #1\\n b.ne 1b"
#else
#define TURN "sub $1, %0\\n jnz 1b"
#define TOUCH "movb $1, (%0)\\n add $4096, %0\\n sub $1, %1\\n jnz 1b"
#endif
#define FUNCTION __attribute__((noinline)) static void
static jmp_buf back;
FUNCTION spin(long count) { __asm__ volatile("nop\\n 1: " TURN "\\n" : "+r"(count)); }
FUNCTION touch(char *page, long count) { __asm__ volatile("nop\\n 1: " TOUCH "\\n" : "+r"(page), "+r"(count) : : "memory"); }
static char pages[300 * 4096];
FUNCTION inner(long count) { spin(count); __asm__ volatile(""); }
FUNCTION outer(long count) { inner(count); __asm__ volatile(""); }
FUNCTION other(void) { spin(200000); __asm__ volatile(""); }
FUNCTION down(int depth) {
    if (depth) down(depth - 1);
    else spin(300000);
    __asm__ volatile("");
}
FUNCTION throw(int depth) {
    if (depth) throw(depth - 1);
    else longjmp(back, 1);
    __asm__ volatile("");
}
FUNCTION after(void) { spin(400000); __asm__ volatile(""); }
static void *thread(void *unused) { spin(500000); return unused; }
int main(int count, char **arguments) {
    touch(pages, 300);
    for (int i = 0; i < 7; i++) times(NULL);
    outer(atol(arguments[count - 1]));
    other();
    down(5);
    if (!setjmp(back)) throw(7);
    after();
    pthread_t one;
    pthread_create(&one, NULL, thread, NULL);
    spin(600000);
    pthread_join(one, NULL);
}
"""
FEW, MANY = 1_000_000, 1_500_000
PATHS = {
    "main;outer;inner;spin": (FEW, MANY),
    "main;other;spin": (200_000, 200_000),
    f"main;{'down;' * 6}spin": (300_000, 300_000),
    "main;after;spin": (400_000, 400_000),
    "main;spin": (600_000, 600_000),
}
"""How often the loop of two instructions is executed on each path of the first thread."""
THREAD = (500_000, 500_000)

Machine = tuple[str, str, str, str]
MACHINES: list[Machine] = [
    ("x86_64", "cc", "qemu-system-x86_64", "clone3"),
    ("arm64", "aarch64-linux-gnu-gcc", "qemu-system-aarch64", "thread_start"),
]
"""Architecture, compiler, emulator, the C library's function in which a thread begins."""


def _stacks(folder: Path) -> dict[str, tuple[int, int]]:
    lines = (folder / "instructions-difference.folded").read_text().splitlines()
    found = (line.rsplit(" ", 2) for line in lines)
    return {stack: (int(before), int(after)) for stack, before, after in found}


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(machine, id=machine[0], marks=[pytest.mark.exhaustive] * (machine[0] != "x86_64"))
        for machine in MACHINES
    ],
)
def test_a_flame_graph_has_the_calls_and_the_instructions_of_the_table(
    machine: Machine, tmp_path: Path, exhaustive: bool
) -> None:
    architecture, compiler, emulator, thread = machine
    require(emulator, compiler)
    (tmp_path / "calls.c").write_text(PROGRAM)
    subprocess.run([compiler, "-O1", "-static", "-pthread", "calls.c", "-o", "calls"], check=True, cwd=tmp_path)
    record = tmp_path / "r"
    pair = (f"./calls {FEW}", f"./calls {MANY}")
    swapstone(
        tmp_path, "compare", *pair, "--target", "vm", "--arch", architecture, "--blocks", "1", "--out", str(record)
    )
    found = json.loads(swapstone(tmp_path, "explain", str(record), "wall", "--only", "*", "--json").stdout)["counted"]
    (folder,) = (record / "explain").iterdir()
    stacks = _stacks(folder)
    begin = f"{thread};start_thread;thread;spin"
    known = {**PATHS, begin if begin in stacks else f"__{begin}": THREAD}  # glibc 2.41 names it so
    for path, turns in known.items():
        rest = [instructions - 2 * turn for instructions, turn in zip(stacks[path], turns, strict=True)]
        assert all(2 <= each < 8 for each in rest), (path, stacks[path])  # nop and return
    spins = {stack for stack in stacks if re.search(r"(^|;)spin$", stack)}
    assert spins == known.keys()
    below = {stack for stack in stacks if ";throw" in stack and "spin" in stack}
    assert not below, "longjmp has ended the calls of throw"
    calls = "main;outer;inner;spin;"  # its page faults and timers
    assert all("_[k]" in stack.removeprefix(calls).split(";")[0] for stack in stacks if stack.startswith(calls))
    left = re.compile(r"_\[k\];ret_to_user_\[k\]")
    assert not [stack for stack in stacks if left.search(stack)], "the kernel's functions have returned at its exit"
    for number, side in enumerate(found["sides"]):
        assert sum(each[number] for each in stacks.values()) == side["instructions"] and not side["lost"]
    spin = [sum(stacks[path][side] for path in known) for side in (0, 1)]
    assert spin[1] - spin[0] == 2 * (MANY - FEW)
    events = {each["name"]: [each["baseline"], each["candidate"]] for each in found["events"]}
    assert events["times"] == [7, 7]
    if architecture == "x86_64":  # each page faults: the instruction counts once, not once more
        touched = sum(before for stack, (before, _) in stacks.items() if stack.endswith(";touch"))
        assert 1200 + 2 <= touched < 1200 + 8
    stamp = (folder / "instructions.json").stat().st_mtime_ns
    again = api.load(record).explain("*", metric="wall")  # in this process: each command would draw all graphs anew
    assert (folder / "instructions.json").stat().st_mtime_ns == stamp, "what is stored was measured again"
    shown = again.report()
    assert re.search(
        r": spin, called by inner, executes \S+ \w more, \d+ % of the difference\.", " ".join(shown.split())
    )
    split = again.compare()
    (leading,) = split.leading() if split else ()
    assert (leading.frame.symbol, leading.own.difference) == ("spin", 2 * (MANY - FEW))
    written = {path.name for path in again.profiles("instructions")}
    assert written >= {"instructions-difference.html", "instructions-baseline.pb.gz"}
    summary = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert re.search(
        r": spin, called by inner, executes \S+ \w more, \d+ % of the difference\.", " ".join(summary.split())
    )
    assert "instructions-difference.html" in swapstone(tmp_path, "report", str(record), "--format", "markdown").stdout
    if exhaustive:  # it writes all graphs first
        refused = swapstone(tmp_path, "profile", str(record), "wall", "--only", "*", "--off-cpu", expect=2)
        assert "There is no profile off-cpu" in refused.stderr and "--instructions" in refused.stderr


@pytest.mark.exhaustive
def test_stored_paths_that_contradict_the_table_are_not_used(shared: Shared) -> None:
    top = explained_strlen(shared)
    (folder,) = (top / RECORD / "explain").iterdir()
    stacks = _stacks(folder)
    assert stacks["run_child;measure;pass;strlen"][1] > 10_000_000  # below the function of a pass, which a child runs
    paths = folder / "instructions.json"
    whole = paths.read_bytes()
    paths.write_bytes(whole.replace(b'"lost":0', b'"lost":1', 1))
    swapstone(top, "explain", str(top / RECORD), *ROW)  # runs both variants again
    again, before = json.loads(paths.read_bytes()), json.loads(whole)
    assert again["sides"] == before["sides"] and _stacks(folder) == stacks
