# SPDX-License-Identifier: MIT OR Apache-2.0
"""Items in groups, and lists of names that are cut."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Each = TypeVar("Each")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Each], key: Callable[[Each], Key]) -> dict[Key, list[Each]]:
    """Return the items by their key. Keys, and the items of one, are in the order of the items."""
    found: dict[Key, list[Each]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def named_first(names: Sequence[str], most: int = 4) -> str:
    """Join the first names of a list, with the number of the rest."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
