# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode callgrind's output (format version 1, one position, at most 16 events)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from swapstone.core.model import UserError

_NAMED = re.compile(r"(fn|cfn|ob|cob|fl|fi|fe|cfi|cfl)=(?:\(([0-9]+)\)(?: (.*))?|(.+))$")
_COST = re.compile(r"(?:[+\-]?[0-9]+|\*|0x[0-9a-f]+) ([0-9]{1,19})((?: [0-9]{1,19}){0,15})$")
_CALLS = re.compile(r"calls=([0-9]{1,19})(?: |$)")
_TABLE = {
    "fn": "fn",
    "cfn": "fn",
    "ob": "ob",
    "cob": "ob",
    "fl": "fl",
    "fi": "fl",
    "fe": "fl",
    "cfi": "fl",
    "cfl": "fl",
}
_CALLEE = ("cfn", "cob", "cfi", "cfl")


@dataclasses.dataclass(frozen=True)
class OwnCost:
    """Instructions of a line of a function, without those of the functions that it calls.

    Attributes:
        object: path of the object; empty if unknown.
        function: its name, followed by its callers after apostrophes with ``--separate-callers``.
        file: source file; of inlined code, that of the inlined function. Empty if unknown.
        instructions: their number; the first event of the file.
        others: numbers of the other events, by the names in the file's line ``events:``; those that are 0 may be missing.
    """

    object: str
    function: str
    file: str
    instructions: int
    others: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Calls:
    """Calls of a function from one place.

    Attributes:
        object: path of the called function's object.
        function: name of the called function.
        count: number of calls.
    """

    object: str
    function: str
    count: int


def records(lines: Iterable[str]) -> Iterator[OwnCost | Calls]:
    """Decode the lines of a callgrind output file.

    Args:
        lines: of the file.

    Yields:
        The own costs and the calls, in the file's order.

    Raises:
        UserError: a line of calls has no number.
    """
    names: dict[tuple[str, str], str] = {}
    now = {"fn": "", "ob": "", "fl": "", "cfn": "", "cob": ""}
    events: list[str] = []
    inclusive = False
    for raw in lines:
        line = raw.rstrip()
        named = _NAMED.match(line)
        if named is not None:
            kind, number, text, whole = named.groups()
            if text is not None:
                names[_TABLE[kind], number] = text
            name = whole if number is None else names.get((_TABLE[kind], number), "")
            now[kind if kind in _CALLEE else _TABLE[kind]] = name
            if kind == "fn":
                now["cob"] = ""
        elif line.startswith("events: "):
            events = line.split()[2:18]
        elif line.startswith("calls="):
            calls = _CALLS.match(line)
            if calls is None:
                raise UserError(f"callgrind's output is damaged: {line[:60]!r} has no number of calls.")
            yield Calls(now["cob"] or now["ob"], now["cfn"], int(calls[1]))
            inclusive, now["cob"] = True, ""
        elif (cost := _COST.match(line)) is not None:
            if not inclusive:
                others = dict(zip(events, map(int, cost[2].split()), strict=False))
                yield OwnCost(now["ob"], now["fn"], now["fl"], int(cost[1]), others)
            inclusive = False


def total(text: str) -> int | None:
    """Return callgrind's own total of instructions; None if the file is incomplete.

    Args:
        text: content of the file.
    """
    found = re.search(r"^totals: ([0-9]{1,19})(?: [0-9]{1,19})*$", text, re.MULTILINE)
    return None if found is None else int(found[1])
