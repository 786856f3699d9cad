# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds which elements of a set have an effect, where effects add, with few measurements. It knows nothing of flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Effect = tuple[float, ...]
"""By how much some numbers differ from those without any element."""


def plus(first: Effect, second: Effect, sign: int = 1) -> Effect:
    """Return the sum of two effects; their difference, if the sign is -1."""
    return tuple(one + sign * two for one, two in zip(first, second, strict=True))


def elements_with_effect(
    whole: Sequence[str], measured: Callable[[Sequence[str]], Effect], counts: Callable[[Effect], bool]
) -> dict[str, Effect]:
    """Return the elements with an effect, each with its own as measured alone.

    One half is measured and the other inferred, and each is divided whose effect counts: about k log2(n/k) + k measurements for k elements
    among n. An element whose inferred effect is not seen alone is left out: that part is an interaction.

    Args:
        whole: the elements in order.
        measured: measures a part of them.
        counts: whether an effect is one.
    """
    known: dict[tuple[str, ...], Effect] = {}

    def of(part: Sequence[str]) -> Effect:
        if (name := tuple(part)) not in known:
            known[name] = measured(part)
        return known[name]

    def search(part: Sequence[str], effect: Effect) -> list[str]:
        if not counts(effect):
            return []
        if len(part) == 1:
            return [*part]
        middle = len(part) // 2
        first = of(part[:middle])
        return search(part[:middle], first) + search(part[middle:], plus(effect, first, -1))

    found = {each: of([each]) for each in search(whole, of(whole))}
    return {each: effect for each, effect in found.items() if counts(effect)}
