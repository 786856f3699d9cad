# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cache: one process builds or fetches and others wait for it, and a folder gets its place when it is complete."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from swapstone.core.model import UserError

Described = TypeVar("Described")


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


@contextlib.contextmanager
def writable_folder(folder: Path) -> Iterator[Path]:
    """Create a cache folder, and convert write errors inside the context to a `UserError`.

    Args:
        folder: created with its parents.

    Raises:
        UserError: it can't be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise UserError(
            f"The cache folder {folder} can't be written: {error.strerror or error}.",
            "Free space with `swapstone image gc`, or set XDG_CACHE_HOME to another folder.",
        ) from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; waits for it.

    Args:
        path: created with its parents.

    Raises:
        UserError: it can't be created or locked.
    """
    with writable_folder(path.parent):
        handle = path.open("ab")
    with handle:
        take_lock(handle, path)
        yield


@contextlib.contextmanager
def new_folder(home: Path, prefix: str = ".building-") -> Iterator[Path]:
    """Yield an empty folder that gets its place at the end of the context, if there is no error.

    Args:
        home: its place. If another process made the same folder meanwhile, that one is kept.
        prefix: of the name of the temporary folder beside `home`, in which it is until then.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=prefix) as work:
        made = Path(work) / "complete"
        made.mkdir()
        yield made
        try:
            made.rename(home)
        except OSError:
            if not home.is_dir():
                raise


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: it can't be read.
    """
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_description(path: Path, kind: type[Described]) -> Described | None:
    """Return what a JSON file in the cache describes; None if it is missing, damaged, or of another version of Swapstone.

    Args:
        path: of the file.
        kind: the type of its contents.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
