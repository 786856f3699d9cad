# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of the published pages as a document: what they derived, computed again, and which of their words their numbers support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swapstone import published
from swapstone.published import CheckReport, Source
from swapstone.published.derived_figures import LATENCY_TABLES, UNIXBENCH_INDEX
from swapstone.report import formatting
from swapstone.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Document,
    Heading,
    Item,
    Mark,
    Section,
    Table,
    Tone,
)

_REPRODUCED, _DIFFERENT = Mark("reproduced", "", Tone.GOOD), Mark("different", "", Tone.BAD)


def document_of(report: CheckReport) -> Document:
    """Return the check as a document.

    Args:
        report: what `swapstone.published.check` returned.
    """
    good, derived = sum(row.agrees for row in report.recomputed), len(report.recomputed)
    silent = sum(each.unsupported for each in report.disagreements)
    against = len(report.disagreements) - silent
    lead = (
        f"{report.figures} published figures. {good} of {derived} numbers that the pages derived from theirs are reproduced to the "
        f"printed digit. Words and numbers disagree in {formatting.count(against, 'place')}; "
        f"{formatting.count(silent, 'more claim')} without numbers.",
    )
    recomputed = Section(title="Derived numbers", blocks=tuple(_recomputed(report)))
    sources = (
        Section(title=f"{each.name}: {each.title}", blocks=tuple(_claims(report, each))) for each in published.sources()
    )
    return Document(title="Check of the published pages", answer=lead[0], sections=(recomputed, *sources))


def _recomputed(report: CheckReport) -> Iterator[Block]:
    places = Counter((row.source, row.place) for row in report.recomputed)
    same = Counter((row.source, row.place) for row in report.recomputed if row.agrees)
    rows = tuple(
        (
            Cell(f"{source}, {place}"),
            Cell(str(number)),
            _compared(str(same[source, place]), same[source, place] == number),
        )
        for (source, place), number in places.items()
    )
    yield _table("Numbers derived by the pages", ("derived by the page", "numbers", "reproduced"), rows)
    yield Heading("UnixBench indices")
    yield _table("UnixBench indices", ("UnixBench index", "printed", "recomputed"), tuple(_indices(report)))
    off = [row for row in report.recomputed if not row.agrees]
    if off:
        texts = (
            f"{row.place}, {row.row}: {row.formula}, but that is {row.computed} = {row.printed}"
            if row.place == LATENCY_TABLES
            else f"{row.place}, {row.row}: printed {row.printed}, recomputed {row.computed} ({row.formula})"
            for row in off
        )
        yield Heading("Not reproduced")
        yield BulletList(items=tuple(map(Item, texts)))


def _indices(report: CheckReport) -> Iterator[tuple[Cell, ...]]:
    """Yield each index as the page prints it and as the page's own figures give it."""
    for row in report.recomputed:
        if row.formula == UNIXBENCH_INDEX:
            place = f"{row.source}, {row.place.removeprefix('UnixBench, ')}, {row.row}"
            yield Cell(place), Cell(row.printed), _compared(row.computed, row.agrees)


def _compared(text: str, same: bool) -> Cell:
    return Cell(effect=text, mark=_REPRODUCED if same else _DIFFERENT)


def _table(title: str, head: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]) -> Table:
    columns = tuple(Column((name,), right=place > 0) for place, name in enumerate(head))
    return Table(title=title, columns=columns, rows=rows, dense=True)


def _claims(report: CheckReport, source: Source) -> Iterator[Block]:
    """Yield the claims that a page's numbers contradict or don't hold, then those that they support."""
    found = [each for each in report.disagreements if each.source == source.name]
    if found:
        items = (
            Item(
                f"{each.words}.",
                label=f"{each.place}, words",
                items=(_numbers(each.numbers, unsupported=each.unsupported),),
            )
            for each in found
        )
        yield BulletList(items=tuple(items))
    held = [each for each in report.borne_out if each[0] == source.name]
    if held:
        items = (Item(f"{text} ({numbers.rstrip('.')})") for _, text, numbers in held)
        yield BulletList(title="Borne out:", items=tuple(items))


def _numbers(text: str, *, unsupported: bool) -> str:
    return f"{'no numbers' if unsupported else 'numbers'}: {text}"
