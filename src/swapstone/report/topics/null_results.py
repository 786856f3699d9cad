# SPDX-License-Identifier: MIT OR Apache-2.0
"""Null results: how often the baseline differs from copies of itself."""

from __future__ import annotations

from swapstone.model import Analysis
from swapstone.report.context import ReportContext
from swapstone.report.document import BulletList, Item, Paragraph, Section
from swapstone.report.topics import sentences
from swapstone.report.topics.topic import Topic


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section with an item per copy; none of an experiment without copies."""
    if not analysis.nulls:
        return ()
    baseline = analysis.comparisons[0].baseline.label if analysis.comparisons else "the baseline"
    items = tuple(
        Item(
            f"{sentences.null(each, baseline)}.",
            items=tuple(f"Index {sentences.index(index, context)}." for index in each.index),
        )
        for each in analysis.nulls
    )
    note = Paragraph("The baseline took part again in the same experiment. A difference here is a false alarm.")
    return (Section(title="The baseline against itself", blocks=(note, BulletList(items=items))),)


NULL_RESULTS = Topic("null-results", sections, selective=True)
