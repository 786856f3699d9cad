# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that a user names or that lie in the cache, read whole if they are regular files of a limited size; and small texts."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

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


Decoded = TypeVar("Decoded")

MOST_BYTES = 1 << 20
"""The largest file of this project, the lock of images, has 60 kB."""

_MOST_DOTS = 64
"""tomllib's time for a dotted key grows with the square of its parts."""

_INTEGERS = range(-(2**63), 2**63)


class TomlError(ValueError):
    """A file is not TOML, or is outside the limits."""


def decode_toml(content: bytes) -> dict[str, Any]:
    """Decode a TOML file.

    Args:
        content: the whole file.

    Returns:
        Its table.

    Raises:
        TomlError: it is not TOML, is larger than `MOST_BYTES`, is nested too deeply, or has an integer of more than 64 bits.
    """
    if len(content) > MOST_BYTES:
        raise TomlError(f"it is larger than {MOST_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8")
        if any(line.split("=", 1)[0].count(".") > _MOST_DOTS for line in text.splitlines()):
            raise TomlError(f"a line has more than {_MOST_DOTS} dots before its '='")
        table = tomllib.loads(text)
    except RecursionError as error:
        raise TomlError("it is nested too deeply") from error
    except TomlError:
        raise
    except ValueError as error:  # not UTF-8, not TOML, or an integer with more digits than Python converts
        raise TomlError(str(error)) from error
    _require_integers(table)
    return table


def _require_integers(table: dict[str, Any]) -> None:
    left: list[Any] = [table]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and value not in _INTEGERS:
            raise TomlError("it has an integer of more than 64 bits")


_table_of = functools.lru_cache(maxsize=8)(decode_toml)
"""A command reads the same locks for each level and each study, and tomllib takes 20 ms for a lock of 50 kB."""


def read_toml(path: Path, kind: type[Decoded], hint: str) -> Decoded:
    """Return what a TOML file of Swapstone contains.

    Args:
        path: of the file.
        kind: the type of its contents.
        hint: for the user if it can't be read.

    Raises:
        UserError: it can't be read, or is damaged.
    """
    try:
        return msgspec.convert(_table_of(path.read_bytes()), kind)
    except (OSError, TomlError, msgspec.ValidationError) as error:
        raise UserError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.", hint) from error
