"""The table of signs of two records, for a terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import msgspec

from swapstone.comparison.agreement import AgreementRow, AgreementTable, SignAgreement, Spread
from swapstone.model import Comparison
from swapstone.report import columns, view, words
from swapstone.report.columns import Cell, Paint
from swapstone.report.csv_parts import comma_separated, plain
from swapstone.report.labelled import labelled
from swapstone.report.markdown_parts import code, table
from swapstone.report.markdown_parts import plain as literal

FORMAT = "swapstone-signs"
SCHEMA = 1
_STYLES = {SignAgreement.AGREE: "good", SignAgreement.DISAGREE: "bad", SignAgreement.NOT_COMPARABLE: "dim"}


def _side(found: Comparison | None) -> tuple[str, str]:
    """Return a side's ratio with its interval, and its verdict."""
    if found is None:
        return "", ""
    effect = view.shown(found)
    if effect is None:
        return "", found.verdict.value
    between = "exact" if found.exact else words.interval(found)
    return words.effect(effect, found) + (f" ({between})" if between else ""), found.verdict.value


def _name(row: AgreementRow) -> str:
    return row.workload if row.load == "idle" else f"{row.workload} under {row.load}"


def _cells(row: AgreementRow) -> tuple[str, ...]:
    said = row.sameness.value + (f": {row.reason}" if row.reason else "")
    return (_name(row), row.candidate.short_label, *_side(row.first), *_side(row.second), said)


def sentences(found: AgreementTable) -> tuple[str, ...]:
    """Count the rows, and say how far repeated runs lie apart on each side."""
    agree, disagree, silent = (found.count(each) for each in SignAgreement)
    opposite = sum(row.opposite for row in found.rows)
    comparable = agree + disagree
    first = f"{words.count(len(found.rows), 'row')}: {agree} of {comparable} comparable ones agree, {disagree} disagree"
    if disagree:
        first += f" ({opposite} with opposite signs, {disagree - opposite} where only one side has a difference)"
    return (
        f"{first}; {silent} can't be compared.",
        *(
            _spread(name, clock, spread)
            for name, clock, spread in zip(
                found.names, found.clocks, (found.first_spread, found.second_spread), strict=True
            )
        ),
    )


def _spread(name: str, clock: str, spread: Spread) -> str:
    repeats = "draw" if clock == "virtual" else "block"
    rows = words.count(spread.rows, "row")
    text = f"{words.safe(name)}: {spread.exact} of {rows} gave one and the same number on each side in every {repeats}"
    if spread.largest is None:
        return f"{text}."
    return f"{text}; the largest spread is {words.percent(spread.largest)} ({words.safe(spread.where)})."


def _head(found: AgreementTable) -> tuple[str, ...]:
    one, other = map(words.safe, found.names)
    return ("workload", "candidate", one, "verdict", other, "verdict", "signs")


def to_text(found: AgreementTable, *, width: int = 80, colour: bool = False, ascii_only: bool = False) -> str:
    """Render the table for a terminal; see `swapstone.report.text.render` for the arguments."""
    paint = Paint(colour=colour, ascii_only=ascii_only)
    body = [[Cell(text, "dim") for text in _head(found)]]
    body += [
        [
            *(Cell(words.safe(text)) for text in _cells(row)[:-1]),
            Cell(words.safe(_cells(row)[-1]), _STYLES[row.sameness]),
        ]
        for row in found.rows
    ]
    lines = columns.table(body, [False, False, True, False, True, False, False], [30, 16, 0, 0, 0, 0, 0], paint)
    lines.append("")
    for text in sentences(found):
        lines += columns.wrap(text, max(64, width), "  ")
    return "\n".join(map(paint.final, lines)) + "\n"


def to_markdown(found: AgreementTable) -> str:
    """Render the table as Markdown; text from outside is shown, never interpreted."""
    rows = ([code(cells[0]), *map(literal, cells[1:])] for cells in map(_cells, found.rows))
    lines = table(list(map(literal, _head(found))), [False, False, True, False, True, False, False], rows)
    return "\n".join([*lines[1:], *(f"- {literal(text)}" for text in sentences(found))]) + "\n"


def to_csv(found: AgreementTable) -> str:
    """Return one row per workload; an empty cell means that there is no such number."""
    sides = [
        f"{side}_{name}"
        for side in ("first", "second")
        for name in ("metric", "effect", "low", "high", "exact", "verdict")
    ]
    header = ["suite", "workload", "load", "candidate", *sides, "signs", "reason"]
    return comma_separated(
        header,
        (
            (
                *(row.suite, row.workload, row.load, row.candidate.label),
                *(*_numbers(row.first), *_numbers(row.second)),
                *(row.sameness.value, row.reason),
            )
            for row in found.rows
        ),
    )


def _numbers(found: Comparison | None) -> tuple[str, ...]:
    if found is None:
        return ("",) * 6
    effect = view.shown(found)
    numbers = (effect, found.low, found.high) if effect is not None else (None, None, None)
    return (found.metric.name, *map(plain, numbers), str(found.exact).lower(), found.verdict.value)


def to_json(found: AgreementTable) -> str:
    """Return everything, as JSON: ``{"format": "swapstone-signs", "schema": 1, "sentences": [...], "signs": ...}``."""
    whole = {"format": FORMAT, "schema": SCHEMA, "sentences": sentences(found), "signs": labelled(found)}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"
