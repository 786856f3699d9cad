# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a topic contributes to the answer of a report."""

from __future__ import annotations

from swapstone.core.model import FrozenStruct
from swapstone.core.report.document import Block, Item


class Answer(FrozenStruct, frozen=True, kw_only=True):
    """The answer of a topic.

    Attributes:
        sentence: the result in plain words, with a full stop. It claims a difference only where an interval or a verdict
            excludes the margin.
        figures: the indices, as one small table.
        rows: the rows that matter most.
        rows_title: the heading above them.
        unknown: what the result leaves open, most important first.
        commands: pairs (purpose, command) that follow from the result, before those of every report.
    """

    sentence: str
    figures: tuple[Block, ...] = ()
    rows: tuple[Block, ...] = ()
    rows_title: str = ""
    unknown: tuple[Item, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
