# SPDX-License-Identifier: MIT OR Apache-2.0
"""Failed trials: those that gave no numbers, with their reasons."""

from __future__ import annotations

from swapstone.model import Analysis
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import BulletList, Item, Section
from swapstone.report.topics.factorial_tables import failures
from swapstone.report.topics.topic import Topic

_MOST = 5
"""Number of trials in a brief report."""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section that lists the trials without numbers; none where each trial has some."""
    found = analysis.failures if context.selection.every else failures(analysis)
    if not found:
        return ()
    items = tuple(Item(f"{each.status}: {each.reason}", label=each.key, code=True) for each in found)
    title = f"{formatting.count(len(found), 'trial')} gave no numbers"
    return (Section(title=title, blocks=(BulletList(items=items, most=_MOST),)),)


FAILED_TRIALS = Topic("failed-trials", sections, selective=True)
