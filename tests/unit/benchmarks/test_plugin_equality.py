# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of benchmarks/plugin-equality."""

from __future__ import annotations

import msgspec
import pytest
from benchmarks import plugin_equality
from benchmarks.plugin_equality import Pair, differences, table

from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun

ANSWER = AgentAnswer(id="a", outcome=ProcessOutcome.EXITED, code=0, name="n", stdout=b"1\n")
RUN = GuestRun(end=GuestEnd.FINISHED, output=b"report", console="booted")


@pytest.mark.parametrize(
    ("answer", "run", "expected"),
    [
        (ANSWER, RUN, ()),
        (msgspec.structs.replace(ANSWER, stdout=b"2\n"), RUN, ("output",)),
        (msgspec.structs.replace(ANSWER, name="m"), RUN, ("name",)),
        (ANSWER, GuestRun(end=GuestEnd.FINISHED, output=b"Report", console="booted"), ("report",)),
        (ANSWER, GuestRun(end=GuestEnd.FINISHED, output=b"report", console="booted!"), ("console",)),
        (ANSWER, GuestRun(end=GuestEnd.SILENT, output=b"report", console="booted"), ("end",)),
    ],
)
def test_every_fact_is_compared(answer: AgentAnswer, run: GuestRun, expected: tuple[str, ...]) -> None:
    assert differences((ANSWER, RUN), (answer, run)) == expected


def test_a_trial_that_differs_is_named() -> None:
    pairs = [Pair("libc=glibc", (), 1.0, 1.5), Pair("libc=musl", ("console", "report"), 2.0, 3.0)]
    lines = table(pairs)
    assert [line.split() for line in lines[1:4]] == [
        ["libc=glibc", "1", "1", "1.0", "1.5", "+50%"],
        ["libc=musl", "1", "0", "2.0", "3.0", "+50%"],
        ["sum", "2", "1", "3.0", "4.5", "+50%"],
    ]
    assert lines[4:] == ["  trial 2, libc=musl: console, report"]
    assert (plugin_equality.status(pairs), plugin_equality.status(pairs[:1])) == (1, 0)
