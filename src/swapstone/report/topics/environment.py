# SPDX-License-Identifier: MIT OR Apache-2.0
"""Environment: the machine, the tools and the programs of an experiment."""

from __future__ import annotations

from swapstone.model import Analysis
from swapstone.report.context import ReportContext
from swapstone.report.document import Facts, Section
from swapstone.report.topics.topic import Topic


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section of facts; none without facts. A brief report leaves it out."""
    del analysis
    if not context.facts:
        return ()
    return (Section(title="Environment", blocks=(Facts(pairs=context.facts),), brief=False),)


ENVIRONMENT = Topic("environment", sections)
