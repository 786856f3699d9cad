# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a file atomically, and through no symbolic link: a link in its place is replaced, and its target stays.

A record may come from elsewhere, so a name in it, such as ``report.html``, may be a link to any file of the user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: Path, data: bytes) -> None:
    """Write a file: a new one of a random name in the same folder, which then takes the place of the old one.

    A regular file's permissions are kept. The folder itself may be reached through links.

    Raises:
        OSError: the folder does not exist or can't be written, or the path is a folder.
    """
    folder = os.open(path.parent, _DIRECTORY)
    try:
        replace_in(folder, path.name, data)
    finally:
        os.close(folder)


def replace_in(folder: int, name: str, data: bytes) -> None:
    """Write a file as `replace_file` does.

    Args:
        folder: a descriptor of the folder.
        name: without a slash.
        data: the content.

    Raises:
        OSError: as `replace_file`.
    """
    temporary = f".{name[:100]}.{secrets.token_hex(8)}"
    handle = os.open(temporary, _NEW, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            mode = _mode_of(folder, name)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


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


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file that is no link.

    Args:
        path: a FIFO or a device is not opened for reading.
        most_bytes: a larger file is an error.

    Raises:
        OSError: there is none, or it is a link, something else than a regular file, or too large (EFBIG).
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(handle)
