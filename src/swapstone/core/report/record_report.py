# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of a record: a document made of the sections of every topic.

Its overview has indices, the rows that matter most, what is not known, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from swapstone.core.model import FAMILY_CORRECTION, REPORT_CORRECTION, TAIL_RULES, Analysis, shown_levels
from swapstone.core.report import formatting, topics
from swapstone.core.report.answer import limits
from swapstone.core.report.answer.claim import Answer
from swapstone.core.report.answer.conclusion import conclude
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    AS_PAGE,
    Block,
    BulletList,
    Commands,
    Document,
    Fold,
    Heading,
    Item,
    Paragraph,
    Section,
    Tone,
    notes_of,
)
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import comparison_groups
from swapstone.core.report.topics.factorial_tables import is_crossed

_HOW_TO_READ = (
    "A ratio is candidate over baseline, estimated over pairs of runs of the same block (Hodges-Lehmann). Its interval is corrected for "
    "the number of comparisons ({correction}).",
    "Equivalent: the whole interval is within the margin. Better and worse: the interval excludes no difference; which of the two "
    "depends on the metric. Inconclusive: neither; the note below the table gives the smallest change that would be detected. Invalid: "
    "the program that ran was not the one that the experiment requires. Exact: every run gave the same number.",
)
_HOW_TO_READ_WORDS = (
    "A ratio is candidate over baseline, estimated over pairs of runs of the same block (Hodges-Lehmann); it describes the median run. A "
    "ratio of means counts every run, also rare slow ones. {correction}",
    "Better and worse: the median differs; which of the two depends on the metric. Equivalent: the intervals of the median's and of the "
    "means' ratio are within the margin, and a separate slow mode of 5 % of the runs would have shown. Same median: only the median's "
    "is. Worse tail and better tail: the median is the same or undecided, and rare runs differ. Mixed: median and mean differ in opposite "
    "directions. Inconclusive: none of these is shown; the note below the table gives the smallest change that would be detected.",
    "Disturbed: the machine did not give the work the processors that it needs. Invalid: the runs don't compare the two levels; the "
    "reason is printed. Exact: every run gave the same number. An interval with {mark} is the range of all pairs, of which each has the "
    "same sign: they are too few for another.",
)
_HOW_TO_READ_EXACT = (
    "A difference with a sign, such as +0.43 %, is exact, and behind it is its range over the pairs. It is stated where it exceeds three "
    "floors with one sign in all pairs; a floor is how far the same work may differ. Below margin: so it does, inside the margin. "
    "Equivalent: it is inside the margin in each of these pairs; others may differ.",
)
_HOW_TO_READ_VALUES = (
    "A value is the median of all runs but the warm-up and the discarded ones. Its interval has two of the runs as its ends, and contains "
    "the true median with {confidence} if runs are independent.",
    "The reference program ran in turn with it. With --against, a later session measures both again, and a difference counts only beyond "
    "that of the reference program.",
)
_CORRECTIONS = {
    REPORT_CORRECTION: "All rows and indices of this report are one family ({correction}): at most {share} of reports without any "
    "difference contain a mark. Where more rows differ, each needs less evidence, and its interval is narrower.",
    FAMILY_CORRECTION: "Its interval is corrected for the number of comparisons in its family, the rows of one quantity ({correction}).",
}
_HOW_TO_READ_CROSSED = (
    "A main effect is the mean over the other factors' levels. An interaction is the first level's ratio with the second, over its ratio "
    "without it: 1 means that the two multiply. Present: its interval excludes 1 and reaches beyond the margin. Absent: the whole "
    "interval is within the margin. Undecided: neither. Interactions are those of two factors; further factors are averaged over.",
)


_UNKNOWN = "What is not known"
_NEXT = "What to do next"
_MOST_COMMANDS = 4
_NO_LIMITS = ("What is measured: ", "Levels in full: ", "The same work of ", "Memory at the end of ", "Output of ")
"""How the notes on an own program's command line and on its equal outputs begin. They limit nothing."""


def _overview(context: ReportContext, analysis: Analysis, answer: Answer, warnings: Iterable[str]) -> Iterator[Block]:
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
    if items := tuple(_unknown(context, analysis, answer, warnings)):
        yield Heading(_UNKNOWN)
        yield BulletList(items=items)
    yield Heading(_NEXT)
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


def _unknown(context: ReportContext, analysis: Analysis, answer: Answer, warnings: Iterable[str]) -> Iterator[Item]:
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


def document_of(context: ReportContext, analysis: Analysis) -> Document:
    """Return the report of an analysis.

    Args:
        context: what a report prints and no comparison holds; its selection chooses the metrics.
        analysis: of the record.
    """
    found = [(topic, topic.sections(context, analysis)) for topic in topics.all_topics()]
    selected = bool(context.selection.metrics)
    shown = tuple(section for topic, sections in found if topic.selective or not selected for section in sections)
    busy = analysis.noise.busy
    answer = whole_answer(context, analysis)
    every = [section for _, sections in found for section in sections]
    warnings = tuple(dict.fromkeys(text for section in every for text in section.warnings))
    return Document(
        kicker=context.experiment.name,
        title="; ".join(
            f"{each.factor}: {', '.join(shown[1:])} against {shown[0]}"
            if shown[1:]
            else context.experiment.workloads[0][1]
            for each in context.experiment.factors
            for shown in (shown_levels(each.levels),)
        ),
        lead=(sentences.effort(context, analysis),),
        notices=tuple(_notices(context, analysis, warnings)),
        warning=busy,
        answer=answer.sentence,
        overview=() if selected else tuple(_overview(context, analysis, answer, warnings)),
        sections=shown,
        page_sections=tuple(
            section
            for topic, sections in found
            if topic.selective or not selected
            for section in (sections if topic.page is None else topic.page(context, analysis))
        ),
        closing=tuple(_closing(context, analysis)),
        version=context.version,
    )


def answer_of(context: ReportContext, analysis: Analysis) -> str:
    """Return the answer of a record's report: the result in one or two sentences."""
    return whole_answer(context, analysis).sentence


def sections_of(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections that have a table for programs, in the order in which a report prints them."""
    return tuple(
        section for topic in topics.all_topics() for section in topic.sections(context, analysis) if section.name
    )


def described(sections: Iterable[Section]) -> list[dict[str, object]]:
    """Return each section's name, title, data, notes and warnings: an ``exhibit``, as the JSON report calls it."""
    return [
        {
            "name": each.name,
            "title": each.title,
            "data": each.data,
            "notes": notes_of(each),
            "flags": each.warnings,
        }
        for each in sections
    ]


def _notices(context: ReportContext, analysis: Analysis, warnings: Iterable[str]) -> Iterator[Item]:
    """Yield what limits the results: the machine, caveats, and warnings of sections."""
    yield Item(sentences.machine(context, analysis), tone=Tone.WARNING if analysis.noise.busy else Tone.PLAIN)
    caveats = (f"{caveat.message} {caveat.hint}".rstrip() for caveat in analysis.caveats)
    yield from (Item(text, tone=Tone.WARNING) for text in (*caveats, *warnings))
    yield from map(Item, context.notes)


def whole_answer(context: ReportContext, analysis: Analysis) -> Answer:
    """Return the answer of all topics. Those for remaining rows get what the others' answers are not about."""
    answering = [(topic.answer, topic.remaining) for topic in topics.all_topics() if topic.answer is not None]
    answers = [found for answer, rest in answering if not rest and (found := answer(context, analysis)) is not None]
    suites = {suite for each in answers for suite in each.suites}
    left = msgspec.structs.replace(
        analysis,
        comparisons=tuple(each for each in analysis.comparisons if each.suite not in suites),
        indices=tuple(each for each in analysis.indices if each.suite not in suites),
        effects=tuple(each for each in analysis.effects if each.suite not in suites),
        interactions=tuple(each for each in analysis.interactions if each.suite not in suites),
    )
    answers += [found for answer, rest in answering if rest and (found := answer(context, left)) is not None]
    return conclude(context, analysis, answers)


def _legend(context: ReportContext, analysis: Analysis) -> Iterator[str]:
    """Yield what the words of verdicts and the intervals mean, by the rules of the experiment."""
    experiment = context.experiment
    if experiment.rules < TAIL_RULES:
        yield from (text.format(correction=analysis.correction) for text in _HOW_TO_READ)
        return
    if experiment.alone:
        yield from (text.format(confidence=formatting.percent(experiment.confidence)) for text in _HOW_TO_READ_VALUES)
        return
    share = formatting.percent(1 - experiment.confidence)
    about = _CORRECTIONS.get(experiment.correction, "").format(correction=analysis.correction, share=share)
    yield from (text.format(correction=about, mark=formatting.BOUNDED) for text in _HOW_TO_READ_WORDS)


def _closing(context: ReportContext, analysis: Analysis) -> Iterator[Section]:
    path = context.quoted_path
    commands = (
        ("every metric", "" if context.selection.every else f"swapstone show {path} --all"),
        (AS_PAGE, f"swapstone report {path} --html"),
        ("why it differs", context.explain),
        ("once more", context.rerun),
    )
    texts = (
        *_legend(context, analysis),
        *(_HOW_TO_READ_EXACT if any(map(formatting.is_exact, analysis.comparisons)) else ()),
        *(_HOW_TO_READ_CROSSED if is_crossed(analysis) else ()),
    )
    how = Fold(summary="How to read this report", blocks=tuple(map(Paragraph, texts)), brief=False)
    yield Section(
        title=f"Record {context.record_id}: {path}",
        blocks=(Commands(commands=tuple(each for each in commands if each[1])), how),
    )
