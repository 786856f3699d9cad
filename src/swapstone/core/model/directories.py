# SPDX-License-Identifier: MIT OR Apache-2.0
"""The folder of the files that Swapstone ships besides its Python code, and the cache folder of what it builds."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from swapstone.core.model.errors import UserError


def share_dir() -> Path:
    """Return the folder with ``native/``, ``crates/``, ``studies/``, ``docs/`` and ``packages``.

    It is ``swapstone/share`` in an installed package, and the top of the repository in a checkout.
    """
    package = Path(__file__).resolve().parents[2]
    installed = package / "share"
    return installed if installed.is_dir() else package.parent.parent


def cache_dir() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/swapstone``, by default ``~/.cache/swapstone``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "swapstone"


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
