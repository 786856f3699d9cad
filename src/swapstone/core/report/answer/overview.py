# SPDX-License-Identifier: MIT OR Apache-2.0
"""The overview of a record's report: indices, rows that matter most, what is not known, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits
from swapstone.core.report.answer.claim import Answer
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import AS_PAGE, Block, BulletList, Commands, Heading, Item, Paragraph, Tone
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import comparison_groups

UNKNOWN = "What is not known"
NEXT = "What to do next"
_MOST_COMMANDS = 4
_NO_LIMITS = ("What is measured: ", "The same work of ", "Memory at the end of ")
"""How the notes on an own program's command line and on its equal outputs begin. They limit nothing."""


def overview_of(context: ReportContext, analysis: Analysis, answer: Answer, warnings: Iterable[str]) -> Iterator[Block]:
    """Yield the blocks of an overview.

    Args:
        context: gives the record's path and its notes.
        analysis: gives caveats and failed trials.
        answer: the parts that depend on the kind of result.
        warnings: of the report's sections.
    """
    yield from answer.figures
    if answer.rows:
        yield Heading(answer.rows_title)
        yield from answer.rows
    yield from (Paragraph(text) for text in _beside(context, analysis))
    if items := tuple(_items(context, analysis, answer, warnings)):
        yield Heading(UNKNOWN)
        yield BulletList(items=items)
    yield Heading(NEXT)
    every = (
        ("every row", f"swapstone show {context.quoted_path} --all"),
        (AS_PAGE, f"swapstone report {context.quoted_path} --html"),
    )
    yield Commands(commands=(*answer.commands[: _MOST_COMMANDS - len(every)], *every))


def _beside(context: ReportContext, analysis: Analysis) -> Iterator[str]:
    """Yield what is measured, how it compares with the published page, and whether the baseline differs from its own copies."""
    yield from (note for note in context.notes if note.startswith(_NO_LIMITS))
    if context.published:
        rows = tuple(row for group in comparison_groups(context, analysis) for row in group.rows)
        if any(row.published for row in rows):
            yield f"Published figures: {sentences.against_page(rows)}"
    if context.experiment.layouts:
        yield sentences.layouts_note(context)
    yield from (f"Null comparison: {sentences.null(null, analysis)}." for null in analysis.nulls)


def _items(context: ReportContext, analysis: Analysis, answer: Answer, warnings: Iterable[str]) -> Iterator[Item]:
    yield from answer.unknown
    yield from limits.caveats(analysis)
    yield from (Item(text, tone=Tone.WARNING) for text in warnings)
    yield from limits.items(analysis)
    named = " ".join(item.text for item in answer.unknown)
    failures = [each for each in analysis.failures if not each.reason or formatting.safe(each.reason) not in named]
    if failures:
        reason = f"; the first: {formatting.safe(failures[0].reason)}" if failures[0].reason else ""
        yield Item(f"{formatting.count(len(failures), 'trial')} gave no numbers{reason}", tone=Tone.WARNING)
    yield from (Item(note) for note in context.notes if not note.startswith(_NO_LIMITS))
