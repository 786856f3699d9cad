# SPDX-License-Identifier: MIT OR Apache-2.0
"""The coverage of the published figures as a document and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from swapstone import published
from swapstone.published.coverage import Coverage, Covered
from swapstone.published.joins import CLAIMS, COMPARISONS, Place, Side
from swapstone.report import formatting
from swapstone.report.document import BulletList, Cell, Column, Document, Item, Mark, Section, Table, Tone
from swapstone.report.printed_json import printed_json
from swapstone.report.published_differences import Differences, differences_json, differences_section
from swapstone.report.topics import (
    kernel_services,
    latency,
    latency_ratios,
    netstack,
    servers,
    swap,
    swap_data,
    throughput,
)

SECTIONS = frozenset(
    {
        CLAIMS,
        COMPARISONS,
        kernel_services.SCORES,
        latency.LONGEST,
        latency_ratios.BETWEEN,
        latency_ratios.LOADED,
        netstack.SECTION,
        servers.SECTION,
        swap_data.PAGE,
        swap_data.SECONDS,
        swap_data.SUMMARY,
        throughput.SEVERAL,
        throughput.SINGLE,
        # Of the suites os and float. Without those, coverage names the suite that does not exist.
        "float-abi",
        "lmbench-rows",
    }
)
"""Parts of reports that print published figures. Most take them from the joins under this name."""

SERIES = frozenset(swap.COLUMNS)
"""Time series that a report prints beside published ones."""

_COVERED, _MISSING = Mark("all", "", Tone.GOOD), Mark("missing", "", Tone.BAD)


def answer(found: Coverage) -> str:
    """Return the sentence with the number of figures that have a row."""
    missing, every = len(found.missing), len(found.figures)
    return f"{every - missing} of {every} published figures have a row; {missing} {'is' if missing == 1 else 'are'} missing."


def document_of(found: Coverage, compared: Differences | None = None) -> Document:
    """Return the coverage as a document, the answer first.

    Args:
        found: the figures with their rows.
        compared: what records have beside the figures; None without records.
    """
    sections = [
        Section(title="Figures by page and reason", blocks=(_by_page(found.figures), *_reasons(found))),
        Section(title="Rows beside the figures", blocks=(_rows(found.figures),)),
        Section(title="Further numbers of the pages", blocks=(_by_page(found.further), BulletList(items=_FURTHER))),
    ]
    if compared is not None:
        sections.insert(0, differences_section(compared))
    second = f" {compared.answer}" if compared is not None else ""
    return Document(
        title="Coverage of the published figures",
        answer=answer(found) + second,
        notices=tuple(Item(formatting.safe(text)) for text in (compared.damaged if compared else ())),
        sections=tuple(sections),
    )


_FURTHER = (
    Item(
        "The rest of wrk's output, vmstat's other columns and samples of stacks. They are not among the published figures above."
    ),
)


def _by_page(found: Iterable[Covered]) -> Table:
    """Return a row for each page, table and reason."""
    counts = Counter((each.figure.source, each.figure.suite, each.reason) for each in found)
    rows = tuple(
        (
            Cell(source),
            Cell(suite),
            Cell(str(number)),
            Cell(mark=_MISSING if reason else _COVERED, note=reason)
            if reason
            else Cell(mark=Mark("has a row", "", Tone.GOOD)),
        )
        for (source, suite, reason), number in counts.items()
    )
    head = ("page", "table", "figures", "")
    return Table(
        title="Figures by page and reason",
        columns=tuple(Column((name,), right=place == 2) for place, name in enumerate(head)),
        rows=rows,
        keys=2,
    )


def _reasons(found: Coverage) -> Iterator[BulletList]:
    alone = sum(not each.reason and not each.parts for each in found.figures)
    if alone:
        yield BulletList(
            items=(Item(f"{formatting.count(alone, 'figure')} with a row that no shipped study measures."),)
        )


def _rows(found: Iterable[Covered]) -> Table:
    """Return a row for each table of a page and each part of a report that has its figures."""
    groups: dict[tuple[str, str, str, str], list[Covered]] = {}
    for each in found:
        for place in each.places:
            key = (each.figure.study, each.figure.suite, place.section, place.suite)
            mine = groups.setdefault(key, [])
            if not mine or mine[-1] is not each:
                mine.append(each)
    head = ("published study", "table", "figures", "section of the report", "suite here", "parts of studies")
    return Table(
        title="Rows beside the figures",
        columns=tuple(Column((name,), right=place == 2) for place, name in enumerate(head)),
        rows=tuple(
            (
                *map(Cell, (study, table, str(len(mine)), section, suite)),
                Cell(", ".join(dict.fromkeys(part for each in mine for part in each.parts)) or "-"),
            )
            for (study, table, section, suite), mine in groups.items()
        ),
        keys=2,
    )


def to_json(found: Coverage, compared: Differences | None = None) -> str:
    """Return everything, as JSON of the format ``published-coverage``."""
    return printed_json(
        "published-coverage",
        answer=answer(found),
        figures=len(found.figures),
        missing=len(found.missing),
        rows=[_row(each) for each in found.figures],
        further=[_row(each) for each in found.further],
        **({} if compared is None else {"compared": differences_json(compared)}),
    )


def _row(each: Covered) -> dict[str, object]:
    figure = each.figure
    return {
        **{
            name: getattr(figure, name)
            for name in ("study", "source", "platform", "condition", "suite", "metric", "unit")
        },
        **{name: getattr(figure, name) for name in ("level", "value", "printed")},
        "missing": each.reason or None,
        "places": [_place(place) for place in each.places],
        "parts": each.parts,
    }


def _place(place: Place) -> dict[str, object]:
    return {
        **{name: getattr(place, name) for name in ("section", "suite", "workload", "metric", "differs")},
        "side": side_text(place.side),
        "over": None if place.over is None else side_text(place.over),
    }


def side_text(side: Side) -> str:
    """Return a side as a user types it, with its load unless it is idle."""
    text = ",".join(f"{factor}={level}" for factor, level in side.levels)
    return text if side.load == "idle" else f"{text} under {side.load}"


def page_title(source: str) -> str:
    """Return the title of a page."""
    return next((each.title for each in published.sources() if each.name == source), source)
