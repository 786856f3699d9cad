# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of the Python API, as the texts that the command line takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from swapstone.model import UserError
from swapstone.session.values import Duration, duration_ns

Levels: TypeAlias = str | Sequence[str]
"""Levels of a factor, the baseline first: a sequence, or a text with commas."""

Command: TypeAlias = str | Sequence[str]
"""A command: a text that is split as a shell would, or its words."""


Values: TypeAlias = str | Sequence[str | int | float]
"""Values of a parameter, or levels of a free factor: a sequence, or a text with commas."""


def name_list(value: Levels) -> tuple[str, ...]:
    """Return names: a text has them with commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)


def pattern_list(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return patterns: a text is one, because a pattern may hold a comma."""
    return (value,) if isinstance(value, str) else tuple(value)


def share_text(value: str | float) -> str:
    """Return a share as text."""
    return value if isinstance(value, str) else f"{value:.9f}"


def command_words(command: Command | None) -> tuple[str, ...] | None:
    """Return the words of a command.

    Raises:
        UserError: its quotes do not match.
    """
    if command is None:
        return None
    try:
        return tuple(shlex.split(command)) if isinstance(command, str) else tuple(map(str, command))
    except ValueError as error:
        raise UserError(f"The quotes of command don't match: {error}.", "Pass a list of words.") from error


def command_list(commands: Mapping[str, Command] | Sequence[Command]) -> tuple[Command, ...]:
    """Return command lines without their names.

    Raises:
        UserError: they are one text.
    """
    if isinstance(commands, str):
        raise UserError("commands is one text.", "Pass a list: commands=['./old --fast', './new --fast']")
    return tuple(commands.values() if isinstance(commands, Mapping) else commands)


def value_texts(values: Mapping[str, Values] | None) -> tuple[str, ...]:
    """Return the texts of --parameter or --vary. A value in a sequence may contain commas: then each has a text of its own."""
    texts: list[str] = []
    for name, each in (values or {}).items():
        parts = [each] if isinstance(each, str) else list(map(str, each))
        texts += [f"{name}={part}" for part in parts]
        if len(parts) == 1 and not isinstance(each, str) and "," in parts[0]:
            raise UserError(f"{name} has only one value.", f"Pass several: {{{name!r}: ['a', 'b']}}")
    return tuple(texts)


def command_text(command: Command | None) -> str | None:
    """Return a command as one text."""
    return command if command is None or isinstance(command, str) else joined_command(command)


def joined_command(words: Iterable[str]) -> str:
    """Return words as one text."""
    return shlex.join(map(str, words))


def path_text(value: str | Path | None) -> str | None:
    """Return a path as text."""
    return None if value is None else str(value)


def duration_text(value: Duration) -> str | None:
    """Return a duration as text."""
    if value is None or isinstance(value, str):
        return value
    return "0" if not value else f"{(duration_ns(value) or 0) / 1e9:.9f}"
