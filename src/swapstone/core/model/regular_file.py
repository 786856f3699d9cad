# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that a user names or that lie in the cache, read whole if they are regular files of a limited size; and small texts."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.model.errors import UserError


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file, through symbolic links and without waiting for a writer of a FIFO.

    Args:
        path: of the file.
        most_bytes: its largest size.

    Raises:
        OSError: it can't be read, is no regular file, or is larger; ``strerror`` names which.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it is larger than {most_bytes / (1 << 20):g} MiB", str(path))
        parts, left = [], most_bytes
        while left > 0 and (part := os.read(handle, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)


@contextlib.contextmanager
def readable(what: str, hint: str = "") -> Iterator[None]:
    """Turn an `OSError` in the context into the error of a file that the user named.

    Args:
        what: the file, as the subject of a sentence.
        hint: the next step.

    Raises:
        UserError: it can't be read.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} can't be read: {error.strerror}.", hint) from error


def text_of(path: Path) -> str:
    """Return a file's text without leading and trailing space; empty if it does not exist or can't be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def tail_of(path: Path, most_bytes: int) -> str:
    """Return the end of a file as text, with bytes that are not UTF-8 as escapes; empty if it does not exist or can't be read."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - most_bytes))
            return handle.read().decode(errors="backslashreplace").replace("\r\n", "\n")
    except OSError:
        return ""
