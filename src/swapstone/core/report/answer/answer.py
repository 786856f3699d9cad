# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a topic contributes to the answer of a report: claims, and tables beside them."""

from __future__ import annotations

from swapstone.core.model import FrozenStruct
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.document import Block, Item


class Answer(FrozenStruct, frozen=True, kw_only=True):
    """The answer of a topic, or of a whole report.

    Attributes:
        claims: the results; none where nothing was measured.
        suites: whose rows the claims are about: topics with `Topic.remaining` answer for the others. Those leave it empty.
        sentence: of a whole report, the result in plain words, with a full stop.
        figures: the indices, as one small table.
        rows: the rows that matter most.
        rows_title: the heading above them.
        unknown: what the result leaves open, most important first.
        commands: pairs (purpose, command) that follow from the result, before those of every report.
    """

    claims: tuple[Claim, ...] = ()
    suites: tuple[str, ...] = ()
    sentence: str = ""
    figures: tuple[Block, ...] = ()
    rows: tuple[Block, ...] = ()
    rows_title: str = ""
    unknown: tuple[Item, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
