# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls of functions, comparable between variants: C libraries have other names for one function, and lists of functions are cut off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from swapstone.core.model import FrozenStruct
from swapstone.parts.explain.model.explanation import LISTED_FUNCTIONS, OWN_OBJECT, Count, Frame

_DECORATION = re.compile(
    r"(?:__GI_|__libc_|__)?(?P<name>[A-Za-z]\w*?)(?:_(?:avx|evex|sse|ssse|erms|unaligned|aligned|generic|impl|small|back)\w*)?"
)
_ALIASES = {"memmove": "memcpy", "mempcpy": "memcpy", "cfree": "free", "rawmemchr": "memchr", "strchrnul": "strchr"}


class Calls(FrozenStruct, frozen=True, kw_only=True):
    """Calls of a function per operation.

    Attributes:
        name: of the function, without what distinguishes its variants in a library.
        frame: one of its names, with the object.
        baseline, candidate: number of calls; an upper bound for a variant whose list is cut off before it.
        bounded: whether one of them is a bound.
    """

    name: str
    frame: Frame
    baseline: float
    candidate: float
    bounded: bool


def plain_name(symbol: str) -> str:
    """Return a function's name without prefixes and suffixes of its variants: ``strlen`` for ``__strlen_avx2``."""
    found = _DECORATION.fullmatch(symbol)
    name = found["name"] if found else symbol
    return _ALIASES.get(name, name)


def calls(counts: Sequence[Count]) -> tuple[Calls, ...]:
    """Return the calls of each function in the counts of the group ``calls``.

    Of several names of a function in one variant the largest count is taken: they may call each other.
    """
    frames: dict[str, Frame] = {}
    sides: tuple[dict[str, float], dict[str, float]] = ({}, {})
    listed = [0, 0]
    for count in counts:
        symbol, _, where = count.name.partition(" (")
        if count.group != "calls" or symbol.startswith("0x"):  # an address is no name that two variants could share
            continue
        name = plain_name(symbol)
        frames.setdefault(name, Frame(symbol=symbol, object=where.removesuffix(")") or OWN_OBJECT))
        for number, value in enumerate((count.baseline, count.candidate)):
            if value:
                listed[number] += 1
                sides[number][name] = max(value, sides[number].get(name, 0.0))
    rest = [_bound(side, length) for side, length in zip(sides, listed, strict=True)]
    return tuple(
        Calls(
            name=name,
            frame=frame,
            baseline=sides[0].get(name, rest[0]),
            candidate=sides[1].get(name, rest[1]),
            bounded=any(name not in side and bound > 0 for side, bound in zip(sides, rest, strict=True)),
        )
        for name, frame in frames.items()
    )


def _bound(side: Mapping[str, float], length: int) -> float:
    """Return how often a function that is not in the list of a variant was called at most."""
    return min(side.values()) if length >= LISTED_FUNCTIONS else 0.0
