# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of benchmarks/model-programs, and what it counts as wrong."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import msgspec
import pytest
from benchmarks.model_programs import (
    PROGRAMS,
    SOURCE,
    MicroProgram,
    Observed,
    cost_lines,
    differences,
    event_table,
    problems,
    ratio_table,
)
from tools.plugin_output import model_file

from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.parts.explain.instruments.model_counts import decode_model
from swapstone.parts.explain.model.instruction_counts import MEMORY, ProcessorEvents
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun

FIELDS = {field.name for field in msgspec.structs.fields(ProcessorEvents)}
HOPS = 1_000_000
PROGRAM = MicroProgram("list", "small / large", (MEMORY,), ({"l1d_misses": 0}, {"l1d_misses": HOPS}))


def _observed(misses: int, *, differs: tuple[str, ...] = (), host_ns: float = 5.0) -> Observed:
    counts = decode_model(model_file(instructions=3 * HOPS, l1d_accesses=2 * HOPS, l1d_misses=misses))
    return Observed(counts, 3 * HOPS, host_ns, differs, 1.0, 2.5)


def test_expected_events_are_no_problem() -> None:
    found = [(PROGRAM, (_observed(4_000), _observed(HOPS + 20_000, host_ns=20.0)))]
    assert problems(found) == []
    assert ratio_table(found)[1].split() == ["list", "small", "/", "large", "1.00", "7.60", "4.00", "memory"]
    assert [line.split() for line in event_table(found)[1:]] == [
        ["list", "0", "l1d_misses", "0", "4000"],
        ["list", "1", "l1d_misses", "1000000", "1020000"],
    ]
    assert cost_lines(found) == [
        "Processor time of 2 machines: 2.0 s without the plugin, 5.0 s with the model (2.5 times). Equal to the byte: 2 of 2."
    ]


def test_other_events_flags_and_bytes_are_problems() -> None:
    assert problems([(PROGRAM, (_observed(5_001), _observed(HOPS)))]) == ["list 0: 5001 l1d_misses, by hand 0."]
    assert problems([(PROGRAM, (_observed(0), _observed(HOPS + 25_001)))]) == [
        "list 1: 1025001 l1d_misses, by hand 1000000."
    ]
    flagged = dataclasses.replace(PROGRAM, flag=())
    assert problems([(flagged, (_observed(0), _observed(HOPS)))]) == ["list: the flag is ('memory',), expected ()."]
    changed = _observed(HOPS, differs=("output", "console"), host_ns=0.0)
    assert problems([(PROGRAM, (_observed(0), changed))]) == ["list: the plugin changed output, console."]


def test_every_program_exists_and_its_events_are_counted(tmp_path: Path) -> None:
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", tmp_path / "programs"], check=True)
    names = subprocess.run([tmp_path / "programs"], check=True, capture_output=True, text=True).stdout.split()
    assert names == [one.name for one in PROGRAMS]
    for one in PROGRAMS:
        assert all(events and set(events) <= FIELDS for events in one.events)
    for variant in "01":
        words = [str(tmp_path / "programs"), "additions", variant]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        assert printed[0] == "additions" and int(printed[2]) > 0
    assert subprocess.run([tmp_path / "programs", "nothing", "0"], check=False).returncode == 1


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
