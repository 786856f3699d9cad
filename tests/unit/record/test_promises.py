# SPDX-License-Identifier: MIT OR Apache-2.0
"""What docs/verification.md promises of a record: a replaced line is found, and a run that was appended is on the disk."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import RecordError, Run
from swapstone.core.record import RecordWriter, load
from swapstone.core.record.record_format import Line, chain_value
from tests.unit import builders

RUNS = "runs.jsonl"


def made(path: Path, *, seal: bool = True) -> Path:
    """Write a record of eight runs."""
    subject = builders.experiment()
    with RecordWriter.create(path, subject) as writer:
        for run in builders.runs(subject, 1):
            writer.append(run)
        if seal:
            writer.seal("complete", "precise", "")
    return path


def replace_line(path: Path, number: int) -> None:
    """Replace a line by one of another duration, with the number, the link and the checksum that the writer would have given it."""
    lines = (path / RUNS).read_bytes().splitlines(keepends=True)
    old = msgspec.json.decode(lines[number - 1], type=Line)
    run = msgspec.structs.replace(msgspec.json.decode(old.run, type=Run), elapsed_ns=1).encoded()
    chain = chain_value(old.number, old.previous, run)
    new = Line(number=old.number, previous=old.previous, chain=chain, run=msgspec.Raw(run))
    lines[number - 1] = msgspec.json.encode(new) + b"\n"
    (path / RUNS).write_bytes(b"".join(lines))


@pytest.mark.parametrize("number", [1, 4, 7])
@pytest.mark.parametrize("seal", [True, False])
def test_a_replaced_line_breaks_the_chain_at_the_next_one(tmp_path: Path, number: int, seal: bool) -> None:
    path = made(tmp_path / "r", seal=seal)
    replace_line(path, number)
    view = load(path)
    assert [str(damage) for damage in view.damages] == [
        f"runs.jsonl, line {number + 1}: it does not follow the line before it: that line was replaced"
    ]
    assert len(view.runs) == 8  # each line is whole by itself


def test_a_replaced_last_line_contradicts_the_seal(tmp_path: Path) -> None:
    path = made(tmp_path / "r")
    replace_line(path, 8)
    assert [str(damage) for damage in load(path).damages] == [
        "runs.jsonl, line 8: it is not the last line of the sealed record"
    ]
    with pytest.raises(RecordError, match="it is not the last line of the sealed record"):
        RecordWriter.resume(path)


def test_lines_after_the_seal_are_of_a_resumed_session(tmp_path: Path) -> None:
    path = made(tmp_path / "r")
    further = list(builders.runs(builders.experiment(), 2))[8:]
    with RecordWriter.resume(path)[0] as writer:
        writer.append(further[0])
    view = load(path)
    assert view.damages == () and len(view.runs) == 9


class Synced:
    """Records each fsync or fdatasync: the file, and its size at that moment."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, int]] = []
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._recording(getattr(os, name)))

    def _recording(self, real: object) -> object:
        def sync(file: int) -> None:
            state = os.fstat(file)
            self.calls.append((state.st_ino, state.st_size))
            real(file)  # type: ignore[operator] # a function of os

        return sync

    def has(self, path: Path) -> bool:
        """Return whether a file was synced at the size that it has."""
        return (path.stat().st_ino, path.stat().st_size) in self.calls


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    return Synced(monkeypatch)


def test_each_run_is_synced_before_append_returns(tmp_path: Path, synced: Synced) -> None:
    subject = builders.experiment()
    with RecordWriter.create(tmp_path / "r", subject) as writer:
        for run in builders.runs(subject, 1):
            synced.calls.clear()
            writer.append(run)
            assert synced.has(tmp_path / "r" / RUNS)


def test_every_other_file_is_synced_before_it_gets_its_name(
    tmp_path: Path, synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        assert synced.has(self), f"{target.name} is renamed before it is synced"
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        digest = writer.keep_raw(b"its output \xff")
        writer.seal("complete", "precise", "")
    for name in ("record.json", "experiment.json", "seal.json", f"raw/{digest}.txt"):
        assert synced.has(tmp_path / "r" / name), name


@pytest.fixture
def file_size_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_partly_written_line_is_removed_and_the_next_session_continues(
    tmp_path: Path, file_size_limit: None, room: int
) -> None:
    """The kernel writes what fits and then fails, as on a full disk (write(2)); a limit of the file's size does the same here."""
    path = made(tmp_path / "r", seal=False)
    data = (path / RUNS).read_bytes()
    more = list(builders.runs(builders.experiment(), 2))[8:10]
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RecordWriter.resume(path)[0] as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) + room, hard))
        with pytest.raises(RecordError, match=os.strerror(errno.EFBIG)):
            writer.append(more[0])
        assert (path / RUNS).read_bytes() == data
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        writer.append(more[0])  # there is room again
        writer.append(more[1])
    view = load(path)
    assert view.damages == () and view.runs[8:] == tuple(more)
    assert not (path / f"{RUNS}.torn").exists()
