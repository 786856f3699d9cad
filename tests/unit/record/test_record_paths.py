# SPDX-License-Identifier: MIT OR Apache-2.0
"""How users name records, and what they read if there is none of a name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from swapstone.core.model import RecordError
from swapstone.core.record import RecordWriter, find_record, list_records, new_record_path, record_paths
from swapstone.core.record.record_paths import default_root, find_records, record_name
from tests.unit import builders


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of records, with ``one`` and the study ``study`` of ``b`` and ``a``; written in this order."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "records"
    for seconds, name in enumerate(("one", "study/b", "study/a"), start=1):
        made(folder / name, seconds)
    return folder


def made(path: Path, seconds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    RecordWriter.create(path, builders.experiment()).close()
    os.utime(path / "record.json", ns=(seconds * 10**9, seconds * 10**9))


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(RecordError) as found:
        find_record(text)
    return found.value.message, found.value.hint


def test_records_are_listed_by_the_time_of_their_identity_and_by_name(root: Path) -> None:
    def names() -> list[str]:
        return [record_name(path) for path in list_records()]

    assert names() == ["one", "study/b", "study/a"]
    os.utime(root / "study/a/record.json", ns=(2 * 10**9, 2 * 10**9))
    assert names() == ["one", "study/a", "study/b"], "at the same time by name"
    (root / "study/a/record.json").unlink()
    assert names()[-1] == "study/b"
    assert list_records(root / "study") == (root / "study/b",)
    assert list_records(root / "nothing") == ()


def test_the_last_record_is_the_newest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_record("last") == Path("records/study/a")
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(root / "study"))
    assert default_root() == root / "study"
    assert find_record("b") == root / "study/b"
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(root / "none"))
    message, hint = refused("last")
    assert message == f"There are no records in {root / 'none'}."
    assert hint == "Make one: swapstone compare libc=glibc,musl"


def test_a_record_is_named_by_its_path_or_by_its_name(root: Path) -> None:
    assert find_record(str(root / "one")) == root / "one"
    assert find_record("one") == Path("records/one")
    assert find_record("study/a") == Path("records/study/a")
    made(Path("one"), 9)
    assert find_record("one") == Path("one"), "a path comes first"


def test_a_folder_of_several_records_is_none_and_its_parts_are_named_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = record_paths._folders_in
    for order in (1, -1):  # a folder has no order of its own
        monkeypatch.setattr(record_paths, "_folders_in", lambda folder, order=order: sorted(listed(folder))[::order])
        assert refused("study") == (
            "study is not a single record: it contains a, b.",
            "Name one of them: records/study/a",
        )
        assert find_records("study") == (Path("records/study/a"), Path("records/study/b"))
    assert find_records("one") == (Path("records/one"),)


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    message, hint = refused("study/c")
    assert "study/c" in message and ("study/a" in hint or "study/b" in hint)
    with pytest.raises(RecordError):
        find_records("study/c")


@pytest.mark.parametrize("name", ["folder", "file"])
def test_what_is_no_record_is_not_an_unknown_name(root: Path, name: str) -> None:
    Path("folder").mkdir()
    Path("file").write_text("x")
    message, _ = refused(name)
    assert message.startswith(f"{name} is not a record: it ")
    assert root.exists()


def test_a_line_break_in_a_name_is_refused(root: Path) -> None:
    (root / "one").rename(root / "a\nb")
    message, hint = refused("a\nb")
    assert message == r"The name of this record has a line break: records/a\x0ab"
    assert hint == "Rename its folder."


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("libc=glibc,musl", "libc=glibc,musl"),
        ("a b/../c", "a-b-..-c"),
        ("--x--", "x"),
        ("A.Z_09", "A.Z_09"),
        ("///", "experiment"),
        ("x" * 61, "x" * 60),
    ],
)
def test_a_new_record_is_named_by_the_time_and_the_experiment(name: str, stem: str) -> None:
    found = new_record_path(name)
    assert found.parent == Path("records") and not found.exists()
    assert re.fullmatch(rf"[0-9]{{8}}-[0-9]{{6}}-{re.escape(stem)}", found.name)


def test_a_name_that_exists_gets_a_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = Path.exists

    def taken(path: Path) -> bool:
        return (path.parent == Path("records") and not path.name.endswith("-x-3")) or exists(path)

    monkeypatch.setattr(Path, "exists", taken)
    assert new_record_path("x").name.endswith("-x-3")
    assert root.is_dir()


def test_a_folder_that_may_not_be_entered_is_not_said_to_be_no_record(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may enter every folder, so the error is raised here."""
    true_lstat = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path.name == "record.json":
            raise PermissionError(13, "Permission denied")
        return true_lstat(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    message, hint = refused(str(root / "one"))
    assert message == f"{root / 'one'} can't be read: Permission denied."
    assert hint == f"Its owner can allow it: chmod -R u+rwX {root / 'one'}"


def test_a_name_that_is_not_utf_8_has_its_bytes_as_text(root: Path) -> None:
    path = root / os.fsdecode(b"r\xff")
    made(path, 4)
    assert record_name(path, root) == "r\\xff"
    assert find_record(str(path)) == path
    assert path in list_records(root)
