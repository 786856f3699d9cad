# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which files of the working folder earlier runs left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.run.own_program_levels import EXAMINED_RUNS, FolderWatch, file_state, listing

NONE: frozenset[str] = frozenset()


def test_files_that_earlier_runs_left_are_named(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("same")
    (tmp_path / "log").write_text("1\n")
    watch = FolderWatch(())
    assert watch.before_run(str(tmp_path), NONE) == ()
    assert watch.before_run(str(tmp_path), NONE) == ()
    (tmp_path / "old").write_text("SAME")  # another content of the same size
    (tmp_path / "log").write_text("1\n2\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new").write_text("")
    (tmp_path / "out").write_text("")
    assert watch.before_run(str(tmp_path), frozenset({str(tmp_path / "out")})) == ("log", "sub/new")
    (tmp_path / "sub" / "new").unlink()
    assert watch.before_run(str(tmp_path), NONE) == ("log", "out")


def test_three_files_are_named_and_hostile_names_are_text(tmp_path: Path) -> None:
    watch = FolderWatch(())
    watch.before_run(str(tmp_path), NONE)
    for name in (b"a\xff", b"b\n\x1b[31m", b"c", b"d"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("")
    left = watch.before_run(str(tmp_path), NONE)
    assert left == ("a\\xff", "b\n\x1b[31m", "c", "...")
    for each in left:
        each.encode()


def test_files_that_grow_in_shared_folders_are_named(tmp_path: Path) -> None:
    work, shared = tmp_path / "work", tmp_path / "shared"
    for folder in (work, shared / "folder"):
        folder.mkdir(parents=True)
    watch = FolderWatch((str(shared), str(tmp_path / "absent")))
    (shared / "link").symlink_to(shared / "new")
    found = []
    for number in range(EXAMINED_RUNS + 1):
        (shared / "still").write_text(f"{number:02}")
        (shared / "again").unlink() if number % 2 else (shared / "again").write_text("")
        (shared / "declared").write_text("x" * number)
        (shared / "folder" / "inner").write_text("x" * number)
        (shared / f"new{number}").write_text("")
        if number % 2:  # the log of one of two variants
            with (shared / "log").open("a") as log:
                log.write("run\n")
        found.append(watch.before_run(str(work), frozenset({str(shared / "declared")})))
    assert found == [()] * 7 + [(str(shared / "log"),)] * 2 + [()]


def test_only_the_first_runs_are_examined(tmp_path: Path) -> None:
    watch = FolderWatch(())
    for number in range(EXAMINED_RUNS):
        assert bool(watch.before_run(str(tmp_path), NONE)) == (number > 0)
        (tmp_path / f"left{number}").write_text("")
    assert watch.before_run(str(tmp_path), NONE) == ()


def test_records_and_links_are_left_out_and_large_folders_are_not_examined(tmp_path: Path) -> None:
    (tmp_path / "records" / "r" / "raw").mkdir(parents=True)
    (tmp_path / "records" / "r" / "runs.jsonl").write_text("")
    (tmp_path / "records" / "r" / "raw" / "x.txt").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "records")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("abc")
    assert listing(str(tmp_path)) == {"file": 3}
    assert listing(str(tmp_path), most_entries=3) is None
    assert listing(str(tmp_path), most_seconds=-1.0) is None
    assert listing(str(tmp_path / "absent")) == {}
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other").write_text("")
    assert listing(str(tmp_path)) == listing(f"{tmp_path}/") == {"file": 3, "below/other": 0}


@pytest.mark.slow
def test_a_folder_that_is_too_large_at_first_is_never_compared(tmp_path: Path) -> None:
    for number in range(10_001):
        os.link(__file__, tmp_path / str(number)) if number == 0 else os.link(tmp_path / "0", tmp_path / str(number))
    watch = FolderWatch(())
    assert watch.before_run(str(tmp_path), NONE) == ()
    for number in range(1, 10_001):
        (tmp_path / str(number)).unlink()
    (tmp_path / "new").write_text("")
    assert watch.before_run(str(tmp_path), NONE) == ()


def test_the_state_of_a_file_changes_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert file_state(str(path)) is None
    path.write_text("1")
    os.utime(path, ns=(10**9, 10**9))
    before = file_state(str(path))
    assert file_state(str(path)) == before
    path.write_text("2")
    assert file_state(str(path)) != before
    assert file_state("a\0b") is None
