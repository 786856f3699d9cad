# SPDX-License-Identifier: MIT OR Apache-2.0
"""TOML files of users: decoded with limits, so that every content is either a table or a `TomlError`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from swapstone.core.model.errors import UserError

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
        return msgspec.convert(decode_toml(path.read_bytes()), kind)
    except (OSError, TomlError, msgspec.ValidationError) as error:
        raise UserError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.", hint) from error
