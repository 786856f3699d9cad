# SPDX-License-Identifier: MIT OR Apache-2.0
"""Locks of the cache: one that is held is waited for; a file system without locks is an error with the next step."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from swapstone.core.artifacts import cache_folder
from swapstone.core.artifacts.cache_folder import new_folder, take_lock
from swapstone.core.model import UserError
from swapstone.parts.build.artifacts import source_build


def test_a_lock_that_is_held_is_not_an_error(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as one, (tmp_path / "lock").open("a") as two:
        assert take_lock(one, tmp_path / "lock")
        assert not take_lock(two, tmp_path / "lock", wait=False)
        assert take_lock(one, tmp_path / "lock", shared=True), "an exclusive lock becomes a shared one"
        assert take_lock(two, tmp_path / "lock", shared=True, wait=False)


@pytest.mark.parametrize("locked", [cache_folder.locked, source_build.lock_copy])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: object) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert callable(locked)
    with (
        pytest.raises(UserError, match="can't be locked against a second process: No locks available") as caught,
        locked(tmp_path / "lock"),
    ):
        pass
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_folder_gets_its_place_when_it_is_complete(tmp_path: Path) -> None:
    home = tmp_path / "cache" / "one"
    with pytest.raises(ValueError, match="stopped"), new_folder(home) as made:
        (made / "file").write_text("half")
        raise ValueError("stopped")
    assert not any((tmp_path / "cache").iterdir())
    with new_folder(home) as made:
        (made / "file").write_text("first")
        assert not home.exists()
        with new_folder(home) as other:
            (other / "file").write_text("faster")
    assert (home / "file").read_text() == "faster", "another process made it meanwhile"
    assert [path.name for path in home.parent.iterdir()] == ["one"]
