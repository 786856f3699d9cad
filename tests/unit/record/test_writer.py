# SPDX-License-Identifier: MIT OR Apache-2.0
"""The writer of records: what a kill at any moment leaves can be used, and every error has a next step."""

from __future__ import annotations

import collections
import errno
import fcntl
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from swapstone.core.model import FactorLevels, RecordError, Sample, UserError
from swapstone.core.model.errors import as_user_error, hint_of, is_of_machine
from swapstone.core.record import RecordWriter, find_record, list_records, load
from swapstone.core.record import writer as writer_module
from swapstone.core.record.record_format import Manifest
from swapstone.core.record.record_paths import is_begun
from tests.unit import builders

MANIFEST = Manifest(machine=(), tools=(), artifacts=(), passes=())
FILES = ("lock", "raw/", "runs.jsonl", ".experiment.json.0123456789abcdef", "experiment.json", ".record.json.71")
"""What `RecordWriter.create` writes before `record.json`, in this order."""


def _begun(path: Path, count: int) -> Path:
    """Make a folder in which a kill ended the start of a record."""
    path.mkdir(parents=True)
    for name in FILES[:count]:
        if name.endswith("/"):
            (path / name).mkdir()
        else:
            (path / name).write_bytes(b"{" if name.startswith(".") else b"")
    return path


def _sealed(path: Path, blocks: int = 2) -> Path:
    subject = builders.experiment()
    with RecordWriter.create(path, subject) as writer:
        writer.write_manifest(MANIFEST)
        for run in builders.runs(subject, blocks):
            writer.append(run)
        writer.seal("complete", "precise", "digest")
    return path


@pytest.mark.parametrize("count", range(len(FILES) + 1))
def test_a_folder_in_which_a_kill_ended_the_start_is_used_again(tmp_path: Path, count: int) -> None:
    path = _begun(tmp_path / "r", count)
    assert is_begun(path) == (count > 0)
    assert list_records(tmp_path) == ()
    _sealed(path)
    assert load(path).damages == ()
    assert sorted(each.name for each in path.iterdir()) == [
        *("experiment.json", "lock", "manifest.json", "origin.json", "raw", "record.json", "runs.jsonl", "seal.json")
    ]


def test_the_error_for_such_a_folder_has_a_step_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    path = _begun(tmp_path / "a b", 5)
    for call in (lambda: find_record(str(path)), lambda: find_record("a b"), lambda: RecordWriter.resume(path)):
        with pytest.raises(RecordError, match="ended it before anything was measured") as caught:
            call()
        assert caught.value.hint == f"Give the command that began it again, with --out '{path}'"
    (tmp_path / "other").mkdir()
    with pytest.raises(RecordError, match=r"is not a record: it has no record\.json") as caught:
        find_record(str(tmp_path / "other"))
    assert "list records" in caught.value.hint


def _user_file(path: Path) -> None:
    (path / "notes").write_text("dear")


def _only_experiment(path: Path) -> None:
    (path / "lock").unlink()


def _raw_output(path: Path) -> None:
    (path / "raw" / f"{'0' * 64}.txt").write_text("output")


def _runs(path: Path) -> None:
    (path / "runs.jsonl").write_text("{}\n")


def _linked_lock(path: Path) -> None:
    (path / "lock").unlink()
    (path / "lock").symlink_to(path / "elsewhere")


def _linked_raw(path: Path) -> None:
    (path / "raw").rmdir()
    (path / "raw").symlink_to(path.parent)


@pytest.mark.parametrize("change", [_user_file, _only_experiment, _raw_output, _runs, _linked_lock, _linked_raw])
def test_a_folder_with_anything_else_is_not_used(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = _begun(tmp_path / "r", 5)
    change(path)
    before = sorted(each.name for each in path.iterdir())
    assert not is_begun(path)
    with pytest.raises(RecordError, match="is not empty") as caught:
        RecordWriter.create(path, builders.experiment())
    assert "--out" in caught.value.hint
    assert sorted(each.name for each in path.iterdir()) == before


def test_a_record_is_not_overwritten_and_the_error_names_how_to_continue_it(tmp_path: Path) -> None:
    path = _sealed(tmp_path / "r")
    with pytest.raises(RecordError, match="is not empty: it is a record") as caught:
        RecordWriter.create(path, builders.experiment())
    assert caught.value.hint.endswith(f"swapstone compare --resume {path}")


def test_a_record_is_not_written_inside_of_another_one(tmp_path: Path) -> None:
    path = _sealed(tmp_path / "r")
    before = sorted(each.name for each in path.iterdir())
    with pytest.raises(RecordError, match="is inside of another record") as caught:
        RecordWriter.create(path / "4ns", builders.experiment())
    assert "--out" in caught.value.hint
    assert sorted(each.name for each in path.iterdir()) == before


def test_two_starts_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    path = _begun(tmp_path / "r", 3)
    with (path / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="Another process is writing"):
            RecordWriter.create(path, builders.experiment())
    _sealed(path)


def test_the_first_change_of_a_session_removes_the_seal(tmp_path: Path) -> None:
    path = _sealed(tmp_path / "r")
    changes: list[Callable[[RecordWriter], None]] = [
        lambda writer: writer.append(list(builders.runs(builders.experiment(), 3))[-1]),
        lambda writer: writer.write_experiment(builders.experiment(budget_ns=10**12)),
        lambda writer: writer.write_manifest(msgspec.structs.replace(MANIFEST, tools=(("cc", "1"),))),
    ]
    for change in changes:
        writer, view = RecordWriter.resume(path)
        with writer:
            assert view.seal is not None, "nothing has changed yet"
            assert load(path).seal is not None
            change(writer)
            assert load(path).seal is None
        # As after a kill: the record has no contradiction, and can be resumed.
        assert load(path).damages == ()
        writer, _ = RecordWriter.resume(path)
        with writer:
            writer.seal("complete", "precise", "digest")


class _Signals:
    """Raises `KeyboardInterrupt` twice within the writer's module: at a line, and at a call after it.

    The first is raised by a trace function and the second by a profile function, because Python removes one that raises.

    Attributes:
        lines: how many lines run before the first.
        calls: how many calls begin between the two.
    """

    def __init__(self, lines: int, calls: int) -> None:
        self.lines, self.calls = lines, calls

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename == writer_module.__file__:
            if event == "line":
                self.lines -= 1
            if self.lines < 0:
                sys.setprofile(self.profile)
                raise KeyboardInterrupt
            return self.trace
        return None

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if frame.f_code.co_filename == writer_module.__file__ and event in {"call", "c_call"}:
            self.calls -= 1
            if self.calls < 0:
                raise KeyboardInterrupt


# The second signal may come while the first passes through a generator, where Python reports it and goes on with the first.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("between", range(6))
def test_two_signals_at_any_step_of_an_append_leave_no_run_that_is_not_counted(tmp_path: Path, between: int) -> None:
    runs = list(builders.runs(builders.experiment(), 1))
    kept, before = collections.Counter[int](), sys.gettrace()
    for first in itertools.count():
        path = tmp_path / str(first)
        with RecordWriter.create(path, builders.experiment()) as writer:
            writer.append(runs[0])
            signals = _Signals(first, between)
            sys.settrace(signals.trace)
            try:
                writer.append(runs[1])
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
                sys.settrace(before)
            writer.seal("interrupted", "the user stopped it", "")
        view = load(path)
        assert view.damages == () and view.seal is not None and view.seal.runs == len(view.runs)
        kept[len(view.runs)] += 1
        if signals.lines >= 0:
            break
    assert kept.keys() == {1, 2} and kept.total() > 20


def test_the_names_of_files_are_synced_before_what_refers_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    path, run = tmp_path / "records" / "r", next(builders.runs(builders.experiment(), 0))
    with RecordWriter.create(path, builders.experiment()) as writer:
        folders = [str(tmp_path), str(path.parent), str(path)]
        assert set(folders) <= set(synced)
        assert synced[-1] == str(path), "the folder, after record.json was renamed"
        synced.clear()
        digest = writer.keep_raw(b"output \xff")
        writer.append(msgspec.structs.replace(run, output=digest))
        output, raw, runs = synced
        assert (raw, runs) == (str(path / "raw"), str(path / "runs.jsonl"))
        assert output.startswith(str(path / "raw" / "."))
        synced.clear()
        writer.seal("complete", "precise", "")
        assert synced[-1] == str(path)


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    path = _sealed(tmp_path / "r")
    (path / "builds").mkdir()
    keep = [path / ".hidden", path / "raw" / ".note", path / ".seal.json.13x"]
    gone = [path / ".seal.json.13", path / "raw" / f".{'0' * 64}.txt.7", path / "builds" / ".a.log.5"]
    gone.append(path / ".report.html.0123456789abcdef")
    for file in (*keep, *gone):
        file.write_text("half")
    (path / ".link.5").symlink_to(keep[0])
    RecordWriter.resume(path)[0].close()
    assert [file.exists() for file in keep] == [True] * 3
    assert [file.exists() for file in gone] == [False] * 4
    assert (path / ".link.5").is_symlink()


def test_temporary_files_are_removed_if_the_user_names_the_record_by_a_link(tmp_path: Path) -> None:
    path = _sealed(tmp_path / "r")
    left = path / ".seal.json.13"
    left.write_text("half")
    (tmp_path / "link").symlink_to(path)
    RecordWriter.resume(tmp_path / "link")[0].close()
    assert not left.exists()


@pytest.mark.parametrize("name", ["raw", "builds"])
def test_no_temporary_file_is_removed_through_a_link(tmp_path: Path, name: str) -> None:
    """`RecordWriter.resume` refuses such a record before; this is what holds if another process makes the link after that."""
    (tmp_path / "outside").mkdir()
    kept = tmp_path / "outside" / ".a.log.5"
    kept.write_text("of the user")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RecordError, match=f"{name} is not a folder"):
        writer_module._remove_temporary_files(tmp_path / "r")
    assert kept.exists()


@pytest.mark.parametrize("name", ["lock", "runs.jsonl", "raw", "builds"])
def test_nothing_is_written_through_a_link_in_a_record(tmp_path: Path, name: str) -> None:
    path, outside = _sealed(tmp_path / "r"), tmp_path / "outside"
    if name in {"raw", "builds"}:
        outside.mkdir()
        (outside / ".x.1").write_text("of the user")
        if name == "raw":
            (path / name).rmdir()
    else:
        outside.write_bytes((path / name).read_bytes())
        (path / name).unlink()
    (path / name).symlink_to(outside)
    with pytest.raises(RecordError):
        RecordWriter.resume(path)
    assert not outside.is_dir() or (outside / ".x.1").read_text() == "of the user"


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENOSPC, "The disk is full: free some space"),
        (errno.EIO, "The disk or its file system reports an error"),
        (errno.EMFILE, "raise the limit (`ulimit -n 4096`)"),
    ],
)
def test_each_error_has_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, cause: str) -> None:
    path = tmp_path / "a b"

    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(RecordError, match="can't be written") as caught:
            RecordWriter.create(path, builders.experiment())
        assert cause in caught.value.hint and caught.value.hint.endswith(", then give the same command again.")
    with RecordWriter.create(path, builders.experiment()) as writer:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(RecordError) as caught:
            writer.append(next(builders.runs(builders.experiment(), 0)))
        patch.undo()
    assert cause in caught.value.hint
    assert caught.value.hint.endswith(f", then continue: swapstone compare --resume '{path}'")
    assert load(path).runs == () and load(path).damages == ()
    RecordWriter.resume(path)[0].close()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RecordError, match="can't be locked against a second writer: No locks available") as caught:
        RecordWriter.create(tmp_path / "r", builders.experiment())
    assert "--out" in caught.value.hint


def test_a_file_system_that_cant_sync_a_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert load(_sealed(tmp_path / "r")).damages == ()


def test_the_cause_of_an_error_is_found_behind_others() -> None:
    """A part of a study whose file could not be read once is not unavailable."""
    error, other = UserError("a file can't be read"), UserError("there is no such file")
    error.__cause__, other.__cause__ = OSError(errno.EIO, "Input/output error"), OSError(errno.ENOENT, "No such file")
    outer = UserError("a part can't be planned")
    outer.__cause__ = error
    assert is_of_machine(error) and is_of_machine(outer)
    assert not is_of_machine(other) and not is_of_machine(UserError("no cause"))


def test_an_error_that_is_not_of_the_machine_is_no_user_error() -> None:
    assert as_user_error(FileNotFoundError(errno.ENOENT, "No such file", "x"), "go on.") is None
    found = as_user_error(OSError(errno.EMFILE, "Too many open files", "/x"), "go on.")
    assert found is not None and found.message == "Too many open files (/x)."
    assert found.hint.endswith(", then go on.")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT])
def test_an_error_without_a_hint_has_that_of_its_cause(number: int) -> None:
    error = RecordError("x can't be read.")
    between = ValueError("a step between")
    between.__cause__ = OSError(number, os.strerror(number))
    error.__cause__ = between
    assert hint_of(error).endswith("then give the same command again.") == (number == errno.EIO)
    error.hint = "its own"
    assert hint_of(error) == "its own"


def test_what_could_not_be_read_back_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    levels = tuple(f"l{number}" for number in range(40))
    factors = (FactorLevels(factor="a", levels=levels), FactorLevels(factor="b", levels=levels))
    for changes, problem in (
        ({"factors": factors}, "it has 1600 variants, more than the 1024 that are read"),
        ({"name": "x" * ((1 << 20) + 1)}, "a text has more than"),
        ({"held": tuple((f"{number}-{'x' * 5000}", "y") for number in range(4000))}, "bytes, more than the 16777216"),
    ):
        with pytest.raises(UserError, match=problem):
            RecordWriter.create(tmp_path / "r", builders.experiment(**changes))
        assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_a_manifest_and_a_run_that_could_not_be_read_back_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = builders.experiment()
    first, second, *_ = builders.runs(subject, 1)
    large = msgspec.structs.replace(second, samples=(Sample(metric="wall", values=(1.5,) * 4_000_000),))
    with RecordWriter.create(tmp_path / "r", subject) as writer:
        writer.append(first)
        with pytest.raises(RecordError, match="more than the 14680064 that are read"):
            writer.append(large)
        monkeypatch.setattr("swapstone.core.record.writer.limit_of", lambda _: 100)
        with pytest.raises(RecordError, match="more than the 100 that are read"):
            writer.write_manifest(Manifest(machine=(("cpu", "x" * 100),), tools=(), artifacts=(), passes=()))
    view = load(tmp_path / "r")
    assert (view.runs, view.damages, view.manifest) == ((first,), (), None)


def test_runs_that_have_another_name_are_not_continued(tmp_path: Path) -> None:
    """A link to another file of the user would be appended to, and the copies of a backup that shares files."""
    path = _sealed(tmp_path / "r")
    (tmp_path / "other").hardlink_to(path / "runs.jsonl")
    with pytest.raises(RecordError, match=r"runs\.jsonl: it has 2 names \(hard links\)"):
        RecordWriter.resume(path)
    (tmp_path / "other").unlink()
    RecordWriter.resume(path)[0].close()


@pytest.mark.parametrize("torn", [b"", b"{", b"x" * 5000])
def test_a_torn_line_is_set_aside_whatever_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes
) -> None:
    path = _sealed(tmp_path / "r")
    whole = (path / "runs.jsonl").read_bytes()
    monkeypatch.setattr("swapstone.core.record.writer.LONGEST_LINE_BYTES", 6000)
    (path / "runs.jsonl").write_bytes(whole + torn)
    writer, view = RecordWriter.resume(path)
    writer.close()
    assert len(view.runs) == len(whole.splitlines())
    assert (path / "runs.jsonl").read_bytes() == whole
    assert not torn or (path / "runs.jsonl.torn").read_bytes() == torn
