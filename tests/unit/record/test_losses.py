# SPDX-License-Identifier: MIT OR Apache-2.0
"""Something else removes or changes the files of a record while it is written: a cleaner of /tmp, ``git clean``, a script."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import RecordError, Run
from swapstone.core.record import RecordWriter, check_raw, load
from swapstone.core.record.origin import foreign_reason
from swapstone.core.record.record_format import Manifest
from tests.unit import builders

MANIFEST = Manifest(machine=(), tools=(), artifacts=(), passes=())
RUNS = tuple(builders.runs(builders.experiment(), 3))
LONG = b"output \xff"
"""No UTF-8, so that it is a file of its own."""


def _begun(path: Path, runs: tuple[Run, ...] = RUNS[:6]) -> RecordWriter:
    writer = RecordWriter.create(path, builders.experiment())
    writer.write_manifest(MANIFEST)
    for run in runs:
        writer.append(run)
    return writer


def _remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def _truncate(part: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path / "runs.jsonl", int((path / "runs.jsonl").stat().st_size * part))


def _exchange(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        (path / name).rename(path.parent / "other")
        make(path / name)

    return change


def _rewrite(path: Path) -> None:
    """As ``sed -i`` does."""
    (path / "new").write_bytes((path / "runs.jsonl").read_bytes().replace(b"glibc", b"musl"))
    (path / "new").replace(path / "runs.jsonl")


def _git_clean(path: Path) -> None:
    for each in path.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def _taken(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "of another program").touch()


WHOLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "runs removed": (_remove("runs.jsonl"), "runs.jsonl was removed"),
    "header removed": (_remove("record.json"), "record.json was removed"),
    "experiment removed": (_remove("experiment.json"), "experiment.json was removed"),
    "manifest removed": (_remove("manifest.json"), "manifest.json was removed"),
    "marks removed": (_remove("origin.json"), "origin.json was removed"),
    "lock removed": (_remove("lock"), "lock was removed"),
    "raw removed": (lambda path: (path / "raw").rmdir(), "raw was removed"),
    "all removed": (_git_clean, "runs.jsonl was removed"),
    "folder removed": (shutil.rmtree, "its folder was removed"),
    "folders removed": (lambda path: shutil.rmtree(path.parent), "its folder was removed"),
    "folder renamed": (lambda path: path.rename(path.parent / "moved"), "its folder was renamed to .*moved"),
    "folder above renamed": (
        lambda path: path.parent.rename(path.parent.parent / "x"),
        "its folder was renamed to .*x/r",
    ),
    "folder taken": (_taken, "its folder was removed"),
    "runs rewritten": (_rewrite, "runs.jsonl was replaced by another file"),
    "runs linked": (
        _exchange("runs.jsonl", lambda name: name.symlink_to("../other")),
        "runs.jsonl was replaced by a symbolic link",
    ),
    "runs a FIFO": (_exchange("runs.jsonl", os.mkfifo), "runs.jsonl was replaced by a FIFO"),
    "runs a folder": (_exchange("runs.jsonl", os.mkdir), "runs.jsonl was replaced by a folder"),
    "lock a FIFO": (_exchange("lock", os.mkfifo), "lock was replaced by a FIFO"),
    "manifest emptied": (lambda path: (path / "manifest.json").write_text(""), "manifest.json was replaced"),
    "raw a link": (_exchange("raw", lambda name: name.symlink_to("/")), "raw was replaced by a symbolic link"),
}
"""After these all runs are kept."""


def _place_of(error: RecordError) -> Path:
    found = re.search(r"compare --resume (\S+)", error.hint)
    assert found, error.hint
    return Path(found[1])


@pytest.mark.parametrize("moment", ["append", "seal", "read_back", "write_manifest"])
@pytest.mark.parametrize("what", WHOLE)
def test_all_runs_are_kept_and_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    change, sentence = WHOLE[what]
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "records" / "r"
    writer = _begun(path)
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: writer.append(RUNS[6]),
        "seal": lambda: writer.seal("complete", "precise", ""),
        "read_back": writer.read_back,
        "write_manifest": lambda: writer.write_manifest(MANIFEST),
    }
    count = len(RUNS[:7] if moment == "append" else RUNS[:6])
    with writer:
        change(path)
        with pytest.raises(RecordError, match=sentence) as caught:
            acts[moment]()
        assert "Something else changed the record" in caught.value.message
        assert re.search(r"All [67] runs are in ", caught.value.message)
        place = _place_of(caught.value)
        writer.seal("interrupted", "an error ended it", "")  # as a session that an error ends
        with pytest.raises(RecordError, match="Another process is writing"):
            RecordWriter.resume(place)
    view = load(place)
    assert view.runs in (RUNS[:count], RUNS[:7]) and view.damages == ()
    assert view.seal is not None and (view.seal.state, view.seal.runs) == ("interrupted", len(view.runs))
    assert view.manifest == MANIFEST and foreign_reason(place) == ""
    again, _ = RecordWriter.resume(place)
    with again:
        for run in RUNS[len(view.runs) :]:
            again.append(run)
        assert again.read_back().runs == RUNS


@pytest.mark.parametrize(("part", "left"), [(0.0, 0), (0.5, 3), (1.5, 6)])
def test_what_a_truncated_file_still_has_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float, left: int
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    path = tmp_path / "r"
    with _begun(path) as writer:
        _truncate(part)(path)
        with pytest.raises(RecordError, match=r"runs\.jsonl was (truncated from|written by something else)") as caught:
            writer.append(RUNS[6])
    expected = f"{left} of its 6 runs are left, in {path}." if left < 6 else f"All 6 runs are in {path}."
    assert expected in caught.value.message
    view = load(path)
    assert view.runs == RUNS[:left]
    if not view.damages:
        with RecordWriter.resume(path)[0] as again:
            for run in RUNS[left:]:
                again.append(run)
            assert again.read_back().runs == RUNS


def _edit(path: Path) -> None:
    data = (path / "runs.jsonl").read_bytes()
    with (path / "runs.jsonl").open("rb+") as file:
        file.write(data.replace(b'"elapsed_ns":100000000', b'"elapsed_ns":100000001', 1))


def test_an_edit_in_place_is_found_when_the_record_is_read_back(tmp_path: Path) -> None:
    with _begun(tmp_path / "r") as writer:
        _edit(tmp_path / "r")
        with pytest.raises(RecordError, match=r"line 1: .* it was edited\. 5 of its 6 runs are left") as caught:
            writer.read_back()
    assert "rerun" in caught.value.hint


def test_an_output_in_a_file_of_its_own_is_missed(tmp_path: Path) -> None:
    with _begun(tmp_path / "r") as writer:
        digest = writer.keep_raw(LONG)
        writer.append(msgspec.structs.replace(RUNS[6], output=digest))
        assert writer.read_back().runs[6].output == digest
        (tmp_path / "r" / "raw" / f"{digest}.txt").unlink()
        with pytest.raises(RecordError, match=r"raw lacks files\. All 7 runs are in .* Outputs .* lost: 1"):
            writer.read_back()
    assert len(check_raw(load(tmp_path / "r"))) == 1


def test_an_output_of_a_session_before_is_missed_after_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with _begun(path) as writer:
        writer.append(msgspec.structs.replace(RUNS[6], output=writer.keep_raw(LONG)))
    with RecordWriter.resume(path)[0] as again:
        shutil.rmtree(path)
        with pytest.raises(RecordError, match=r"All 8 runs are in .* lost: 1\."):
            again.append(RUNS[7])


def test_what_can_be_written_nowhere_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    path = tmp_path / "records" / "r"
    monkeypatch.setattr("tempfile.tempdir", str(path.parent))
    with _begun(path) as writer:
        shutil.rmtree(path.parent)
        path.parent.touch()
        with pytest.raises(RecordError, match=r"its folder was removed\. What is left of its 6 runs can't be written"):
            writer.read_back()


def test_a_copy_with_the_same_content_in_place_of_a_small_file_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with _begun(path) as writer:
        for name in ("record.json", "manifest.json", "experiment.json"):
            shutil.copy(path / name, path / "copy")
            (path / "copy").rename(path / name)
        writer.append(RUNS[6])
        writer.seal("complete", "precise", "")
    assert load(path).runs == RUNS[:7]
