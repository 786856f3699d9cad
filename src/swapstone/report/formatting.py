# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers with units, ratios, times, and text from outside, for every output format."""

from __future__ import annotations

import datetime
import math
import unicodedata

from swapstone.model import Comparison, FactorEffect, Interaction, Scale

Judged = Comparison | FactorEffect | Interaction
"""A result with a metric, an effect, its scale and its interval."""

_STEPS = {
    "ns": ((1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")),
    "B": ((1.0, "B"), (1024.0, "KiB"), (1024.0**2, "MiB"), (1024.0**3, "GiB")),
    "1": ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")),
    "B/s": ((1.0, "B/s"), (1024.0, "KiB/s"), (1024.0**2, "MiB/s"), (1024.0**3, "GiB/s")),
    "1/s": ((1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")),
}
# Categories of characters that could steer a terminal or reorder a line: controls, formats, surrogates, private use, separators.
_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe(text: str) -> str:
    r"""Return text from outside with every character made visible that could steer a terminal or reorder a line.

    Args:
        text: anything.

    Returns:
        One line; an escape character becomes ``\x1b``, a right-to-left override ``\u202e``.
    """

    def shown(char: str) -> str:
        if unicodedata.category(char) not in _STEERING:
            return char
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return "".join(map(shown, text))


def digits(value: float, significant: int = 3) -> str:
    """Return a number with `significant` digits, without an exponent and without digits beyond them."""
    if not math.isfinite(value):
        return "?"
    if value == 0:
        return "0"
    value = float(f"{value:.{significant - 1}e}")
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(0, significant - 1 - magnitude)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals > significant + 2 else text


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit at a readable scale.

    Args:
        value: in `unit`.
        unit: ``ns``, ``B``, ``B/s``, ``1``, ``1/s``, or another, which is printed unchanged.

    Returns:
        For example ``155 ms``, ``38.1 MiB``, ``71.2 k``.
    """
    steps = _STEPS.get(unit)
    if steps is None:
        return f"{digits(value)} {safe(unit)}"
    factor, name = steps[0]
    for bigger, its_name in steps[1:]:
        # 999.5 would round to 1000 of the smaller unit.
        if abs(value) >= bigger * 0.9995:
            factor, name = bigger, its_name
    scaled = value / factor
    number = f"{scaled:.0f}" if math.isfinite(scaled) and scaled == int(scaled) else digits(scaled)
    return f"{number} {name}".rstrip()


def ratio(value: float) -> str:
    """Return a ratio: three decimals around 1, three significant digits far from it."""
    if not math.isfinite(value):
        return "?"
    if 0.1 <= value < 9.9995:
        return f"{value:.3f}"
    return digits(value) if value < 1 else f"{value:.{2 if value < 99.995 else 1}f}"


def effect(value: float, comparison: Judged) -> str:
    """Return an effect (or a bound of its interval) of a comparison, on the comparison's scale."""
    if comparison.scale is Scale.RATIO:
        return ratio(value)
    text = quantity(value, comparison.metric.unit)
    return text if value < 0 or text.startswith("0") else f"+{text}"


def interval(comparison: Judged) -> str:
    """Return a comparison's interval as two bounds with a dash, or an empty text without one."""
    if comparison.low is None or comparison.high is None or comparison.exact:
        return ""
    dash = " to " if comparison.scale is Scale.DIFFERENCE else "–"  # noqa: RUF001 - a dash between numbers
    return f"{effect(comparison.low, comparison)}{dash}{effect(comparison.high, comparison)}"


def smallest(comparison: Judged) -> str:
    """Return the minimum detectable effect as ``3.1 %`` or in the metric's unit; empty where unknown."""
    value = comparison.smallest_visible
    if value is None:
        return ""
    return percent(value - 1) if comparison.scale is Scale.RATIO else quantity(value, comparison.metric.unit)


def percent(share: float) -> str:
    """Return a share as a percentage with two significant digits, e.g. ``2 %`` or ``0.51 %``."""
    value = share * 100
    if not math.isfinite(value):
        return "?"
    text = digits(value, 2)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def moment(unix_ns: int) -> str:
    """Return a time in UTC to the minute, or ``unknown`` for 0."""
    if not unix_ns:
        return "unknown"
    return datetime.datetime.fromtimestamp(unix_ns / 1e9, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def span(nanoseconds: int) -> str:
    """Return a duration as ``2 min 3 s``."""
    seconds = round(nanoseconds / 1e9)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{number} {name}" for number, name in parts if number]
    return " ".join(shown) or "0 s"


def count(number: int, one: str, many: str = "") -> str:
    """Return ``1 block`` or ``2 blocks``."""
    return f"{number} {one if number == 1 else many or one + 's'}"
