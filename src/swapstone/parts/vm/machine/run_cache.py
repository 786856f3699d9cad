# SPDX-License-Identifier: MIT OR Apache-2.0
"""A cache of runs on the virtual clock, by their names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from swapstone.core.model import WireError
from swapstone.core.model.cached_files import mark_used, write_whole
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.vm.machine.qemu import GuestRun


def encode_run(name: str, run: GuestRun) -> bytes:
    """Return a run as a file has it: the digest of its name and content, then the content."""
    body = msgspec.json.encode(run)
    return _mark(name, body) + b"\n" + body


def decode_run(data: bytes, name: str) -> GuestRun:
    """Decode a run, and check its digest: a copy under another name is refused.

    Raises:
        WireError: it is truncated, altered, another run's, or of another version.
    """
    mark, _, body = data.partition(b"\n")
    if mark != _mark(name, body):
        raise WireError("its content has another digest")
    try:
        return msgspec.json.decode(body, type=GuestRun)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"it is no run ({safe_excerpt(str(error), 100)})") from error


def _mark(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + body).hexdigest().encode()


class RunCache:
    """A folder with one file for each run.

    Args:
        folder: created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> GuestRun | None:
        """Return a run; None if there is none or its file is damaged or of another version."""
        try:
            run = decode_run((self._folder / name).read_bytes(), name)
        except (OSError, WireError):
            return None
        mark_used(self._folder / name)
        return run

    def put(self, name: str, run: GuestRun) -> None:
        """Store a run atomically.

        Raises:
            UserError: it can't be written.
        """
        write_whole(self._folder / name, encode_run(name, run))
