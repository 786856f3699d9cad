# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios in plain words.

The rules:

- A ratio from 0.9 to 1.1 is a percentage: ``3 % more memory``. It has no decimals, below 1 % two significant digits.
- A larger ratio is a multiple with two significant digits: ``1.5 times the memory``, ``12 times``. From 1.95 to 2.05 it is ``twice``.
- A smaller ratio is a fraction where one is within 5 % of it: ``half``, ``a third``, ``a quarter``, ``a fifth``, ``a tenth``, ``two
  thirds``, ``three quarters``. Otherwise it is a percentage with two significant digits: ``41 % of the memory``.
- ``faster`` and ``slower`` are about the time: ``3 % faster`` is 3 % less time. A time of two thirds of another or less is a speed:
  ``2.2 times as fast`` is 1 / 2.2 of the time.
- A ratio inside the margin is no difference. The caller decides that from the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from swapstone.core.model import number_text

NEAR = 1.1
"""Ratios from 1 / `NEAR` to `NEAR` are percentages."""

_SPEED = 2 / 3
"""Up to this ratio, a shorter time is a speed in words."""
_TWICE = (1.95, 2.05)
_FRACTIONS = (
    (3 / 4, "three quarters"),
    (2 / 3, "two thirds"),
    (1 / 2, "half"),
    (1 / 3, "a third"),
    (1 / 4, "a quarter"),
    (1 / 5, "a fifth"),
    (1 / 10, "a tenth"),
)
_TOLERANCE = 0.05


def percent(share: float) -> str:
    """Return a share of 0 or more as a percentage: without decimals from 1 % on, with two significant digits below."""
    if share >= 0.0095:
        return f"{share * 100:.0f} %"
    return number_text.percent(share) if share >= 0.00001 else "less than 0.001 %"


def multiple(ratio: float) -> str:
    """Return a ratio of 1.1 or more as ``twice``, ``1.5 times`` or ``12 times``."""
    if _TWICE[0] <= ratio < _TWICE[1]:
        return "twice"
    return f"{_two_digits(ratio)} times"


def fraction(ratio: float) -> str:
    """Return a ratio below 1 as ``half``, ``a third`` or ``41 %``."""
    for value, words in _FRACTIONS:
        if abs(ratio / value - 1) <= _TOLERANCE:
            return words
    return f"{_two_digits(ratio * 100)} %"


def is_near(ratio: float) -> bool:
    """Return whether a ratio is a percentage in words."""
    return 1 / NEAR < ratio < NEAR


def duration(ratio: float, other: str = "") -> str:
    """Return how long something takes, as a phrase with its verb.

    Args:
        ratio: of two times, above 0.
        other: what it is compared with; empty if the sentence has named it.

    Returns:
        For example ``is 3 % slower than glibc``, ``takes 2.5 times as long as glibc``, ``takes 15 % less time than glibc``, ``is twice as
        fast as glibc``.
    """
    if is_near(ratio):
        return f"is {percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'}{after('than', other)}"
    if _SPEED < ratio < 1:
        return f"takes {percent(1 - ratio)} less time{after('than', other)}"
    text = f"takes {multiple(ratio)} as long" if ratio > 1 else f"is {multiple(1 / ratio)} as fast"
    return text + after("as", other)


def amount(ratio: float, noun: str, other: str = "", *, counted: bool = False) -> str:
    """Return an amount as a phrase without a verb.

    Args:
        ratio: of two amounts, above 0.
        noun: what is measured, e.g. ``memory``.
        other: what it is compared with; empty if the sentence has named it.
        counted: whether the noun is a plural: ``fewer requests``, not ``less``.

    Returns:
        For example ``3 % more memory than glibc``, ``a third of the memory of glibc``, ``twice the memory``.
    """
    if is_near(ratio):
        word = "more" if ratio > 1 else "fewer" if counted else "less"
        rate = f"a rate {percent(abs(ratio - 1))} {'higher' if ratio > 1 else 'lower'}"
        return (rate if noun == "rate" else f"{percent(abs(ratio - 1))} {word} {noun}") + after("than", other)
    words = multiple(ratio) if ratio > 1 else fraction(ratio)
    return f"{words} {'of ' * (ratio < 1 and words != 'half')}the {noun}{after('of', other)}"


def between(low: float, high: float) -> str:
    """Return an interval of ratios of times: ``between 1 % faster and 3 % slower``, ``between 1.1 and 1.5 times as long``."""
    if is_near(low) and is_near(high):
        sides = [f"{percent(abs(bound - 1))} {'slower' if bound >= 1 else 'faster'}" for bound in (low, high)]
        return f"between {sides[0]} and {sides[1]}"
    return f"between {_two_digits(low)} and {_two_digits(high)} times as long"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return names as a list in a sentence: ``regex, strings and threads``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


_WORDS = ("a ", "against ", "no ", "the ", "too ", "with ", "whether ")


def sentence_case(text: str) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with a name such as ``musl``."""
    return text[:1].upper() + text[1:] if text.startswith(_WORDS) else text


def _two_digits(value: float) -> str:
    """Return a number with two significant digits, without an exponent and without zeros at its end."""
    if value <= 0 or not math.isfinite(value):
        return "0" if value == 0 else "?"
    decimals = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    text = f"{float(f'{value:.1e}'):.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def after(word: str, other: str) -> str:
    """Return a word and what it leads to, with a blank before them: `` than glibc``; empty without the latter."""
    return f" {word} {other}" if other else ""
