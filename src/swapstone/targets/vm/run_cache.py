# SPDX-License-Identifier: MIT OR Apache-2.0
"""A cache of runs on the virtual clock, by their names."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from swapstone.model import UserError
from swapstone.targets.vm.qemu import GuestRun


class RunCache:
    """A folder with one file for each run: the digest of the content, then the run.

    Args:
        folder: created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, digest: str) -> GuestRun | None:
        """Return a run; None if there is none or its file is damaged."""
        try:
            mark, _, body = (self._folder / digest).read_bytes().partition(b"\n")
        except OSError:
            return None
        if mark != hashlib.sha256(body).hexdigest().encode():
            return None
        mark_used(self._folder / digest)
        try:
            return msgspec.json.decode(body, type=GuestRun)
        except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
            return None

    def put(self, digest: str, run: GuestRun) -> None:
        """Store a run atomically.

        Raises:
            UserError: it can't be written.
        """
        body = msgspec.json.encode(run)
        write_whole(self._folder / digest, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


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
