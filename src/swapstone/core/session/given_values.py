# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values of options as users give them, on the command line, in a study file or in Python, and the one form that the program reads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from swapstone.core.model import UserError
from swapstone.core.session.values import Duration, duration_ns, parse_confidence, parse_ratio

Levels: TypeAlias = str | Sequence[str]
"""Names, such as levels of a factor, the baseline first: a sequence, or a text with commas."""

Command: TypeAlias = str | Sequence[str]
"""A command: a text that is split as a shell would, or its words."""

Values: TypeAlias = str | int | float | Sequence[str | int | float]
"""Values of a parameter, or levels of a free factor: a sequence, or a text with commas."""


def name_list(value: Levels) -> tuple[str, ...]:
    """Return names: a text has them with commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)


def text_list(value: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    """Return patterns, or paths: a text is one, because it may hold a comma."""
    return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))


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


def command_list(commands: Sequence[Command]) -> tuple[str, ...]:
    """Return command lines.

    Raises:
        UserError: they are one text.
    """
    if isinstance(commands, str):
        raise UserError("commands is one text.", "Pass a list: commands=['./old --fast', './new --fast']")
    return tuple(command_text(each) or "" for each in commands)


def command_text(command: Command | None) -> str | None:
    """Return a command as one text."""
    return command if command is None or isinstance(command, str) else shlex.join(map(str, command))


def named_texts(values: Mapping[str, str | Path] | Sequence[str]) -> tuple[str, ...]:
    """Return ``NAME=VALUE`` for each name of a mapping; texts of this form unchanged."""
    return tuple(f"{name}={value}" for name, value in values.items()) if isinstance(values, Mapping) else tuple(values)


def value_texts(values: Mapping[str, Values] | Sequence[str]) -> tuple[str, ...]:
    """Return the texts of --parameter or --vary. A value in a sequence may contain commas: then each has a text of its own."""
    if not isinstance(values, Mapping):
        return tuple(values)
    texts: list[str] = []
    for name, each in values.items():
        parts = [str(each)] if isinstance(each, str | int | float) else list(map(str, each))
        texts += [f"{name}={part}" for part in parts]
        if len(parts) == 1 and not isinstance(each, str) and "," in parts[0]:
            raise UserError(f"{name} has only one value.", f"Pass several: {{{name!r}: ['a', 'b']}}")
    return tuple(texts)


def number_list(value: str | int | Sequence[int] | None) -> str | None:
    """Return numbers as a text with commas; None for none."""
    if value is None or isinstance(value, str | int):
        return None if value is None else str(value)
    return ",".join(map(str, value)) or None


def path_text(value: str | Path | None) -> str | None:
    """Return a path as text."""
    return None if value is None else str(value)


def duration_text(value: Duration) -> str | None:
    """Return a duration as text."""
    if value is None or isinstance(value, str):
        return value
    return "0" if not value else f"{(duration_ns(value) or 0) / 1e9:.9f}"


def share_text(value: str | float) -> str:
    """Return a share as text."""
    return value if isinstance(value, str) else f"{value:.9f}"


def optional_share_text(value: str | float | None) -> str | None:
    """Return a share as text, or None for None."""
    return None if value is None else share_text(value)


def margin_of(value: str | float) -> float:
    """Return a margin.

    Raises:
        UserError: it is no share between 0 and 1.
    """
    return parse_ratio(share_text(value), "--margin", 0.0, 1.0)


def confidence_of(value: str | float | None) -> float | None:
    """Return a confidence, or None for None.

    Raises:
        UserError: it is no share between 50 % and 99.99 %.
    """
    return None if value is None else parse_confidence(share_text(value))
