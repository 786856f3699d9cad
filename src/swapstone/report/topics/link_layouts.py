# SPDX-License-Identifier: MIT OR Apache-2.0
"""Link layouts: how far links of the same code differ."""

from __future__ import annotations

from swapstone.model import Analysis
from swapstone.report.context import ReportContext
from swapstone.report.document import BulletList, Item, Paragraph, Section
from swapstone.report.topics import sentences
from swapstone.report.topics.topic import Topic

_MOST = 6
"""Number of spreads in a brief report."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section with the spreads of links, the largest first; none of an experiment without layouts."""
    spreads = sentences.layouts(analysis)
    if not spreads:
        return ()
    items = tuple(Item(f"{sentences.layout(each)}.") for each in spreads)
    blocks = (Paragraph(sentences.layouts_note(context)), BulletList(items=items, most=_MOST, rest="that differ less"))
    return (Section(title="Layouts: other links of the same code", blocks=blocks),)


LINK_LAYOUTS = Topic("link-layouts", sections, selective=True)
