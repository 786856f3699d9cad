# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that users write as text: durations, shares and confidence levels."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from swapstone.core.model import UserError

_UNITS_NS = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000, "": 1_000_000_000}
_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"  # of bounded length: more digits overflow when they are converted
_LONGEST_NS = 366 * 24 * _UNITS_NS["h"]


def parse_duration_ns(text: str) -> int:
    """Parse a duration such as ``90s``, ``2m`` or ``1.5h``. A bare number is in seconds.

    Returns:
        Nanoseconds.

    Raises:
        UserError: the text has another form, or the duration is not above zero and below a year.
    """
    match = re.fullmatch(rf"({_NUMBER})\s*(ms|s|m|h|)", text.strip(), re.ASCII)
    nanoseconds = round(float(match[1]) * _UNITS_NS[match[2]]) if match else 0
    if nanoseconds <= 0 or nanoseconds > _LONGEST_NS:
        raise UserError(f"{text!r} is not a duration.", "For example: 90s, 2m, 1.5h")
    return nanoseconds


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds, at least one; as `parse_duration_ns`."""
    return max(1, parse_duration_ns(text) // 1_000_000)


Duration: TypeAlias = str | float | datetime.timedelta | None
"""A duration as the Python API accepts it: a text such as ``90s``, a number of seconds, a `timedelta`, or None."""


def duration_ns(value: Duration) -> int | None:
    """Return a duration in nanoseconds, or None for None.

    Raises:
        UserError: it is not a duration.
    """
    if value is None or isinstance(value, str):
        return None if value is None else parse_duration_ns(value)
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    return parse_duration_ns(f"{seconds:.9f}")


def duration_of(value: Duration) -> datetime.timedelta | None:
    """Return a duration rounded to microseconds, at least one; None for None.

    Raises:
        UserError: it is not a duration.
    """
    if value is None or isinstance(value, datetime.timedelta):
        return value
    return datetime.timedelta(microseconds=max(1, round((duration_ns(value) or 0) / 1000)))


def duration_seconds(value: Duration) -> float:
    """Return a duration in seconds, or 0 for None.

    Raises:
        UserError: it is not a duration.
    """
    return (duration_ns(value) or 0) / 1e9


def parse_age_s(text: str) -> int:
    """Parse an age such as ``12h`` or ``30d``.

    Returns:
        Seconds.

    Raises:
        UserError: the text has another form.
    """
    match = re.fullmatch(r"(\d{1,9})([smhd])", text, re.ASCII)
    if match is None:
        raise UserError(
            f"{text!r} is not a length of time.", "Write a number with s, m, h or d, e.g. --older-than 30d."
        )
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


def parse_ratio(text: str, what: str, low: float, high: float) -> float:
    """Parse a share such as ``2%`` or ``0.02``.

    Args:
        text: the share.
        what: the name of the option or key, for the error.
        low: the value must be above this.
        high: the value must be below this.

    Returns:
        The share, 1.0 for 100 %.

    Raises:
        UserError: the text is not a number, or the number is outside the limits.
    """
    match = re.fullmatch(rf"({_NUMBER})\s*(%?)", text.strip(), re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not low < value < high:
        raise UserError(
            f"{text!r} is no value for {what}.", f"It is a share between {low:g} and {high:g}, e.g. 2% or 0.02."
        )
    return value


def parse_confidence(text: str, what: str = "--confidence") -> float:
    """Parse a confidence level such as ``95``, ``95%`` or ``0.95``.

    Raises:
        UserError: the level is not between 50 % and 99.99 %.
    """
    bare = re.fullmatch(r"\d{2}(\.\d{1,18})?", text.strip(), re.ASCII)
    return parse_ratio(f"{text}%" if bare else text, what, 0.5, 0.9999)


def format_duration(nanoseconds: int, digits: int = 0) -> str:
    """Return a duration rounded for reading: ``40 s``, ``2 min 05 s``, ``1 h 10 min``.

    Args:
        nanoseconds: the duration.
        digits: behind the point of the seconds. Hours have seconds with the first of them.
    """
    unit_ns = 10 ** (9 - digits)
    seconds, part = divmod(round(nanoseconds / unit_ns), 10**digits)
    fraction = f".{part:0{digits}d}" if digits else ""
    if seconds < 100:
        return f"{seconds}{fraction} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d}{fraction} s"
    return f"{minutes // 60} h {minutes % 60:02d} min" + (f" {rest:02d}{fraction} s" if digits else "")


def format_compared(*durations_ns: int) -> tuple[str, ...]:
    """Return durations that a text compares, with the fewest digits that show which is longer: ``1.00 s`` and ``1.02 s``."""
    most = 9
    for digits in range(most):
        texts = tuple(format_duration(each, digits) for each in durations_ns)
        if len({format_duration(0, digits), *texts}) == len({0, *durations_ns}):  # none is shown as 0 s either
            return texts
    return tuple(format_duration(each, most) for each in durations_ns)


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


def pairs_of(texts: Iterable[str], pattern: str, refusal: Callable[[str], UserError]) -> list[tuple[str, str]]:
    """Split texts in two.

    Args:
        texts: such as ``NAME=VALUE``.
        pattern: a regular expression of a whole text with two groups.
        refusal: returns the error for a text of another form.

    Raises:
        UserError: a text has another form.
    """
    pairs = []
    for text in texts:
        match = re.fullmatch(pattern, text, re.ASCII | re.DOTALL)
        if match is None:
            raise refusal(text)
        pairs.append((match[1], match[2]))
    return pairs


def number_list(value: str | int | Sequence[int] | None) -> str | None:
    """Return numbers as a text with commas; None for none."""
    if value is None or isinstance(value, str | int):
        return None if value is None else str(value)
    return ",".join(map(str, value)) or None


def duration_text(value: Duration) -> str | None:
    """Return a duration as text."""
    if value is None or isinstance(value, str):
        return value
    return "0" if not value else f"{(duration_ns(value) or 0) / 1e9:.9f}"


def share_text(value: str | float) -> str:
    """Return a share as text."""
    return value if isinstance(value, str) else f"{value:.9f}"


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
