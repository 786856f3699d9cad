# SPDX-License-Identifier: MIT OR Apache-2.0
"""The type of a report topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swapstone.core.model import Analysis
from swapstone.core.report.answer.claim import Answer
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section


def nothing(_context: ReportContext, _analysis: Analysis) -> tuple[Section, ...]:
    """Return no section: of a topic that only a page has, or that a page has in another form."""
    return ()


class Topic(NamedTuple):
    """One aspect of a report.

    Attributes:
        name: letters, digits and hyphens.
        order: a report prints the topics by it.
        sections: returns the sections of an analysis; none for an analysis without the aspect.
        answer: returns the claims of an analysis with the aspect, and the tables beside them, else None. Their weight decides which
            claim is the headline, not the order of the topics.
        remaining: whether `answer` gets the rows of those suites only that no other topic's answer is about.
        selective: whether its sections follow the selection of metrics in the context. Where a user selects metrics, the sections of
            other topics are left out.
        page: returns the sections of a page where they differ, e.g. a drawing that a terminal can't print; None where they don't.
    """

    name: str
    order: int
    sections: Callable[[ReportContext, Analysis], tuple[Section, ...]]
    selective: bool = False
    answer: Callable[[ReportContext, Analysis], Answer | None] | None = None
    remaining: bool = False
    page: Callable[[ReportContext, Analysis], tuple[Section, ...]] | None = None
