"""The index of a study that consists of parts: what each part came to, and where its own report is."""

from __future__ import annotations

import re

import msgspec

from swapstone.model import Analysis, FrozenStruct
from swapstone.report import columns, exhibits_markdown, sentences, view, words
from swapstone.report.columns import Paint
from swapstone.report.context import ReportContext
from swapstone.report.exhibit import Exhibit
from swapstone.report.exhibits import exhibits
from swapstone.report.html import template
from swapstone.report.markdown_parts import code, plain, table

FORMAT = "swapstone-study-index"
SCHEMA = 1


class PartSummary(FrozenStruct, frozen=True, kw_only=True):
    """What a part of a study came to.

    Attributes:
        name: of its folder.
        title: in words.
        state: ``complete``, ``interrupted``, ``failed``, ``unavailable``, ``left out`` or ``not begun``.
        reason: why, where it isn't complete; may be empty.
        headlines: sentences that sum up its runs; none where it has none.
        exhibits: the tables and drawings of its report.
        record: its record's folder, seen from the index; empty where it has none.
        page: its own report, likewise.
    """

    name: str
    title: str
    state: str
    reason: str = ""
    headlines: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    record: str = ""
    page: str = ""


class StudyIndex(FrozenStruct, frozen=True, kw_only=True):
    """A study and its parts.

    Attributes:
        name: of the study.
        title, question: in words.
        folder: where it lies; printed as given.
        parts: in the order in which they run.
        resume: the command that goes on with it; empty where nothing is left to do.
        version: of swapstone.
    """

    name: str
    title: str
    question: str
    folder: str
    parts: tuple[PartSummary, ...]
    resume: str = ""
    version: str = ""


def headlines(context: ReportContext, analysis: Analysis) -> tuple[str, ...]:
    """Sum up a part: the effort, the verdicts of what is read first, the indices, and how many trials gave no numbers."""
    copies = {null.copy for null in analysis.nulls}
    found = [
        f"{section.title}: {sentences.summary(section)}" for section in view.sections(context, analysis) if section.rows
    ]
    found += [f"Index {sentences.index(each, context)}." for each in analysis.indices if each.candidate not in copies]
    found += [f"{words.count(len(analysis.failures), 'trial')} gave no numbers."] if analysis.failures else []
    return (sentences.effort(context, analysis), *found)


def summary(context: ReportContext, analysis: Analysis, part: PartSummary) -> PartSummary:
    """Return a part's summary with its sentences and exhibits.

    Args:
        context: of the part's report.
        analysis: what may be said of it.
        part: its name, title, state and places.
    """
    return msgspec.structs.replace(part, headlines=headlines(context, analysis), exhibits=exhibits(context, analysis))


def tally(index: StudyIndex) -> str:
    """Count the parts by state, e.g. ``3 parts complete, 1 unavailable``."""
    states = [part.state for part in index.parts]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"{words.count(len(states), 'part')}: {counted}."


def to_json(index: StudyIndex) -> str:
    """Return everything, as JSON: ``{"format": "swapstone-study-index", "schema": 1, "index": ...}``."""
    whole = {"format": FORMAT, "schema": SCHEMA, "index": index}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


def to_text(index: StudyIndex, *, width: int = 80, colour: bool = False, ascii_only: bool = False) -> str:
    """Render the index for a terminal; see `swapstone.report.text.render` for the arguments."""
    width = max(64, width)
    paint = Paint(colour=colour, ascii_only=ascii_only)
    lines = [
        paint(line, "bold")
        for line in columns.wrap(f"Study {words.safe(index.name)}: {words.safe(index.title)}", width)
    ]
    lines += columns.wrap(tally(index), width, "  ")
    for number, part in enumerate(index.parts, start=1):
        said = f"{number}. {words.safe(part.name)}: {words.safe(part.title)}: {part.state}"
        lines += ["", *(paint(line, "bold") for line in columns.wrap(said, width, "   "))]
        if part.reason:
            lines += [paint(line, "warn") for line in columns.wrap(f"   {words.safe(part.reason)}", width, "   ")]
        for text in part.headlines:
            lines += columns.wrap(f"   {words.safe(text)}", width, "   ")
        for each in part.exhibits:
            lines += _exhibit_text(each, width, paint)
        if part.page:
            lines.append(f"   {words.safe(index.folder)}/{words.safe(part.page)}")
    lines += ["", f"All of it as a page: {words.safe(index.folder)}/index.html"]
    return "\n".join(map(paint.final, lines)) + "\n"


def _exhibit_text(each: Exhibit, width: int, paint: Paint) -> list[str]:
    """Name an exhibit with its flags; the part's own table, printed before, holds its rows."""
    lines = columns.wrap(f"   - {words.safe(each.title)}", width, "     ")
    for flag in each.flags:
        lines += [paint(line, "warn") for line in columns.wrap(f"     ! {words.safe(flag)}", width, "       ")]
    return lines


def to_markdown(index: StudyIndex) -> str:
    """Render the index as Markdown; text from outside is shown, never interpreted."""
    lines = [f"# {plain(index.title)}", "", plain(index.question), "", plain(tally(index)), ""]
    rows = [
        (code(part.name), plain(part.title), part.state, f"[report]({part.page})" if part.page else plain(part.reason))
        for part in index.parts
    ]
    lines += table(["part", "what", "state", "report"], [False] * 4, rows)
    for part in index.parts:
        lines += ["", f"## {plain(part.title)}", ""]
        lines += [f"**{part.state}**" + (f": {plain(part.reason)}" if part.reason else ""), ""]
        lines += [f"- {plain(text)}" for text in part.headlines]
        for each in part.exhibits:
            lines += exhibits_markdown.lines(each)
        if part.page:
            lines += ["", f"[The whole report]({part.page}), record {code(part.record)}."]
    if index.resume:
        lines += ["", "To go on:", "", f"    {words.safe(index.resume)}"]
    lines += ["", f"swapstone {plain(index.version)}"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def to_html(index: StudyIndex) -> str:
    """Render the index as one page that loads nothing; it links to the parts' own pages, which lie beside it."""
    parts = tuple(
        msgspec.structs.replace(
            part,
            exhibits=tuple(msgspec.structs.replace(each, name=f"{part.name}-{each.name}") for each in part.exhibits),
        )
        for part in index.parts
    )
    return template("study.html.j2").render(index=index, parts=parts, tally=tally)
