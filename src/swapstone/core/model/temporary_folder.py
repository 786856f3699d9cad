# SPDX-License-Identifier: MIT OR Apache-2.0
"""Temporary folders that a later start of Swapstone removes if their process was killed.

A folder's name is ``swapstone-PURPOSE-PID-START-RANDOM``: the process that made it, and its start time in clock ticks since boot (field 22
of /proc/PID/stat), both hexadecimal. The process also holds a lock on the folder, because process numbers of another PID namespace, such
as that of a container with the same /tmp, mean nothing here. A folder is removed if its process is gone and its lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

_NAME = re.compile(r"swapstone-[a-z]{1,20}-([0-9a-f]{6})-([0-9a-f]{9})-[A-Za-z0-9_]{8}", re.ASCII)
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """An empty folder, as a context manager that returns its path.

    The first one of a process in a place removes the folders that killed processes left there.

    Args:
        purpose: a part of its name, 1 to 20 letters.
        place: the folder in which it is made; by default the system's folder for temporary files.

    Attributes:
        path: its absolute path. All paths of one purpose are equally long.
    """

    def __init__(self, purpose: str, place: Path | None = None) -> None:
        parent = str(place.absolute()) if place is not None else tempfile.gettempdir()
        _remove_once(parent)
        self.path = Path(tempfile.mkdtemp(prefix=name_of_this_process(purpose), dir=parent))
        # It is also removed at the end of the program.
        self._finalizer = weakref.finalize(self, _remove_own, self.path, _locked(self.path), os.getpid())

    def close(self) -> None:
        """Remove the folder with its content, as far as that is permitted. May be called twice."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def name_of_this_process(purpose: str) -> str:
    """Return the beginning of a folder's name, to which 8 random letters and digits are added.

    Args:
        purpose: 1 to 20 letters.
    """
    return f"swapstone-{purpose}-{os.getpid():06x}-{_start_time(os.getpid()) or 0:09x}-"


def is_left_over(name: str) -> bool:
    """Return whether a folder's name is that of a process which is gone."""
    found = _NAME.fullmatch(name)
    return found is not None and _start_time(int(found[1], 16)) != int(found[2], 16)


def remove_stale_folders(place: Path) -> tuple[Path, ...]:
    """Remove the temporary folders of this user whose processes are gone.

    Links are not followed. What can't be removed is left.

    Args:
        place: the folder in which they are.

    Returns:
        The folders that were removed.
    """
    removed = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if is_left_over(entry.name) and _remove_unlocked(entry.path):
                removed.append(Path(entry.path))
    return tuple(removed)


def _locked(path: Path) -> int:
    """Lock a folder; return the descriptor that holds the lock, or -1. Without a lock, the process number protects the folder."""
    try:
        handle = os.open(path, _FLAGS)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _remove_own(path: Path, lock: int, pid: int) -> None:
    if os.getpid() == pid:  # and not a forked process that ends
        shutil.rmtree(path, ignore_errors=True)
    if lock >= 0:
        os.close(lock)


@functools.cache
def _remove_once(place: str) -> None:
    remove_stale_folders(Path(place))


def _remove_unlocked(path: str) -> bool:
    """Remove a folder of this user that no process has locked."""
    try:
        folder = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        about = os.fstat(folder)
        if about.st_uid != os.geteuid() or not stat.S_ISDIR(about.st_mode):
            return False
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)  # it opens each folder without following links (os.supports_dir_fd)
    except OSError:
        return False
    finally:
        os.close(folder)
    return not Path(path).exists()


def _start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
