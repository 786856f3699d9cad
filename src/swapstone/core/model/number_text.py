# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as text: digits, units and shares. Everything that is printed for people gets its digits here.

The number of digits follows from the width of an interval, if there is one, else from the unit: three significant digits, and 0 for what is
smaller than the unit's resolution. No text has an exponent, and none is a negative zero.
"""

from __future__ import annotations

import math

_STEPS = {
    "ns": ((1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")),
    "B": ((1.0, "B"), (1024.0, "KiB"), (1024.0**2, "MiB"), (1024.0**3, "GiB")),
    "1": ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")),
    "B/s": ((1.0, "B/s"), (1024.0, "KiB/s"), (1024.0**2, "MiB/s"), (1024.0**3, "GiB/s")),
    "1/s": ((1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")),
}
RESOLUTION = {"ns": 1e-3, "B": 1e-2, "B/s": 1e-2, "1": 1e-6, "1/s": 1e-6}
"""What is smaller in one of these units is the rounding error of a difference or a mean of doubles, and is printed as 0."""
_SMALLEST = 1e-12
"""The same for a number without a known unit."""
_LARGEST = 1e30
"""Nothing measured is larger; such a number, an infinity or no number is printed as a question mark."""
_SMALLEST_PERCENT = 1e-3
_MOST_DECIMALS = 3
"""Of a ratio of 0.1 or more; a smaller ratio has three significant digits."""


def fixed(value: float, decimals: int) -> str:
    """Return a number with this many decimals; never a negative zero."""
    text = f"{value:.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _magnitude(value: float) -> int:
    """Return the power of ten of a number other than 0."""
    return math.floor(math.log10(abs(value)))


def digits(value: float, significant: int = 3) -> str:
    """Return a number with `significant` digits, without an exponent and without digits beyond them."""
    if not abs(value) < _LARGEST:
        return "?"
    if abs(value) < _SMALLEST:
        return "0"
    value = float(f"{value:.{significant - 1}e}")
    decimals = max(0, significant - 1 - _magnitude(value))
    text = fixed(value, decimals)
    return trimmed(text) if decimals > significant + 2 else text


def trimmed(text: str) -> str:
    """Return a number without zeros at the end of its decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def decimals_for(width: float) -> int:
    """Return the decimals that show the half-width of an interval with two significant digits, as the GUM (7.2.6) recommends.

    Args:
        width: the half-width, above 0.

    Returns:
        0 or more.
    """
    return max(0, 1 - _magnitude(width))


def quantity(value: float, unit: str, width: float = 0.0, significant: int = 3) -> str:
    """Return a value with its unit at a readable scale.

    Args:
        value: in `unit`.
        unit: ``ns``, ``B``, ``B/s``, ``1``, ``1/s``, or another, which is printed unchanged.
        width: half-width of the interval that belongs to the value, in `unit`; 0 for none.
        significant: digits without an interval.

    Returns:
        For example ``155 ms``, ``38.1 MiB``, ``71.2 k``.
    """
    steps = _STEPS.get(unit, ((1.0, unit),))
    if abs(value) < RESOLUTION.get(unit, 0.0):
        value = 0.0
    factor, name = steps[0]
    for bigger, its_name in steps[1:]:
        # 999.5 would round to 1000 of the smaller unit.
        if abs(value) >= bigger * 0.9995:
            factor, name = bigger, its_name
    return f"{_scaled(value / factor, width / factor, significant)} {name}".rstrip()


def _scaled(value: float, width: float, significant: int) -> str:
    if not abs(value) < _LARGEST:
        return "?"
    if value == int(value) and abs(value) < 10_000:
        return fixed(value, 0)
    if width <= 0 or not math.isfinite(width):
        return digits(value, significant)
    # Not more than four significant digits, however narrow the interval is.
    most = max(0, 3 - _magnitude(value)) if abs(value) >= _SMALLEST else _MOST_DECIMALS
    return fixed(value, min(decimals_for(width), most))


def ratio(value: float, width: float = 0.0) -> str:
    """Return a ratio: three decimals around 1 and three significant digits far from it, or fewer with a wide interval.

    Args:
        value: 0 or more.
        width: half-width of its interval; 0 for none.
    """
    if not abs(value) < _LARGEST:
        return "?"
    if value < 0.1:
        most = 2 - _magnitude(value) if value >= _SMALLEST else 0
    else:
        most = _MOST_DECIMALS if value < 9.9995 else 2 if value < 99.995 else 1
    if width <= 0 or not math.isfinite(width):
        return digits(value) if value < 0.1 else fixed(value, most)
    return fixed(value, min(decimals_for(width), most))


EXACT_DIGITS = 4
"""Significant digits of an exact effect."""


def exact_effect(value: float, unit: str = "") -> str:
    """Return an exact effect with its sign and four significant digits, e.g. ``+0.4303 %``, ``+2``, ``-1.284 us``, ``3.127 times``.

    Args:
        value: a ratio, or a difference in `unit`.
        unit: empty for a ratio, which is a percentage up to half and twice.
    """
    if not unit and not 0.5 <= value <= 2:
        return f"{digits(value, EXACT_DIGITS)} times"
    text = quantity(value, unit, significant=EXACT_DIGITS) if unit else f"{digits(100 * (value - 1), EXACT_DIGITS)} %"
    return text if text.startswith(("-", "0 ")) or text == "0" else f"+{text}"


def percent(share: float) -> str:
    """Return a share as a percentage with two significant digits, e.g. ``2 %`` or ``0.51 %``.

    Between 90 % and 100 % the rest to 100 % has one significant digit, so that ``99.5 %`` is not ``100 %``.
    """
    value = share * 100
    if not abs(value) < _LARGEST:
        return "?"
    if abs(value) < _SMALLEST_PERCENT:
        return "0 %"
    near = 90 <= value < 100 - _SMALLEST_PERCENT
    return f"{trimmed(fixed(value, -_magnitude(100 - value)) if near else digits(value, 2))} %"


def share_with_interval(share: float, low: float, high: float) -> str:
    """Return a share with its interval, e.g. ``12 % (7.1–19 %)``."""  # noqa: RUF002 - a dash between numbers
    return f"{percent(share)} ({percent(low).removesuffix(' %')}–{percent(high)})"  # noqa: RUF001 - a dash between numbers


_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size_bytes: int) -> str:
    """Return a size of memory: ``96 MiB``, ``5.25 MiB``, ``768 KiB``. GiB are used for whole ones alone."""
    for factor, name in _UNITS:
        if size_bytes >= factor and (name != "GiB" or size_bytes % factor == 0):
            return (
                f"{round(size_bytes / factor, 2):g} {name}"
                if size_bytes < 1000 * factor
                else f"{size_bytes // factor} {name}"
            )
    return f"{size_bytes} B"
