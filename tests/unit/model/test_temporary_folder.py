# SPDX-License-Identifier: MIT OR Apache-2.0
"""Temporary folders: what a killed process left is removed by the next one, and nothing else is."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model.temporary_folder import TemporaryFolder, remove_stale_folders

TOP = Path(__file__).parents[3]
MAKES = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from swapstone.core.model.temporary_folder import TemporaryFolder
folder = TemporaryFolder("scratch")
(folder.path / "left").write_text("x")
(folder.path / "link").symlink_to(sys.argv[2])
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def other(place: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has made a folder and waits. The folder contains a link to ``precious``."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    command = [sys.executable, "-c", MAKES, str(place), str(tmp_path / "precious")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TOP / "src")},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_folder_is_empty_private_and_removed_with_its_content(place: Path) -> None:
    with TemporaryFolder("scratch") as path:
        assert path.parent == place
        assert not list(path.iterdir())
        assert path.stat().st_mode & 0o777 == 0o700
        assert re.fullmatch(rf"swapstone-scratch-{os.getpid():06x}-[0-9a-f]{{9}}-\w{{8}}", path.name)
        (path / "folder").mkdir()
        (path / "folder" / "file").write_text("x")
    assert not list(place.iterdir())


def test_paths_of_one_purpose_are_equally_long(place: Path) -> None:
    del place
    folders = [TemporaryFolder("vm") for _ in range(3)]
    assert len({len(str(folder.path)) for folder in folders}) == 1
    assert len({folder.path for folder in folders}) == 3
    for folder in folders:
        folder.close()
        folder.close()
        assert not folder.path.exists()


def test_the_folder_of_a_killed_process_is_removed_and_links_are_not_followed(
    place: Path, other: subprocess.Popen[str], tmp_path: Path
) -> None:
    (left,) = place.iterdir()
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert left.exists()
    assert remove_stale_folders(place) == (left,)
    assert not list(place.iterdir())
    assert (tmp_path / "precious" / "file").exists()


def test_the_folder_of_a_running_process_is_kept(place: Path, other: subprocess.Popen[str]) -> None:
    (theirs,) = place.iterdir()
    assert remove_stale_folders(place) == ()
    assert theirs.exists()
    assert other.poll() is None


def test_a_process_that_ends_removes_its_folder(place: Path, other: subprocess.Popen[str]) -> None:
    assert other.stdin is not None
    other.stdin.close()
    assert other.wait(60) == 0
    assert not list(place.iterdir())


def test_making_a_folder_removes_stale_ones(place: Path) -> None:
    stale = _stale(place)
    with TemporaryFolder("vm"):
        assert not stale.exists()


def test_a_folder_that_a_process_of_another_namespace_has_locked_is_kept(place: Path) -> None:
    """Its process number means nothing here."""
    stale = _stale(place)
    handle = os.open(stale, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert remove_stale_folders(place) == ()
        assert stale.exists()
    finally:
        os.close(handle)
    assert remove_stale_folders(place) == (stale,)


def test_a_number_that_another_process_has_now_is_that_of_a_dead_one(place: Path) -> None:
    stale = _stale(place, pid=os.getpid())
    assert remove_stale_folders(place) == (stale,)


def test_links_files_and_other_names_are_kept(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("x")
    stale = _stale(place)
    name = stale.name
    stale.rmdir()
    stale.symlink_to(target)
    others = [
        "swapstone-abcdefgh",
        f"x{name}",
        f"{name}x",
        name.replace("scratch", "SCRATCH"),
        "swapstone--000001-000000001-a",
    ]
    for each in others:
        (place / each).mkdir()
    (place / f"{name[:-1]}_").write_text("a file")
    assert remove_stale_folders(place) == ()
    assert len(list(place.iterdir())) == len(others) + 2
    assert (target / "file").exists()


def test_a_missing_place_is_no_error(tmp_path: Path) -> None:
    assert remove_stale_folders(tmp_path / "absent") == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_folder_of_another_user_is_kept(place: Path) -> None:
    stale = _stale(place)
    os.chown(stale, 65534, 65534)
    assert remove_stale_folders(place) == ()
    assert stale.exists()


def _stale(place: Path, pid: int | None = None) -> Path:
    """Make the folder of a process that has ended: of a number that no process has, or of an earlier process of that number."""
    number = pid or next(number for number in range(0x3FFFFF, 0, -1) if not Path(f"/proc/{number}").exists())
    path = place / f"swapstone-scratch-{number:06x}-{1:09x}-abcd_efg"
    path.mkdir()
    return path
