# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each step of a writer of records: what is synced and when, what is undone, and the last run that is accepted."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import RecordError, Run, UserError
from swapstone.core.record import RecordWriter, load, record_format
from swapstone.core.record.origin import file_bytes
from swapstone.core.record.record_format import Manifest
from tests.unit import builders

MANIFEST = Manifest(machine=(), tools=(), artifacts=(), passes=())


def _runs() -> list[Run]:
    return list(builders.runs(builders.experiment(), 2))


def _made(path: Path, count: int = 3, seal: str = "complete") -> Path:
    with RecordWriter.create(path, builders.experiment()) as writer:
        writer.write_manifest(MANIFEST)
        for run in _runs()[:count]:
            writer.append(run)
        if seal:
            writer.seal(seal, "precise", "digest")
    return path


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was synced, in order; those of temporary files without their number."""
    found: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found.append(re.sub(r"\.[0-9a-f]{16}$", "", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_each_run_syncs_what_it_needs_and_nothing_else(tmp_path: Path, synced: list[str]) -> None:
    path = _made(tmp_path / "r")
    writer, _ = RecordWriter.resume(path)
    with writer:
        digest = writer.keep_raw(b"output \xff")
        synced.clear()
        writer.append(msgspec.structs.replace(_runs()[3], output=digest))
        assert synced == ["r", "raw", "runs.jsonl"]  # the seal was removed from its folder
        synced.clear()
        writer.append(_runs()[4])
        assert synced == ["runs.jsonl"]
        assert writer.keep_raw(b"output \xff") == digest  # which is there
        writer.append(msgspec.structs.replace(_runs()[5], output=digest))
        assert synced == ["runs.jsonl"] * 2


def test_a_seal_is_written_after_the_runs_are_on_the_disk(tmp_path: Path, synced: list[str]) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        writer.append(_runs()[0])
        synced.clear()
        writer.seal("interrupted", "the user stopped it", "")
    assert synced == ["runs.jsonl", ".seal.json", "r"]


def _without_newline(path: Path, limit: int) -> bytes:
    """Write a file of runs that ends with a line of more bytes than `limit`."""
    content = path.read_bytes() + b"x" * (limit + 1)
    path.write_bytes(content)
    return content


def test_only_a_torn_line_is_left(tmp_path: Path, synced: list[str]) -> None:
    """As after a crash in the first run."""
    path = _made(tmp_path / "r", 0, seal="")
    (path / "runs.jsonl").write_bytes(b'{"number":1,"prev')
    synced.clear()
    writer, view = RecordWriter.resume(path)
    writer.close()
    assert view.runs == () and (path / "runs.jsonl").read_bytes() == b""
    assert (path / "runs.jsonl.torn").read_bytes() == b'{"number":1,"prev'
    assert synced == [".runs.jsonl.torn", "runs.jsonl"]


def test_a_line_without_an_end_that_is_longer_than_any_run_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No writer made it, so it is kept whole."""
    path = _made(tmp_path / "r", seal="")
    monkeypatch.setattr("swapstone.core.record.writer.LONGEST_LINE_BYTES", 2000)
    content = _without_newline(path / "runs.jsonl", 2000)
    with pytest.raises(RecordError, match="line 4: the line is truncated"):
        RecordWriter.resume(path)
    assert (path / "runs.jsonl").read_bytes() == content
    assert not (path / "runs.jsonl.torn").exists()


@pytest.mark.parametrize(("seal", "sessions"), [("complete", [2, 3]), ("", [2, 2])])
def test_sessions_are_counted_by_their_seals(tmp_path: Path, seal: str, sessions: list[int]) -> None:
    path, found = _made(tmp_path / "r", seal=seal), []
    for _ in range(2):
        writer, _ = RecordWriter.resume(path)
        with writer:
            found.append(writer.sessions)
            if seal:
                writer.seal("complete", "precise", "digest")
    assert found == sessions
    last = load(path).seal
    assert (last.sessions if last else None) == (3 if seal else None)


def test_the_first_three_damages_are_named_when_a_record_is_not_continued(tmp_path: Path) -> None:
    path = _made(tmp_path / "r", 6)
    text = (path / "runs.jsonl").read_text()
    (path / "runs.jsonl").write_text(text.replace('"passes":1', '"passes":3'))
    with pytest.raises(RecordError, match="has been altered") as caught:
        RecordWriter.resume(path)
    assert [f"line {number}:" in caught.value.message for number in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_start_that_fails_at_its_last_step_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "r", os.fsync

    def fsync(descriptor: int) -> None:
        if (path / "record.json").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(RecordError, match="can't be written"):
            RecordWriter.create(path, builders.experiment())
    assert not (path / "record.json").exists()
    assert load(_made(path)).damages == ()  # the lock is free, and the folder is used again


def test_a_folder_that_another_process_used_before_the_lock_was_held_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, path, real = _made(tmp_path / "other"), tmp_path / "r", fcntl.flock

    def flock(handle: object, operation: int) -> None:
        if not (path / "record.json").exists():
            for file in other.iterdir():
                if file.is_file():
                    (path / file.name).write_bytes(file.read_bytes())
        real(handle, operation)  # type: ignore[arg-type] # an open file

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RecordError, match="is not empty: it is a record"):
        RecordWriter.create(path, builders.experiment())
    assert len(load(path).runs) == 3 and load(path).damages == ()


def _append(writer: RecordWriter) -> None:
    writer.append(_runs()[0])


def _write_manifest(writer: RecordWriter) -> None:
    writer.write_manifest(MANIFEST)


@pytest.mark.parametrize(
    ("size", "limit", "change"),
    [
        (len(_runs()[0].encoded()), "_LONGEST_RUN_BYTES", _append),
        (len(file_bytes(MANIFEST)), "limit_of", _write_manifest),
    ],
)
def test_what_has_the_last_size_that_is_read_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, limit: str, change: Callable[[RecordWriter], None]
) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        for most in (size - 1, size):
            value = most if limit.startswith("_") else lambda _, most=most: most
            monkeypatch.setattr(f"swapstone.core.record.writer.{limit}", value)
            if most < size:
                with pytest.raises(RecordError, match=f"has {size} bytes, more than the {most} that are read"):
                    change(writer)
            else:
                change(writer)


def test_an_experiment_of_the_last_size_that_is_read_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(file_bytes(builders.experiment()))
    monkeypatch.setattr("swapstone.core.record.validation.limit_of", lambda _: size - 1)
    with pytest.raises(UserError, match=f"its description has {size} bytes, more than the {size - 1} that are read"):
        RecordWriter.create(tmp_path / "r", builders.experiment())
    monkeypatch.setattr("swapstone.core.record.validation.limit_of", lambda _: size)
    RecordWriter.create(tmp_path / "r", builders.experiment()).close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EIO])
def test_only_a_folder_that_can_not_be_synced_at_all_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path, real = _made(tmp_path / "r"), os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(number, os.strerror(number))
        real(descriptor)

    writer, _ = RecordWriter.resume(path)
    with writer:
        monkeypatch.setattr(os, "fsync", fsync)
        if number == errno.EIO:
            with pytest.raises(RecordError, match="can't be written"):
                writer.append(_runs()[3])
        else:
            writer.append(_runs()[3])
    assert len(load(path).runs) == 3 + (number != errno.EIO)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "Name a writable folder with --out."),
        (errno.EPERM, "Name a writable folder with --out."),
        (errno.EROFS, "That file system is read-only: name another folder with --out."),
        (errno.ENOTDIR, "A part of that path is a file: name another folder with --out."),
        (errno.EEXIST, "That is a file: name another folder with --out."),
        (errno.ENAMETOOLONG, "Name another folder with --out."),
    ],
)
def test_a_folder_that_can_not_be_made_has_a_hint_for_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(RecordError, match="can't be written") as caught:
        RecordWriter.create(tmp_path / "r", builders.experiment())
    assert caught.value.hint == hint


def test_the_chain_of_a_resumed_record_goes_on(tmp_path: Path) -> None:
    path = _made(tmp_path / "r", 2, seal="")
    writer, _ = RecordWriter.resume(path)
    with writer:
        writer.append(_runs()[2])
    lines = [
        msgspec.json.decode(line, type=record_format.Line) for line in (path / "runs.jsonl").read_bytes().splitlines()
    ]
    assert [line.number for line in lines] == [1, 2, 3]
    assert [line.previous for line in lines] == ["", lines[0].chain, lines[1].chain]
