# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports and exports in files that the user names, or that have a default name in a record."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from swapstone.core.model import UserError, refuse
from swapstone.core.record import replace_file

_DEVICES = ("/dev/", "/proc/")


def write_output(path: Path, content: str, *, named: bool) -> None:
    """Write a file, and through no symbolic link: a link of that name is replaced, and its target stays.

    Args:
        path: of the file.
        content: of the file; UTF-8.
        named: whether the user typed the path. Then a FIFO or a device, such as /dev/stdout, is written into.

    Raises:
        UserError: it can't be written.
    """
    data = content.encode("utf-8", "backslashreplace")
    try:
        if named and _is_stream(path):
            path.write_bytes(data)
        else:
            replace_file(path, data)
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.", "Name another file with --out.") from error


def check_output(path: Path | None) -> None:
    """Raise before work begins whose result could not be written.

    Args:
        path: that the user typed; None for no file.

    Raises:
        UserError: it is a folder, or its folder can't be written.
    """
    if path is not None:
        unwritable = not _is_stream(path) and not os.access(path.parent, os.W_OK | os.X_OK)
        troubles = (
            (path.is_dir(), errno.EISDIR),
            (not path.parent.is_dir(), errno.ENOENT),
            (unwritable, errno.EACCES),
        )
        for found, number in troubles:
            refuse((found, f"{path} can't be written: {os.strerror(number)}.", "Name another file with --out."))


def check_output_folder(path: Path) -> None:
    """Raise before long work whose result could not be written into a folder. Nothing is left there.

    Raises:
        UserError: the path is a file, or neither it nor the nearest folder above it that exists can be written.
    """
    place = path.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".making-"):
            pass
    except OSError as error:
        is_file = place == path.absolute() and not place.is_dir()
        message = f"{path} is no folder." if is_file else f"{path} can't be written: {error.strerror or error}."
        raise UserError(message, "Name another folder: --out DIR") from error


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device or a FIFO itself, or has its place where the kernel puts links to streams (proc(5))."""
    if str(path).startswith(_DEVICES):
        return path.exists()
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
