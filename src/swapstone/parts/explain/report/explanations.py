# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explanations: why rows differ, as far as `swapstone explain` found out."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.core.model import Analysis
from swapstone.core.report.context import ExplanationSummary, ReportContext
from swapstone.core.report.document import (
    Block,
    BulletList,
    Heading,
    Item,
    Links,
    Paragraph,
    Section,
)
from swapstone.core.report.tables import text_table
from swapstone.core.report.topics.topic import Topic

TITLE = "Why"
FOLDER = "explain"
"""The folder of a record with its explanations."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section of what was explained; where nothing was, one with the command."""
    del analysis
    if context.reasons:
        return (Section(title=TITLE, blocks=tuple(block for each in context.reasons for block in _blocks(each))),)
    if context.explain:
        return (
            Section(
                title=TITLE,
                blocks=(Paragraph(f"No row has been explained yet: {context.explain}"),),
                brief=False,
            ),
        )
    return ()


def _blocks(each: ExplanationSummary) -> Iterator[Block]:
    yield Heading(each.title)
    yield Paragraph(each.paragraph)
    if each.evidence:
        yield BulletList(items=tuple(Item(cause, items=evidence) for cause, evidence in each.evidence))
    if each.ledger:
        yield text_table(f"Difference of {each.title}", each.ledger[0], each.ledger[1:])
    if each.pages:
        yield Links(links=tuple((what, where) for where, what in each.pages))


EXPLANATIONS = Topic("explanations", 150, sections)
