# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a trial ended, in words."""

from __future__ import annotations

import errno

import pytest

from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.wire.output_reading import last_line, trouble_of


def killed(before: str, after: str) -> str:
    machine = (("before /proc/vmstat", before), ("after /proc/vmstat", after))
    return trouble_of(AgentAnswer(id="t", outcome=ProcessOutcome.SIGNALED, code=9, machine=machine))


def test_a_machine_out_of_memory_is_named() -> None:
    reason = killed("nr_free_pages 5\noom_kill 0\nzone 1\n", "nr_free_pages 1\noom_kill 1\nzone 1\n")
    assert reason.startswith(
        "it was killed by SIGKILL (signal 9), and the machine's kernel killed a program because its memory"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("oom_kill 2\n", "oom_kill 2\n"),
        ("", "oom_kill 2\n"),
        ("oom_kill 0\n", "oom_kill x\n"),
        ("oom_kill 0", "xoom_kill 1"),
    ],
)
def test_other_counters_prove_nothing(before: str, after: str) -> None:
    assert killed(before, after).startswith("it was killed by SIGKILL (signal 9); ")


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (
            b"workload x\nerror pipe:%20Too%20many%20open%20files\nend\n",
            "its error: 'pipe: Too many open files' (raise the limit of open files: `ulimit -n 4096`)",
        ),
        (b"error a%0Ab\n", "its error: 'a\\nb'"),
        (b"error plain\n", "its last line: 'error plain'"),
        (b"error 100%\n", "its last line: 'error 100%'"),
        (b"error a b%20c\n", "its last line: 'error a b%20c'"),
    ],
)
def test_the_error_of_a_report_is_decoded(printed: bytes, words: str) -> None:
    answer = AgentAnswer(id="t", outcome=ProcessOutcome.EXITED, code=1, stdout=printed)
    assert trouble_of(answer) == f"it ended with status 1; {words}"


@pytest.mark.parametrize(
    ("notes", "code", "reason"),
    [
        (("could not execute it",), errno.EACCES, "Permission denied; it printed nothing"),
        ((), errno.ENOENT, "No such file or directory; it printed nothing"),
        (
            ("something", "could not set its nice value"),
            errno.EACCES,
            "Permission denied (the agent could not set its nice value; only root may lower it: start swapstone without nice)",
        ),
        (("could not enter its folder",), errno.ENOENT, "directory (the agent could not enter its folder)"),
    ],
)
def test_a_start_that_failed_before_the_execution_has_its_step(notes: tuple[str, ...], code: int, reason: str) -> None:
    found = trouble_of(AgentAnswer(id="t", outcome=ProcessOutcome.UNSTARTED, code=code, notes=notes))
    assert found.startswith("it could not be started: ") and reason in found
    assert ("(the agent" in found) == ("(the agent" in reason)


@pytest.mark.parametrize("text", ["pipe: Too many open files", "pipe: No file descriptors available"])
def test_the_limit_of_open_files_is_named_with_its_remedy(text: str) -> None:
    """By the texts of both C libraries, and where the agent could not start the program."""
    report = f"swapstone-workload 2\nname x\nerror {text.replace(' ', '%20')}\nend\n".encode()
    assert last_line(report) == f"its error: {text!r} (raise the limit of open files: `ulimit -n 4096`)"
    assert last_line(report.replace(b"open", b"shut").replace(b"available", b"there")).endswith("'")
    found = trouble_of(AgentAnswer(id="t", outcome=ProcessOutcome.UNSTARTED, code=errno.EMFILE))
    assert "ulimit -n 4096" in found
    assert "ulimit" not in trouble_of(AgentAnswer(id="t", outcome=ProcessOutcome.UNSTARTED, code=errno.ENOENT))
