# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a program executes is counted exactly on the virtual clock: against a count by hand, callgrind and strace."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vm_images import need_emulator
from tests.e2e import known_program
from tests.e2e.cli import swapstone
from tests.programs import require

MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}
CALLS = 1000
PARTS = ("call_instructions", "fault_instructions", "interrupt_instructions")


def _runs(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of a record: the variant, the facts, and the value of each metric."""
    runs = [json.loads(line)["run"] for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert {run["status"] for run in runs} == {"ok"}
    return [
        {
            "variant": run["trial"]["variant"],
            **dict(run["facts"]),
            **{each["metric"]: each["values"][0] for each in run["samples"]},
        }
        for run in runs
    ]


def _calls(run: dict[str, Any]) -> dict[str, int]:
    return {name.removeprefix("calls."): number for name, number in run.items() if name.startswith("calls.")}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", MACHINES)
def test_a_program_whose_instructions_are_known(architecture: str, tmp_path: Path) -> None:
    need_emulator(MACHINES[architecture])
    require(known_program.COMPILERS[architecture])
    for name, more in (("old", 0), ("new", 1)):
        known_program.build(tmp_path, name, architecture, CALLS + more)
    asked = ("--target", "vm", "--arch", architecture, "--blocks", "2", "--out", "r")
    swapstone(tmp_path, "compare", "./old", "./new", *asked)
    runs = _runs(tmp_path / "r")
    assert len(runs) == 4
    for run in runs:
        calls = CALLS + (run["variant"] == "command=new")
        assert run["instructions"] == known_program.instructions(architecture, calls)
        assert _calls(run) == known_program.system_calls(architecture, calls)
        assert run["syscalls"] == sum(_calls(run).values())
        assert run["tasks"] == 1 + known_program.FORKS and run["rep_turns"] == 0
        assert run["user_faults"] >= known_program.PAGES
        kernel = run["kernel_instructions"]
        assert 0 <= kernel - sum(run[part] for part in PARTS) < kernel / 20
        by_name = sum(number for name, number in run.items() if name.startswith("kernel."))
        assert run["call_instructions"] == by_name and "user" not in run and "system" not in run
    shown = swapstone(tmp_path, "show", "r", "--all").stdout
    assert "What was executed" in shown and "new against old: 1 more getppid" in " ".join(shown.split())


_WORK = """
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char from[4096], to[4096];
    unsigned sum = 1;
    for (int i = 0; i < 200; i++) {
        char *some = malloc(100 + (size_t)i * 50);
        for (int turn = 0; turn < 20000; turn++)
            sum = sum * 1664525 + 1013904223;
        memset(from, (int)(sum & 255), sizeof from);
        memcpy(to, from, sizeof to);
        sum += (unsigned)to[i] + (some != NULL);
        free(some);
    }
    return sum == 0;
}
"""


@pytest.mark.slow
def test_callgrind_counts_as_many_instructions(tmp_path: Path) -> None:
    need_emulator()
    require("musl-gcc", "valgrind")
    program = _compiled(tmp_path, "work", _WORK)
    out = tmp_path / "callgrind.out"
    subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program],
        check=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    (expected,) = map(int, re.findall(r"^(?:totals|summary): ([0-9]+)$", out.read_text(), re.MULTILINE)[:1])
    shutil.copy(program, tmp_path / "same")
    swapstone(tmp_path, "compare", "./work", "./same", "--target", "vm", "--blocks", "1", "--out", "r")
    for run in _runs(tmp_path / "r"):
        counted = run["instructions"] + run["rep_turns"]
        assert expected > 10_000_000 and abs(counted - expected) < 1000, "loops over the environment"
        assert run["rep_turns"] > 0


_TASKS = """
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *write_line(void *end) {
    return write(*(int *)end, "line", 5) == 5 ? NULL : end;
}
int main(int count, char **arguments) {
    int ends[2];
    char *again[] = {arguments[0], "child", NULL}, *none[] = {NULL}, line[5];
    pthread_t threads[4];
    if (count > 1)
        return getppid() == 0;
    if (pipe(ends))
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_line, &ends[1]);
    for (int i = 0; i < 4; i++)
        if (pthread_join(threads[i], NULL) || read(ends[0], line, 5) != 5)
            return 1;
    for (int i = 0; i < 5; i++) {
        pid_t child = i % 2 ? fork() : vfork();
        if (child == 0) {
            execve(arguments[0], again, none);
            _exit(1);
        }
        if (waitpid(child, NULL, 0) != child)
            return 1;
    }
    return 0;
}
"""
_DIFFERENT = {"futex", "exit", "exit_group"}
"""Threads wait for each other or not; strace counts no system call that does not return."""


@pytest.mark.slow
def test_strace_counts_the_same_system_calls(tmp_path: Path) -> None:
    need_emulator()
    require("musl-gcc", "strace")
    program = _compiled(tmp_path, "tasks", _TASKS, "-pthread")
    subprocess.run(["strace", "-f", "-c", "-o", tmp_path / "calls", program], check=True)
    rows = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    expected = {row[-1]: int(row[3]) for row in rows if row and re.fullmatch(r"[0-9]+\.[0-9]+", row[0])}
    expected.pop("total")
    shutil.copy(program, tmp_path / "same")
    swapstone(tmp_path, "compare", "./tasks", "./same", "--target", "vm", "--blocks", "1", "--out", "r")
    for run in _runs(tmp_path / "r"):
        assert run["tasks"] == 1 + 4 + 5 and _calls(run)["execve"] == 1 + 5
        assert _without(_calls(run)) == _without(expected)


def _compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["musl-gcc", "-O1", "-static", *flags, f"{name}.c", "-o", name], check=True, cwd=folder)
    return folder / name


def _without(calls: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in calls.items() if name not in _DIFFERENT}
