# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders that are filled once for a run of the tests, by the first worker that needs them."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path


class Shared:
    """Folders that all workers share. The fixture `shared` returns it."""

    def __init__(self, top: Path) -> None:
        self._top = top / "shared"

    def folder(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Return a folder. The first caller of all workers fills it; the others wait until it is filled.

        Args:
            name: of the folder; it names the content.
            fill: writes the content into the folder. If it raises an error, the next caller fills the folder anew.
        """
        self._top.mkdir(exist_ok=True)
        folder, done = self._top / name, self._top / f"{name}.done"
        with (self._top / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder
