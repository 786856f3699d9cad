# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a study of several parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swapstone.report.answer.limits import shortened
from swapstone.report.answer.wording import listed
from swapstone.report.formatting import count, safe

COMPLETE = "complete"


class PartAnswer(NamedTuple):
    """A part of a study: its name, its state, why it is not complete, and its answer; the last two may be empty."""

    name: str
    state: str
    reason: str
    answer: str


def sentence(parts: Sequence[PartAnswer]) -> str:
    """Return the answer of a study: which parts are missing, then the answer of the first part that has one.

    The other parts' answers follow in the overview: parts measure different things, so there is no mean of them.
    """
    missing = [part for part in parts if part.state != COMPLETE]
    opening = f"{_missing(missing, len(parts))} " if missing else ""
    first = next((part for part in parts if part.answer), None)
    if first is None:
        return f"{opening}No part has a result."
    return f"{opening}{safe(first.name)}: {first.answer}"


def _missing(missing: Sequence[PartAnswer], total: int) -> str:
    names = [f"{safe(part.name)} ({safe(part.state)})" for part in missing[:3]]
    more = len(missing) - len(names)
    text = (
        f"{len(missing)} of {count(total, 'part')} {'is' if len(missing) == 1 else 'are'} not complete: {listed(names)}"
    )
    return f"{text}{f' and {more} more' if more else ''}."


def reasons(parts: Sequence[PartAnswer]) -> tuple[str, ...]:
    """Return a sentence for each part that is not complete, with the reason."""
    return tuple(
        f"{safe(part.name)}: {safe(part.state)}" + (f": {shortened(safe(part.reason), 200)}" if part.reason else "")
        for part in parts
        if part.state != COMPLETE
    )
