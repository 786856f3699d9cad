# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several processes read the parts of a record, and give what one process gives; damage is left to one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.model import Experiment, Sample
from swapstone.core.record import RecordWriter, load, record_format, run_lines
from swapstone.core.session import columns_file, parallel_reader
from swapstone.core.session.columns_file import Column, Header
from swapstone.core.session.parallel_reader import LineCollector, RunsFile, read_in_parts
from tests.unit import builders

EXPERIMENT = builders.experiment(rules=2, null=True, prime=1, failures_count=True)
WANTED = frozenset({"wall", "rare"})


@pytest.fixture(autouse=True)
def three_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a small file have three parts. The threads of the test runner hold no lock that a part needs."""
    monkeypatch.setattr(parallel_reader, "PART_BYTES", 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def runs_file(tmp_path: Path) -> Path:
    """Return the runs of a record. Some metrics, facts and texts are only in the last part."""
    path = tmp_path / "record"
    with RecordWriter.create(path, EXPERIMENT) as writer:
        for block in range(12):
            discarded = dict.fromkeys(plan.groups(EXPERIMENT), 1 if block > 3 else 0)
            for trial in plan.block(EXPERIMENT, block, plan.groups(EXPERIMENT), discarded):
                run = builders.run(trial, 1000.0 + block)
                if block > 9:
                    run = msgspec.structs.replace(
                        run,
                        samples=(*run.samples, Sample(metric="rare", values=(1.0, 2.0))),
                        facts=(("nice", block), ("unread", 1)),
                        found_files=("a", str(block)),
                        digests=(("out", "ab"),),
                        reason=f"late {block % 2}",
                    )
                writer.append(run)
        writer.seal("complete", "test", "")
    return path / "runs.jsonl"


def _in_parts(path: Path, experiment: Experiment = EXPERIMENT) -> tuple[Header, dict[str, Column]] | None:
    handle = os.open(path, os.O_RDONLY)
    try:
        return read_in_parts(RunsFile(handle, path.stat().st_size, "state", experiment, WANTED))
    finally:
        os.close(handle)


def _at_once(path: Path, experiment: Experiment = EXPERIMENT) -> tuple[Header, dict[str, Column]]:
    collector = LineCollector(WANTED)
    lines = path.read_bytes().splitlines(keepends=True)
    return collector.content("state", run_lines.read_lines(lines, experiment, collector))


def _rewritten(lines: list[bytes]) -> bytes:
    """Return lines with numbers and chain values as if they had been written so."""
    chain, written = "", []
    for number, line in enumerate(lines, start=1):
        run = bytes(msgspec.json.decode(line, type=record_format.Line).run)
        previous, chain = chain, record_format.chain_value(number, chain, run)
        written.append(f'{{"number":{number},"previous":"{previous}","chain":"{chain}","run":'.encode() + run + b"}\n")
    return b"".join(written)


def test_parts_give_the_same_columns_in_the_same_order(runs_file: Path) -> None:
    found, (header, columns) = _in_parts(runs_file), _at_once(runs_file)
    assert found is not None and found[0] == header and header.rows == len(load(runs_file.parent).runs) > 50
    assert len(header.reasons) == 3 and "metric:rare" in columns and "fact:nice" in columns
    assert list(found[1]) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(found[1][name], column, name)
        assert found[1][name].dtype == column.dtype


def test_the_parts_are_read_by_other_processes(runs_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        pytest.fail("the parent process read the lines")

    here, real = os.getpid(), run_lines.read_lines
    monkeypatch.setattr(parallel_reader, "read_lines", lambda *a: never() if os.getpid() == here else real(*a))
    assert _in_parts(runs_file) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:5], lines[5].replace(b'"passes":', b'"passes":1'), *lines[6:]],
        lambda lines: [*lines[:-5], lines[-5].replace(b'"passes":', b'"passes":1'), *lines[-4:]],
        lambda lines: [*lines[:-1], lines[-1][:-1]],
        lambda lines: [*lines[:-1], lines[-1][:50]],
        lambda lines: [*lines[:40], *lines[41:]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:10], b"x\n", *lines[10:]],
        lambda lines: [*lines[:10], b"\n" * 2000, *lines[10:]],
        lambda lines: [b"a" * len(b"".join(lines))],
        lambda lines: [_rewritten([*lines, lines[0]])],
        lambda lines: [_rewritten([*lines[:2], lines[0], *lines[2:]])],
    ],
    ids=[
        *("first part", "last part", "no newline", "cut", "missing", "first missing", "no run", "empty lines"),
        *("no lines", "twice in two parts", "twice in a part"),
    ],
)
def test_damage_is_left_to_one_process(runs_file: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    assert _in_parts(runs_file) is not None
    runs_file.write_bytes(b"".join(change(runs_file.read_bytes().splitlines(keepends=True))))
    assert _in_parts(runs_file) is None
    assert load(runs_file.parent).damages


@pytest.mark.slow
def test_a_line_of_another_record_between_the_parts_is_seen(runs_file: Path) -> None:
    """Each part is whole in itself, and the numbers are right; only the chain between them is broken."""
    lines = runs_file.read_bytes().splitlines(keepends=True)
    changed = _rewritten([lines[0].replace(b'"elapsed_ns":', b'"elapsed_ns":1'), *lines[1:]]).splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    cut = next(number for number, start in enumerate(starts) if start > runs_file.stat().st_size // 3)
    runs_file.write_bytes(b"".join([*lines[:cut], *changed[cut:]]))
    assert _in_parts(runs_file) is None
    damage = load(runs_file.parent).damages[0]
    assert damage.line == cut + 1 and "does not follow" in damage.problem


def test_one_processor_a_small_file_or_another_thread_needs_one_process(
    runs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {3})
        assert _in_parts(runs_file) is None
    with monkeypatch.context() as patch:
        patch.setattr(parallel_reader, "PART_BYTES", runs_file.stat().st_size // 2 + 1)
        assert _in_parts(runs_file) is None
    with monkeypatch.context() as patch:
        patch.setattr(threading, "active_count", lambda: 2)
        assert _in_parts(runs_file) is None
    assert _in_parts(runs_file) is not None


def test_without_a_key_or_space_one_process_reads(runs_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_file, "write", lambda *_: None)
    assert _in_parts(runs_file) is None


def test_a_part_without_its_parent_ends(runs_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_reader, "_LINES", 10)
    here, real = os.getpid(), os.getppid
    monkeypatch.setattr(os, "getppid", lambda: real() if os.getpid() == here else 1)
    assert _in_parts(runs_file) is None


def test_a_failed_part_ends_the_others(runs_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would run on for a minute, and their folder would be removed under them."""
    here, real, forked = os.getpid(), os.fork, []

    def fork() -> int:
        number = real()
        if os.getpid() == here:
            forked.append(number)
            if len(forked) == 3:
                raise OSError("no more processes")
        return number

    monkeypatch.setattr(os, "fork", fork)
    assert _in_parts(runs_file) is None
    for number in forked[:2]:
        with pytest.raises(ChildProcessError):
            os.waitpid(number, os.WNOHANG)
    os.waitpid(forked[2], 0)
