# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that users write as text: durations, shares and confidence levels."""

from __future__ import annotations

import datetime
import re
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
