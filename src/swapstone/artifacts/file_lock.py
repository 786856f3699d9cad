# SPDX-License-Identifier: MIT OR Apache-2.0
"""Locks of files in the cache: one process builds or fetches, and others wait for it."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO, Any

from swapstone.model import UserError


def take_lock(file: IO[Any] | int, path: Path, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file until it is closed.

    Args:
        file: to lock.
        path: of the file, for the error.
        shared: other processes may hold a shared lock, too.
        wait: for a process that holds the lock.

    Returns:
        Whether the lock was taken; always, with `wait`.

    Raises:
        UserError: the file can't be locked, because its file system has no locks (ENOLCK of NFS), for example.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"{path} can't be locked against a second process: {error.strerror}.",
            "Set XDG_CACHE_HOME to a folder on a file system that has locks.",
        ) from error
    return True
