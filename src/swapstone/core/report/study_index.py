# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of a study of several parts: the results of each part, and where its report is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.comparison.side_by_side import SideBySide
from swapstone.core.model import Analysis, FrozenStruct
from swapstone.core.report import formatting, side_by_side_table
from swapstone.core.report.answer.means import leading_metric, places_of
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    Block,
    BulletList,
    Commands,
    Document,
    Fold,
    Heading,
    Item,
    Links,
    Paragraph,
    Section,
    Tone,
)
from swapstone.core.report.printed_json import labelled, printed_json
from swapstone.core.report.record_report import answer_of, described, sections_of
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import comparison_groups

_COMPLETE = "complete"


class PartSummary(FrozenStruct, frozen=True, kw_only=True):
    """The results of a part of a study.

    Attributes:
        name: of its folder.
        title: of the part.
        state: e.g. ``complete``, ``interrupted``, ``failed`` or ``unavailable``.
        reason: why, where it isn't complete; may be empty.
        headlines: sentences about its results; none without runs.
        answer: its result in one or two sentences; empty without runs.
        sections: those of its report that have a table for programs.
        record: path of its record's folder, relative to the index; empty without one.
        page: path of its report, likewise.
    """

    name: str
    title: str
    state: str
    reason: str = ""
    headlines: tuple[str, ...] = ()
    answer: str = ""
    sections: tuple[Section, ...] = ()
    record: str = ""
    page: str = ""


class PartOfStudy(NamedTuple):
    """What a part of a study came to: objects of the kind ``study-topic`` read it.

    Each is a function of the study's published page and its parts with runs, which returns the sections that a study's page opens with.
    """

    name: str
    context: ReportContext
    analysis: Analysis


class StudyIndex(FrozenStruct, frozen=True, kw_only=True):
    """A study and its parts.

    Attributes:
        name: of the study.
        title, question: of the study file.
        folder: printed as given.
        parts: in the order in which they run.
        resume: the command that resumes it; empty for a complete study.
        clocks: tables of the parts that differ in the time of an instruction alone.
        opening: sections that its page opens with.
        version: of swapstone.
    """

    name: str
    title: str
    question: str
    folder: str
    parts: tuple[PartSummary, ...]
    resume: str = ""
    version: str = ""
    clocks: tuple[SideBySide, ...] = ()
    opening: tuple[Section, ...] = ()


def summary(context: ReportContext, analysis: Analysis, part: PartSummary) -> PartSummary:
    """Return a part's summary with its sections and sentences.

    The sentences are about runs, verdicts of the rows to read first, indices of the same metric, and failed trials.

    Args:
        context: of the part's report.
        analysis: of its record.
        part: its name, title, state and paths.
    """
    first = {(each.suite, each.load, each.candidate): leading_metric(each.rows) for each in places_of(analysis)}
    groups = comparison_groups(context, analysis)
    return msgspec.structs.replace(
        part,
        headlines=(
            sentences.effort(context, analysis),
            *(f"{group.title}: {sentences.summary(group)}" for group in groups if group.rows),
            *(
                f"Index {sentences.index(each, context)}."
                for each in analysis.indices
                if first.get((each.suite, each.load, each.candidate)) == each.metric
            ),
            *([f"{formatting.count(len(analysis.failures), 'trial')} gave no numbers."] if analysis.failures else []),
        ),
        answer=answer_of(context, analysis),
        sections=sections_of(context, analysis),
    )


def tally(index: StudyIndex) -> str:
    """Count the parts by state, e.g. ``3 parts complete, 1 unavailable``."""
    states = [part.state for part in index.parts]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"{formatting.count(len(states), 'part')}: {counted}."


def to_json(index: StudyIndex) -> str:
    """Return everything, as JSON of the format ``study-index``."""
    parts = [
        {name: value for name, value in msgspec.structs.asdict(part).items() if name != "sections"}
        | {"exhibits": described(part.sections)}
        for part in index.parts
    ]
    clocks = [{"answer": side_by_side_table.answer(each), "table": labelled(each)} for each in index.clocks]
    changed = {"parts": parts, "clocks": clocks, "opening": described(each for each in index.opening if each.name)}
    return printed_json("study-index", index=msgspec.structs.asdict(index) | changed)


def document_of(index: StudyIndex, *, page: bool = False) -> Document:
    """Return the index as a document, with links to the parts' own reports beside it.

    Args:
        index: of the study.
        page: whether it begins with the opening sections; else with the parts' answers.
    """
    opens, overview = page and bool(index.opening), tuple(_overview(index))
    return Document(
        kicker=index.name,
        title=f"Study {index.name}: {index.title}",
        lead=(index.question, tally(index)),
        notices=(Item(f"The study is not complete. Resume it with: {index.resume}", tone=Tone.WARNING),)
        if index.resume
        else (),
        answer=" ".join((answer(index.parts), *map(side_by_side_table.answer, index.clocks))),
        overview=() if opens else overview,
        sections=(
            *index.opening,
            *((Section(title="The parts of the study", blocks=overview),) if opens else ()),
            *(
                Section(name=part.name, title=f"{number}. {part.title}", blocks=_blocks(part))
                for number, part in enumerate(index.parts, start=1)
            ),
            *(
                side_by_side_table.rows_section(each, "Which rows depend on the clock?", f"clock-scales-{number}")
                for number, each in enumerate(index.clocks, start=1)
            ),
        ),
        closing=(
            Section(
                title="Files",
                blocks=(Commands(commands=(("all parts as a page", shlex.quote(f"{index.folder}/index.html")),)),),
            ),
        ),
        version=index.version,
    )


def answer(parts: Sequence[PartSummary]) -> str:
    """Return the answer of a study: which parts are missing, then the answer of the first part that has one.

    The other parts' answers follow in the overview: parts measure different things, so there is no mean of them.
    """
    missing = [part for part in parts if part.state != _COMPLETE]
    opening = f"{_missing(missing, len(parts))} " if missing else ""
    answers = (f"{formatting.safe(part.name)}: {part.answer}" for part in parts if part.answer)
    return opening + next(answers, "No part has a result.")


def _missing(missing: Sequence[PartSummary], total: int) -> str:
    names = [f"{formatting.safe(part.name)} ({formatting.safe(part.state)})" for part in missing[:3]]
    more = len(missing) - len(names)
    count, verb = formatting.count(total, "part"), "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {count} {verb} not complete: {listed(names)}{f' and {more} more' if more else ''}."


def _overview(index: StudyIndex) -> Iterator[Block]:
    """Yield each part's answer, what is missing, and what to do next."""
    yield Heading("Answers of the parts")
    yield BulletList(items=tuple(Item(part.answer or part.state, label=part.name, code=True) for part in index.parts))
    warnings = [
        Item(f"{part.name}: {text}", tone=Tone.WARNING)
        for part in index.parts
        for section in part.sections
        for text in section.warnings
    ]
    missing = [
        Item(": ".join(map(formatting.safe, filter(None, (part.name, part.state, part.reason)))), tone=Tone.WARNING)
        for part in index.parts
        if part.state != _COMPLETE
    ]
    if missing or warnings:
        yield Heading("What is not known")
        yield BulletList(items=(*missing, *warnings))
    yield Heading("What to do next")
    first = next((part.record for part in index.parts if part.record), "")
    commands = (
        ("resume", index.resume),
        ("one part", f"swapstone show {shlex.quote(f'{index.folder}/{first}')}" if first else ""),
        ("all parts as a page", shlex.quote(f"{index.folder}/index.html")),
    )
    yield Commands(commands=tuple(pair for pair in commands if pair[1]))


def _blocks(part: PartSummary) -> tuple[Block, ...]:
    state = f"{part.state}: {part.reason}" if part.reason else part.state
    tables = "; ".join(section.title for section in part.sections)
    texts = (
        (state if part.state != _COMPLETE else "", Tone.WARNING),
        (part.answer, Tone.STRONG),
    )
    blocks: list[Block] = [Paragraph(text, tone) for text, tone in texts if text]
    blocks += [BulletList(items=tuple(map(Item, part.headlines)))] if part.headlines else []
    blocks += [Paragraph(f"Tables: {tables}.", Tone.NOTE)] if tables else []
    for section in part.sections:
        blocks += [Paragraph(text, Tone.WARNING) for text in section.warnings]
        blocks.append(Fold(summary=section.title, blocks=section.blocks, open=True, brief=False))
    blocks += [Links(links=(("The whole report of this part", part.page),))] if part.page else []
    return tuple(blocks)
