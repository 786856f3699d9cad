# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of the cache: written atomically, and marked when they are used."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from swapstone.core.model.errors import UserError


def mark_used(path: Path) -> None:
    """Set the time of last use of a file of the cache, which `swapstone image gc` reads. Errors of a read-only cache are ignored."""
    with contextlib.suppress(OSError):
        os.utime(path)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically.

    Raises:
        UserError: it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(
            f"{path} can't be written: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
        ) from error
