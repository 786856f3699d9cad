# SPDX-License-Identifier: MIT OR Apache-2.0
"""Topics that are a list: copies of the baseline, links of the same code, trials without numbers, and the environment's facts."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import BulletList, Facts, Item, Paragraph, Section
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.factorial_tables import failures
from swapstone.core.report.topics.topic import Topic


def _section(
    title: str, items: Iterable[Item], *, note: str = "", most: int = 0, rest: str = "more"
) -> tuple[Section, ...]:
    """Return a section with a list below a note; none without items. A brief report prints `most` of them, 0 for all."""
    found = BulletList(items=tuple(items), most=most, rest=rest)
    return (Section(title=title, blocks=(*((Paragraph(note),) if note else ()), found)),) if found.items else ()


def null_results(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return how often the baseline differs from copies of itself; nothing of an experiment without copies."""
    return _section(
        "The baseline against itself",
        (
            Item(
                f"{sentences.null(each, analysis)}.",
                items=tuple(f"Index {sentences.index(index, context)}." for index in each.index),
            )
            for each in analysis.nulls
        ),
        note="The baseline took part again in the same experiment. A difference here is a false alarm.",
    )


def link_layouts(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return how far links of the same code differ, the largest spread first; nothing of an experiment without layouts."""
    return _section(
        "Layouts: other links of the same code",
        (Item(f"{sentences.layout(each)}.") for each in sentences.layouts(analysis)),
        note=sentences.layouts_note(context),
        most=6,
        rest="that differ less",
    )


def failed_trials(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the trials without numbers, with their reasons; nothing where each trial has some."""
    found = analysis.failures if context.selection.every else failures(analysis)
    return _section(
        f"{formatting.count(len(found), 'trial')} gave no numbers",
        (Item(f"{each.status}: {each.reason}", label=each.key, code=True) for each in found),
        most=5,
    )


def environment(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the machine, the tools and the programs of an experiment; nothing without facts. A brief report leaves it out."""
    del analysis
    seal = (("digest of the record", context.seal_digest),) if context.seal_digest else ()
    facts = Facts(pairs=(*context.facts, *seal))
    return (Section(title="Environment", blocks=(facts,), brief=False),) if facts.pairs else ()


NULL_RESULTS = Topic("null-results", 170, null_results, selective=True)
LINK_LAYOUTS = Topic("link-layouts", 180, link_layouts, selective=True)
FAILED_TRIALS = Topic("failed-trials", 200, failed_trials, selective=True)
ENVIRONMENT = Topic("environment", 220, environment)
