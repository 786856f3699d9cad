# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of what own programs executed, and its sentence in the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit import builders

from swapstone.core.model import VIRTUAL_CLOCK, FactorLevels, OwnProgram
from swapstone.core.model.executed_counts import COUNT_FACTS, COUNT_METRICS
from swapstone.core.record import Manifest, RecordWriter
from swapstone.core.session.record_handle import Record

Facts = Mapping[str, int]

OLD = {
    **dict.fromkeys(COUNT_FACTS, 0),
    "user_instructions": 28_200_000,
    "kernel_instructions": 3_100_000,
    "user_faults": 100,
    "tasks": 1,
    "syscalls": 1000,
    "calls.read": 2,
    "kernel.read": 90,
}


def changed(**changes: int) -> Facts:
    return {
        **OLD,
        **{name.replace("__", "."): number + OLD.get(name.replace("__", "."), 0) for name, number in changes.items()},
    }


def record(
    path: Path, old: Sequence[Facts], new: Sequence[Facts], clock: str = VIRTUAL_CLOCK, counts: str = ""
) -> Record:
    """Return a record of an own program with these facts in each block."""
    subject = builders.experiment(
        own=OwnProgram(name="prog", arguments=("./old",)),
        factors=(FactorLevels(factor="command", levels=("old", "new")),),
        workloads=(("own", "prog"),),
        target="vm",
        clock=clock,
    )
    with RecordWriter.create(path, subject) as writer:
        tools = (("counts", counts),) if counts else ()
        writer.write_manifest(Manifest(machine=(), tools=tools, artifacts=(), passes=()))
        for made in builders.runs(subject, len(old)):
            facts = (old if made.trial.variant == "command=old" else new)[made.trial.block - 1]
            writer.append(builders.run(made.trial, facts=tuple(facts.items())))
        writer.seal("complete", "test", "")
    return Record(path)


def data(made: Record) -> list[dict[str, Any]]:
    return next((e["data"] for e in json.loads(made.report("json")).get("exhibits", ()) if e["name"] == "executed"), [])


def answer(made: Record) -> str:
    """Return the first clause of the answer."""
    return " ".join(made.report("text").split("\n\n")[0].split()).split("; ")[0]


def test_each_count_has_a_row_and_equal_calls_are_left_out(tmp_path: Path) -> None:
    new = changed(user_instructions=4, syscalls=1, calls__getppid=1, kernel__getppid=321, kernel__read=1)
    made = record(tmp_path / "r", [OLD] * 2, [new] * 2)
    rows = {row["what"]: row for row in data(made)}
    assert rows["instructions"]["difference"] == 4 and rows["getppid"]["difference"] == 1
    assert (rows["read"]["before"], rows["read"]["after"], rows["kernel.read"]["difference"]) == (2, 2, 1)
    text = made.report("text", every=True).partition("What was executed")[2].partition("\n\n")[0]
    assert "28,200,004" in text and "getppid" in text
    assert "kernel.read" not in text and "rep_turns" not in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            [OLD] * 2,
            [
                changed(user_instructions=28_141, kernel_instructions=number, calls__read=12, user_faults=-3)
                for number in (100, -2000)
            ],
            "new executes 0.084 to 0.090 % more instructions than old (own code +0.10 %, kernel -0.065 to +0.0032 %): 12 more read, "
            "3 fewer page faults",
        ),
        (
            [OLD] * 2,
            [changed(user_instructions=28_141, kernel_instructions=number) for number in (100, -38_000)],
            "new against old: own code +0.10 %, kernel -1.2 to +0.0032 %",
        ),
        (
            [OLD] * 2,
            [changed(tasks=1, calls__a=1, calls__b=2, calls__c=3, calls__d=4)] * 2,
            "new against old: 4 more d, 3 more c, 2 more b, 1 other system call differs, 1 more task",
        ),
        ([OLD] * 2, [changed(calls__futex=1, user_faults=1), changed(calls__futex=2, user_faults=2)], ""),
        ([OLD] * 2, [changed(user_instructions=number) for number in (28_141, -28_141)], ""),
        ([OLD] * 2, [changed(user_instructions=705, kernel_instructions=8000)] * 2, ""),
        ([OLD], [changed(calls__read=1)], ""),
        ([OLD] * 2, [OLD, changed(calls__read=1)], ""),
    ],
    ids=["beyond", "both-signs", "calls", "not-alike", "signs", "same-work", "one-block", "one-of-two"],
)
def test_the_answer_begins_with_what_differs_in_all_blocks_alike(
    tmp_path: Path, old: list[Facts], new: list[Facts], expected: str
) -> None:
    found = answer(record(tmp_path / "r", old, new))
    assert found == expected if expected else "against old" not in found and "executes" not in found


@pytest.mark.parametrize("clock", [VIRTUAL_CLOCK, "wall"])
def test_without_counts_there_is_no_table(tmp_path: Path, clock: str) -> None:
    facts = {"wall_ns": 5} if clock == VIRTUAL_CLOCK else OLD
    assert data(record(tmp_path / "r", [facts] * 2, [facts] * 2, clock)) == []


def test_the_reason_without_counts_is_stated(tmp_path: Path) -> None:
    made = record(
        tmp_path / "r", [{"uncounted.foreign": 3}] * 2, [{"wall_ns": 5}] * 2, counts="unavailable: no plugins"
    )
    text = " ".join(made.report("text").split())
    assert "Instructions and system calls are not counted: no plugins." in text
    assert "2 runs without counts: a program of 32 bits ran." in text
    shown = " ".join(made.report("text", every=True).split())
    names = ", ".join(metric.name for metric in COUNT_METRICS)
    assert f"Unavailable, because no plugins: {names}." in shown
