# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a file atomically, and through no symbolic link: a link in its place is replaced, and its target stays.

A record may come from elsewhere, so a name in it, such as ``report.html``, may be a link to any file of the user.

A process holds a lock on its temporary file (flock(2)), which ends with the process. So the next one that writes the same file
removes the temporary files of killed processes, and leaves those in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: Path, data: bytes | Iterable[bytes], *, alone: bool = False) -> None:
    """Write a file: a new one of a random name in the same folder, which then takes the place of the old one.

    A regular file's permissions are kept. The folder itself may be reached through links.

    Args:
        path: of the file.
        data: the content, or its parts.
        alone: whether no other process writes in the folder, and the caller removes what killed ones left and syncs the folder.

    Raises:
        OSError: the folder does not exist or can't be written, or the path is a folder.
    """
    folder = os.open(path.parent, _DIRECTORY)
    try:
        replace_in(folder, path.name, data, alone=alone)
    finally:
        os.close(folder)


def replace_in(folder: int, name: str, data: bytes | Iterable[bytes], *, alone: bool = False) -> None:
    """Write a file as `replace_file` does.

    Args:
        folder: a descriptor of the folder.
        name: without a slash.
        data: as of `replace_file`.
        alone: as of `replace_file`.

    Raises:
        OSError: as `replace_file`.
    """
    if not alone:
        with contextlib.suppress(OSError):  # of the folder's listing: not every folder that can be written can be read
            _remove_left(folder, name)
    temporary, handle = _temporary(folder, name)
    try:
        with os.fdopen(handle, "wb") as file:
            mode = _mode_of(folder, name)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        if not alone:
            with contextlib.suppress(OSError):  # not every file system can sync a folder
                os.fsync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _temporary(folder: int, name: str) -> tuple[str, int]:
    """Create a temporary file and lock it; return its name and its descriptor."""
    while True:
        temporary = f".{name[:100]}.{secrets.token_hex(8)}"
        handle = os.open(temporary, _NEW, 0o666, dir_fd=folder)
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return temporary, handle
        os.close(handle)  # another process removed it before it was locked


def _remove_left(folder: int, name: str) -> None:
    """Remove this user's temporary files of a name that no process holds."""
    left = re.compile(rf"\.{re.escape(name[:100])}\.[0-9a-f]{{16}}")
    for each in filter(left.fullmatch, os.listdir(folder)):
        with contextlib.suppress(OSError):
            found = os.stat(each, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                continue
            handle = os.open(each, _OLD, dir_fd=folder)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(each, dir_fd=folder)
            finally:
                os.close(handle)


def _mode_of(folder: int, name: str) -> int | None:
    """Return the permissions of a regular file; None if there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mode & 0o777 if stat.S_ISREG(found.st_mode) else None


def open_folder(path: Path, *below: str, create: bool = False) -> int:
    """Open a folder, and folders below it through no symbolic link.

    Args:
        path: may be reached through links.
        below: names of folders, each inside the one before it.
        create: whether to create those that are missing.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        OSError: one does not exist, or is a link or a file (ENOTDIR, ELOOP).
    """
    folder = os.open(path, _DIRECTORY)
    for name in below:
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder
