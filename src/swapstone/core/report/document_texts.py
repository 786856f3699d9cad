# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes every text of a document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

Part = TypeVar("Part")

_NUMBERS = frozenset((int, float, bool, type(None)))


def with_texts(part: Part, change: Callable[[str], str]) -> Part:
    """Return a document, or a part of one, whose texts are changed.

    Args:
        part: a document, a block, a tuple of these, or a text; other values are returned unchanged.
        change: returns the new text.
    """
    if isinstance(part, str):
        return change(part)  # type: ignore[return-value] # a str in, a str out
    if isinstance(part, tuple):
        if _NUMBERS.issuperset(map(type, part)):  # the points of a drawing, of which there may be millions
            return part
        return tuple(with_texts(each, change) for each in part)  # type: ignore[return-value] # as above
    if isinstance(part, msgspec.Struct):
        fields = {name: with_texts(getattr(part, name), change) for name in part.__struct_fields__}
        return msgspec.structs.replace(part, **fields)
    return part
