# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record is the user's own if its files have marks by the user's key."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import RecordError
from swapstone.core.record import Manifest, RecordWriter, foreign_reason, load, origin
from tests.unit import builders


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def _made(path: Path) -> Path:
    with RecordWriter.create(path, builders.experiment()) as writer:
        writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=()))
    return path


def test_a_record_that_this_user_made_is_its_own_also_after_a_move(tmp_path: Path, state: Path) -> None:
    record = _made(tmp_path / "r")
    assert foreign_reason(record) == foreign_reason(record, load(record).experiment) == ""
    moved = Path(shutil.move(record, tmp_path / "moved"))
    assert foreign_reason(moved) == ""
    key = state / "swapstone" / "key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32
    assert key.parent.stat().st_mode & 0o777 == 0o700
    assert key.read_bytes().hex() not in (moved / "origin.json").read_text()


def test_the_key_is_made_once(tmp_path: Path, state: Path) -> None:
    _made(tmp_path / "one")
    first = (state / "swapstone" / "key").read_bytes()
    _made(tmp_path / "two")
    assert (state / "swapstone" / "key").read_bytes() == first
    assert [path.name for path in (state / "swapstone").iterdir()] == ["key"]
    assert foreign_reason(tmp_path / "one") == foreign_reason(tmp_path / "two") == ""


def test_a_key_is_made_in_a_folder_that_exists(tmp_path: Path, state: Path) -> None:
    (state / "swapstone").mkdir(parents=True)
    assert foreign_reason(_made(tmp_path / "one")) == ""


def test_a_record_of_another_key_is_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _made(tmp_path / "r")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert "this user has no key yet" in foreign_reason(record)
    _made(tmp_path / "own")
    assert foreign_reason(record) == "another user made it, or it was made on another machine"


def test_a_record_without_marks_is_foreign(tmp_path: Path) -> None:
    record = _made(tmp_path / "r")
    (record / "origin.json").unlink()
    assert foreign_reason(record).startswith("it has no origin.json")


@pytest.mark.parametrize("name", ["experiment.json", "manifest.json", "record.json"])
def test_an_edit_is_found_without_a_seal(tmp_path: Path, name: str) -> None:
    record = _made(tmp_path / "r")
    content = json.loads((record / name).read_text())
    content |= {
        "experiment.json": {"seed": 8},
        "manifest.json": {"passes": [["a", "b", 9]]},
        "record.json": {"id": "x"},
    }[name]
    (record / name).write_text(json.dumps(content))
    changed = "manifest.json" if name == "manifest.json" else "experiment.json"
    assert foreign_reason(record) == f"its {changed} is not the one that was written here: it was edited or replaced"


def test_marks_of_another_own_record_are_not_accepted(tmp_path: Path) -> None:
    """Else a file of one record could be put into another."""
    one = _made(tmp_path / "one")
    with RecordWriter.create(tmp_path / "two", builders.experiment(seed=9)):
        pass
    for name in ("experiment.json", "origin.json"):
        shutil.copy(tmp_path / "two" / name, one / name)
    assert "experiment.json" in foreign_reason(one)


def test_an_experiment_that_is_written_again_stays_own_at_every_moment(tmp_path: Path) -> None:
    """Between mark and file a signal may end the process."""
    record = _made(tmp_path / "r")
    longer = msgspec.structs.replace(builders.experiment(), budget_ns=7)
    origin.mark_file(record, load(record).meta.id, "experiment.json", longer)
    assert foreign_reason(record) == ""  # the old file
    (record / "experiment.json").write_bytes(origin.file_bytes(longer))
    assert foreign_reason(record) == ""  # the new one


def test_a_relative_state_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the XDG Base Directory Specification requires."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert origin.key_path() == tmp_path / "home" / ".local" / "state" / "swapstone" / "key"


def test_marks_are_those_of_the_file_that_is_there_and_of_the_next_one(tmp_path: Path) -> None:
    """A full disk can refuse the next one several times."""
    record = _made(tmp_path / "r")
    first, identity = (record / "experiment.json").read_bytes(), load(record).meta.id
    later = [builders.experiment(seed=seed) for seed in (1, 2, 3)]
    for experiment in later:
        origin.mark_file(record, identity, "experiment.json", experiment)
        assert foreign_reason(record) == ""
    (record / "experiment.json").write_bytes(origin.file_bytes(later[-1]))
    origin.mark_file(record, identity, "experiment.json", later[0])
    assert foreign_reason(record) == ""
    names = [name for name, _ in msgspec.json.decode((record / "origin.json").read_bytes(), type=origin.Origin).marks]
    assert sorted(names) == ["experiment.json", "experiment.json", "manifest.json"]
    (record / "experiment.json").write_bytes(first)
    assert "experiment.json" in foreign_reason(record)


def test_a_record_whose_folder_could_not_be_synced_stays_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is there then, so nothing else changed it."""
    real, refused = os.fsync, list[Path]()

    def fsync(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink()
        if name == tmp_path / "r" and len(refused) < 2:  # of the marks, and of the manifest
            refused.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(RecordError, match="can't be written"):
            writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=()))
    assert len(refused) == 2 and foreign_reason(tmp_path / "r") == "" and load(tmp_path / "r").damages == ()


@pytest.mark.parametrize("kind", ["readable", "link", "short", "folder", "unwritable"])
def test_a_key_that_is_not_the_users_alone_is_not_used(tmp_path: Path, state: Path, kind: str) -> None:
    key = state / "swapstone" / "key"
    if kind == "unwritable":
        state.write_text("a file in the place of the folder")
    else:
        key.parent.mkdir(parents=True)
    if kind == "readable":
        key.write_bytes(bytes(32))
        key.chmod(0o644)
    elif kind == "link":
        (tmp_path / "other").write_bytes(bytes(32))
        (tmp_path / "other").chmod(0o600)
        key.symlink_to(tmp_path / "other")
    elif kind == "short":
        key.write_bytes(b"1")
        key.chmod(0o600)
    elif kind == "folder":
        key.mkdir()
    record = _made(tmp_path / "r")  # records can be made without a key
    assert load(record).damages == ()
    assert not (record / "origin.json").exists()
    assert foreign_reason(record) != ""
    with pytest.raises(origin.KeyUnavailableError, match="key"):
        origin.own_key()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_key_of_another_user_is_not_used(tmp_path: Path, state: Path) -> None:
    record = _made(tmp_path / "r")
    os.chown(state / "swapstone" / "key", 12345, -1)
    assert "belongs to another user" in foreign_reason(record)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"key": 1}',
        '{"key": "x", "marks": [["experiment.json", "\\ud800\\u00e9"]]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_of_marks_is_no_mark(tmp_path: Path, state: Path, content: str) -> None:
    record = _made(tmp_path / "r")
    name = json.loads((record / "origin.json").read_text())["key"]
    (record / "origin.json").write_text(content.replace('"x"', f'"{name}"'))
    assert foreign_reason(record) != ""
    assert state.is_dir()


def test_a_linked_experiment_is_not_own(tmp_path: Path) -> None:
    record = _made(tmp_path / "r")
    shutil.move(record / "experiment.json", tmp_path / "experiment.json")
    (record / "experiment.json").symlink_to(tmp_path / "experiment.json")
    assert foreign_reason(record).startswith("its experiment.json is a symbolic link")


@pytest.mark.parametrize("name", ["raw", "builds", "lock", "runs.jsonl.torn", "seal.json"])
def test_a_link_where_a_writer_would_write_makes_it_foreign(tmp_path: Path, name: str) -> None:
    """The owner's record may have been sent away and come back with it."""
    record = _made(tmp_path / "r")
    if name == "raw":
        (record / name).rmdir()
    else:
        (record / name).unlink(missing_ok=True)
    (record / name).symlink_to(tmp_path)
    assert f"its {name} is a symbolic link" in foreign_reason(record)


def test_a_folder_without_files_has_a_reason(tmp_path: Path) -> None:
    assert foreign_reason(tmp_path / "none") == "its files can't be read: No such file or directory"
    assert not origin.has_origin(tmp_path / "none")
    assert origin.has_origin(_made(tmp_path / "r"))


def test_the_first_of_several_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _made(tmp_path / "r")
    (record / "a").symlink_to("x")
    (record / "z").symlink_to("x")
    listed = os.scandir
    for backwards in (False, True):  # a folder has no order of its own

        def scandir(folder: Path, backwards: bool = backwards) -> object:
            with listed(folder) as entries:
                return contextlib.nullcontext(sorted(entries, key=lambda each: each.name, reverse=backwards))

        monkeypatch.setattr(os, "scandir", scandir)
        assert foreign_reason(record).startswith("its a is a symbolic link")


def test_an_experiment_with_another_budget_is_own(tmp_path: Path) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        writer.write_experiment(builders.experiment(budget_ns=10**12))
    assert foreign_reason(tmp_path / "r") == ""
    assert load(tmp_path / "r").experiment.budget_ns == 10**12


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610, 0o620, 0o640])
def test_a_key_that_others_may_use_in_any_way_is_not_used(tmp_path: Path, state: Path, mode: int) -> None:
    record = _made(tmp_path / "r")
    (state / "swapstone" / "key").chmod(mode)
    assert "other users can read or write it (chmod 600)" in foreign_reason(record)
    (state / "swapstone" / "key").chmod(0o700)
    assert foreign_reason(record) == ""


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_size_is_not_used(tmp_path: Path, state: Path, size: int) -> None:
    record = _made(tmp_path / "r")
    (state / "swapstone" / "key").write_bytes(bytes(size))
    assert f"it has {size} bytes, not 32" in foreign_reason(record)


def test_a_key_is_named_by_16_digits_and_is_on_disk_before_it_has_its_name(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    true_sync = os.fsync

    def sync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name.startswith(".key."):
            assert not (state / "swapstone" / "key").exists()
            synced.append(os.fstat(descriptor).st_size)
        true_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    record = _made(tmp_path / "r")
    assert synced == [32]
    kept = json.loads((record / "origin.json").read_text())
    assert len(kept["key"]) == 16 and {len(mark) for _, mark in kept["marks"]} == {64}
    assert (kept["format"], kept["schema"]) == ("swapstone-origin", 1)


def test_what_would_run_must_be_what_has_the_mark(tmp_path: Path) -> None:
    record = _made(tmp_path / "r")
    view = load(record)
    assert view.manifest is not None
    assert foreign_reason(record, view.experiment, view.manifest) == ""
    other = msgspec.structs.replace(view.experiment, seed=view.experiment.seed + 1)
    assert foreign_reason(record, other) == "its experiment.json changed while it was read"
    changed = msgspec.structs.replace(view.manifest, passes=(("a", "b", 9),))
    assert foreign_reason(record, view.experiment, changed) == "its manifest.json changed while it was read"


def test_a_mark_that_exists_is_not_written_again(tmp_path: Path) -> None:
    record = _made(tmp_path / "r")
    before = (record / "origin.json").stat()
    origin.mark_file(record, load(record).meta.id, "experiment.json", load(record).experiment)
    after = (record / "origin.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
