# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of a record: a document made of the sections of every topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapstone.model import Analysis, Index
from swapstone.report import formatting, topics
from swapstone.report.context import ReportContext
from swapstone.report.document import (
    Block,
    Commands,
    Document,
    Figure,
    Fold,
    Item,
    KeyFigures,
    Paragraph,
    Section,
    Tone,
)
from swapstone.report.topics import sentences
from swapstone.report.topics.comparison_groups import comparison_groups, title
from swapstone.report.topics.factorial_tables import crossed_metrics, headlines, is_crossed
from swapstone.report.topics.factorial_tables import sentence as interaction_sentence

_HOW_TO_READ = (
    "A ratio is candidate over baseline, estimated over pairs of runs of the same block (Hodges-Lehmann). Its interval is corrected for "
    "the number of comparisons ({correction}).",
    "Equivalent: the whole interval is within the margin. Better and worse: the interval excludes no difference; which of the two "
    "depends on the metric. Inconclusive: neither; the note below the table gives the smallest change that would be detected. Invalid: "
    "the program that ran was not the one that the experiment requires. Exact: every run gave the same number.",
)
_HOW_TO_READ_CROSSED = (
    "A main effect is the mean over the other factors' levels. An interaction is the first level's ratio with the second, over its ratio "
    "without it: 1 means that the two multiply. Present: its interval excludes 1 and reaches beyond the margin. Absent: the whole "
    "interval is within the margin. Undecided: neither. Interactions are those of two factors; further factors are averaged over.",
)


def document_of(context: ReportContext, analysis: Analysis) -> Document:
    """Return the report of an analysis.

    Args:
        context: what a report prints and no comparison holds; its selection chooses the metrics.
        analysis: of the record.
    """
    found = tuple(_sections(context, analysis))
    selected = bool(context.selection.metrics)
    shown = tuple(section for topic, section in found if topic.selective or not selected)
    busy = analysis.noise.busy
    return Document(
        kicker=context.experiment.name,
        title=title(context),
        lead=(sentences.effort(context, analysis),),
        notices=tuple(_notices(context, analysis, (section for _, section in found))),
        warning=busy,
        answer=_answer(context, analysis),
        overview=tuple(_summary(context, analysis)),
        sections=shown,
        closing=tuple(_closing(context, analysis)),
        version=context.version,
    )


def sections_of(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the sections that have a table for programs, in the order in which a report prints them."""
    return tuple(section for _, section in _sections(context, analysis) if section.name)


def _sections(context: ReportContext, analysis: Analysis) -> Iterator[tuple[topics.Topic, Section]]:
    for topic in topics.TOPICS:
        for section in topic.sections(context, analysis):
            yield topic, section


def _notices(context: ReportContext, analysis: Analysis, sections: Iterable[Section]) -> Iterator[Item]:
    """Yield what limits the results: the machine, caveats, and warnings of sections."""
    yield Item(sentences.machine(context, analysis), tone=Tone.WARNING if analysis.noise.busy else Tone.PLAIN)
    for caveat in analysis.caveats:
        yield Item(f"{caveat.message} {caveat.hint}".rstrip(), tone=Tone.WARNING)
    for text in dict.fromkeys(text for section in sections for text in section.warnings):
        yield Item(text, tone=Tone.WARNING)
    for note in context.notes:
        yield Item(note)


def _summary(context: ReportContext, analysis: Analysis) -> Iterator[Block]:
    """Yield the results in brief: verdicts of the rows to read first, and indices or their interactions."""
    if is_crossed(analysis):
        figures = tuple(_crossed_figures(context, analysis))
        name = "Interactions of the indices"
    else:
        groups = [group for group in comparison_groups(context, analysis) if group.rows]
        for group in groups:
            text = sentences.summary(group)
            yield Paragraph(f"{group.title}: {text}" if len(groups) > 1 else text)
        copies = {null.copy for null in analysis.nulls}
        indices = (index for index in analysis.indices if index.candidate not in copies)
        figures, name = tuple(_index_figure(index, context) for index in indices), "Indices"
    if figures:
        yield KeyFigures(title=name, figures=figures)


def _answer(context: ReportContext, analysis: Analysis) -> str:
    """Return the answer of the first topic that has one; else the first index and the count of verdicts."""
    for topic in topics.TOPICS:
        if topic.answer is not None and (found := topic.answer(context, analysis)) is not None:
            return found.sentence
    copies = {null.copy for null in analysis.nulls}
    indices = [sentences.index(index, context) for index in analysis.indices if index.candidate not in copies]
    counts = [sentences.summary(group) for group in comparison_groups(context, analysis) if group.rows]
    return f"{indices[0]}." if indices else counts[0] if counts else "There is nothing to compare in this record."


def _index_figure(index: Index, context: ReportContext) -> Figure:
    where = index.suite if index.load == "idle" else f"{index.suite} under {index.load}"
    text = f"{sentences.heading(index.metric)} of {index.candidate.short_label} relative to {index.baseline.short_label}, suite {where}. "
    if index.low is not None and index.high is not None:
        text += f"{formatting.ratio(index.low)} to {formatting.ratio(index.high)} at {formatting.percent(index.confidence)}; "
    unit = "layout" if index.layouts else sentences.repeats(context)
    workloads = formatting.count(index.workloads, "workload")
    text += f"geometric mean of {workloads} over {formatting.count(index.blocks, unit)}."
    return Figure(f"{formatting.ratio(index.effect)} ×", text, f"Index {sentences.index(index, context)}.")  # noqa: RUF001 - a times sign


def _crossed_figures(context: ReportContext, analysis: Analysis) -> Iterator[Figure]:
    for metric, each in headlines(crossed_metrics(context, analysis, context.selection.metrics)):
        text = f"{sentences.heading(metric.metric.name)}, suite {metric.title}: {interaction_sentence(each)}."
        value = "?" if each.within is None else f"{formatting.ratio(each.within)} ×"  # noqa: RUF001 - a times sign
        yield Figure(value, text, text)


def _closing(context: ReportContext, analysis: Analysis) -> Iterator[Section]:
    path = context.record_path
    commands = [] if context.selection.every else [("every metric", f"swapstone show {path} --all")]
    commands.append(("as a page", f"swapstone report {path} --html"))
    commands += [("why it differs", context.explain)] if context.explain else []
    commands += [("once more", context.rerun)] if context.rerun else []
    crossed = _HOW_TO_READ_CROSSED if is_crossed(analysis) else ()
    texts = (*(text.format(correction=analysis.correction) for text in _HOW_TO_READ), *crossed)
    how = Fold(summary="How to read this report", blocks=tuple(map(Paragraph, texts)), brief=False)
    yield Section(title=f"Record {context.record_id}: {path}", blocks=(Commands(commands=tuple(commands)), how))
