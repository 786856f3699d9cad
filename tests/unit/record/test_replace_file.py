# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files are written and read through no symbolic link, and a failed write leaves the old file."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from swapstone.core.record import open_folder, replace_file, replace_in


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert target.read_text() == "precious"
    assert not link.is_symlink() and link.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_permissions_of_a_regular_file_are_kept_and_special_bits_are_not(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o4640)
    replace_file(path, b"new")
    assert path.stat().st_mode & 0o7777 == 0o640


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "f", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("place", ["outer", "inner"])
def test_a_folder_is_not_opened_through_a_link(tmp_path: Path, place: str) -> None:
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    record = tmp_path / "record"
    record.mkdir()
    if place == "outer":
        (record / "a").symlink_to(tmp_path / "elsewhere")
    else:
        (record / "a").mkdir()
        (record / "a" / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        os.close(open_folder(record, "a", "b", create=True))


def test_folders_are_created_and_written_into(tmp_path: Path) -> None:
    folder = open_folder(tmp_path, "a", "b", create=True)
    replace_in(folder, "f", b"1")
    os.close(folder)
    assert (tmp_path / "a" / "b" / "f").read_bytes() == b"1"
    with pytest.raises(FileNotFoundError):
        open_folder(tmp_path, "c")


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    left, used, other = (tmp_path / f".f.{digit * 16}" for digit in "abc")
    for path in (left, used, other):
        path.write_text("half")
    other.rename(tmp_path / ".g.cccccccccccccccc")
    with used.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        replace_file(tmp_path / "f", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [used.name, ".g.cccccccccccccccc", "f"]


def test_a_temporary_file_that_was_removed_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_flock = fcntl.flock
    removed: list[Path] = []

    def racing(handle: int, operation: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob(".f.*"))
            removed[0].unlink()
        true_flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", racing)
    replace_file(tmp_path / "f", b"new")
    assert removed and [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_is_left_is_opened_without_waiting_and_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may put a link or a FIFO in its place after it was examined."""
    left = tmp_path / ".f.aaaaaaaaaaaaaaaa"
    left.write_text("half")
    true_open, flags = os.open, {}

    def spying(path: str | Path, flag: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        flags[str(path)] = flag
        return true_open(path, flag, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", spying)
    replace_file(tmp_path / "f", b"new")
    assert not left.exists()
    (new,) = (flag for name, flag in flags.items() if name.startswith(".f.") and name != left.name)
    assert flags[left.name] & (os.O_NOFOLLOW | os.O_NONBLOCK) == os.O_NOFOLLOW | os.O_NONBLOCK
    assert flags[left.name] & os.O_ACCMODE == os.O_RDONLY
    assert new & (os.O_NOFOLLOW | os.O_EXCL | os.O_CREAT) == os.O_NOFOLLOW | os.O_EXCL | os.O_CREAT
    assert flags[str(tmp_path)] & os.O_DIRECTORY
