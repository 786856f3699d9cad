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
    facts = context.facts
    if context.seal_digest:
        facts = (*facts, ("digest of the record", context.seal_digest))
    if not facts:
        return ()
    return (Section(title="Environment", blocks=(Facts(pairs=facts),), brief=False),)


ENVIRONMENT = Topic("environment", sections)
