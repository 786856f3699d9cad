# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of an experiment by the time that the virtual clock counts for an instruction: a document, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.comparison.clock_scales import ScaleOutcome, ScaleRow, ScaleTable
from swapstone.model import IDLE, Comparison
from swapstone.report import formatting
from swapstone.report.answer.wording import listed
from swapstone.report.csv_output import comma_separated, plain
from swapstone.report.document import (
    Block,
    BulletList,
    Cell,
    Column,
    Commands,
    Document,
    Fold,
    Item,
    Mark,
    Paragraph,
    Section,
    Table,
    Tone,
)
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json

_TONES = {
    ScaleOutcome.VERDICT: Tone.BAD,
    ScaleOutcome.SIZE: Tone.WARNING,
    ScaleOutcome.UNDECIDED: Tone.NOTE,
    ScaleOutcome.SAME: Tone.GOOD,
    ScaleOutcome.NOT_COMPARABLE: Tone.NOTE,
}
_MOST_NAMED = 3
"""Rows named in the answer."""
_MOST_ROWS = 16
"""Rows of a brief table. A page has all."""
MEANING = (
    "The virtual clock counts a constant time for an instruction, which no hardware has. Where instructions compete with a device, a timer "
    "or a rate in guest time, that constant decides the ratio: a range is printed then, and no single number."
)

LOADS = (
    "At N ns, a load executes an Nth of the instructions of 1 ns in a measured second. An event that is rare in it may then be missing: "
    "compare more or longer replicates."
)


def _text(found: Comparison | None) -> str:
    """Return an effect with the digits of its interval; empty without one."""
    return "" if found is None or found.effect is None else formatting.effect(found.effect, found)


def span(row: ScaleRow) -> str:
    """Return the smallest and the largest effect of a row, e.g. ``1.87 to 7.50``; one of them if they print alike.

    A difference and a ratio have no order. They are printed by clock, e.g. ``+1.05 and 1045``.
    """
    if not row.one_kind:
        return " and ".join(text for text in map(_text, row.sides) if text)
    found = sorted((each.effect, _text(each)) for each in row.sides if each is not None and each.effect is not None)
    if not found:
        return ""
    first, last = found[0][1], found[-1][1]
    return first if first == last else f"{first} to {last}"


def _name(row: ScaleRow) -> str:
    return row.workload if row.load == "idle" else f"{row.workload} under {row.load}"


def _scales(table: ScaleTable) -> str:
    return f"{listed(list(map(str, table.scales)))} ns"


def answer(table: ScaleTable) -> str:
    """Return the sentence with the number of rows that depend on the time of an instruction, and those that depend most."""
    total, dependent = len(table.rows), sorted(table.dependent, key=_by_spread)
    clocks = f"{_scales(table)} for each instruction"
    counts = [
        (table.count(ScaleOutcome.SAME), "the same"),
        (table.count(ScaleOutcome.UNDECIDED), "undecided"),
        (table.count(ScaleOutcome.NOT_COMPARABLE), "without two results"),
    ]
    rest = ", ".join(f"{number} {word}" for number, word in counts if number)
    if dependent:
        verb = "depends" if len(dependent) == 1 else "depend"
        text = (
            f"{len(dependent)} of {formatting.count(total, 'row')} {verb} on the clock ({clocks}): {_named(dependent)}"
        )
        return f"{text}; of the others, {rest}." if rest else f"{text}."
    text = f"No row of {total} is shown to depend on the clock ({clocks}): {rest}"
    if table.count(ScaleOutcome.NOT_COMPARABLE) == total:
        # As with one replicate: no row has a result then, so none can be shown to depend.
        text = (
            f"It is not known whether a row depends on the clock ({clocks}): none of {total} has results at two of them"
        )
    open_rows = sorted((row for row in table.rows if row.outcome is not ScaleOutcome.SAME), key=_by_spread)
    widest = [row for row in open_rows if _quotient(row) > 1 + table.margin][:1]
    return f"{text}; the widest range of those without a result: {_named(widest)}." if widest else f"{text}."


def _named(rows: Sequence[ScaleRow]) -> str:
    names = ", ".join(
        f"{formatting.safe(_name(row))}, {row.metric.name}, {formatting.safe(row.candidate.short_label)} {span(row)}"
        for row in rows[:_MOST_NAMED]
    )
    return f"{names}; and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else names


def _quotient(row: ScaleRow) -> float:
    """Return the largest effect over the smallest one; 1 where one is not above zero, or one is a ratio and another a difference."""
    effects = row.effects if row.one_kind else ()
    return max(effects) / min(effects) if effects and min(effects) > 0 else 1.0


def _by_spread(row: ScaleRow) -> tuple[bool, bool, float]:
    """Sort key: other verdicts first, then the time that is read first, then the largest quotient of two effects."""
    first = row.metric.leads or any(each is not None and each.preferred for each in row.sides)
    return row.outcome is not ScaleOutcome.VERDICT, not first, -_quotient(row)


def _ordered(table: ScaleTable) -> list[ScaleRow]:
    order = list(ScaleOutcome)
    return sorted(table.rows, key=lambda row: (order.index(row.outcome), _by_spread(row)))


def _columns(table: ScaleTable) -> tuple[Column, ...]:
    scales = (Column((f"{scale} ns",), right=True) for scale in table.scales)
    return (Column(("workload",)), Column(("metric",)), Column(("candidate",)), *scales, Column(("clock",)))


def _cells(row: ScaleRow) -> Iterator[Cell]:
    yield Cell(_name(row), code=True)
    yield Cell(row.metric.name)
    yield Cell(row.candidate.short_label)
    yield from (Cell(_text(each)) for each in row.sides)
    yield Cell(mark=Mark(row.outcome.value, "", _TONES[row.outcome]), note=row.reason)


def rows_section(table: ScaleTable, title: str = "Rows by the clock", name: str = "clock-scales") -> Section:
    """Return the section with every row: those that depend on the clock first.

    Args:
        table: of at least two clocks.
        title: heading.
        name: of the section, unique in its document.
    """
    rows = _ordered(table)
    shown, rest = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
    columns = _columns(table)
    loaded = any(row.load != IDLE.name for row in table.rows)
    blocks: list[Block] = [
        Paragraph(MEANING, Tone.NOTE),
        *([Paragraph(LOADS, Tone.NOTE)] if loaded else []),
        Table(title=title, columns=columns, rows=tuple(tuple(_cells(row)) for row in shown), keys=3),
    ]
    more = (
        Fold(
            summary=f"{len(rest)} more, which depend less or not at all",
            blocks=(Table(title=title, columns=columns, rows=tuple(tuple(_cells(row)) for row in rest), keys=3),),
            brief=False,
        ),
    )
    return Section(title=title, name=name, blocks=(*blocks, *(more if rest else ())), data=_data(table))


def _data(table: ScaleTable) -> tuple[dict[str, str | float | None], ...]:
    return tuple(dict(zip(_head(table), _values(row), strict=True)) for row in table.rows)


def document_of(table: ScaleTable, records: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the table as a document, the answer first.

    Args:
        table: of at least two clocks.
        records: pairs (answer of a record, command that shows it), parallel to the clocks; none to leave them out.
    """
    title = f"The same experiment at {_scales(table)} for each instruction"
    sections = [rows_section(table)]
    if records:
        pairs = list(zip(table.scales, records, strict=True))
        answers = tuple(Item(text, label=f"{scale} ns") for scale, (text, _) in pairs)
        shown = tuple((f"the record at {scale} ns", command) for scale, (_, command) in pairs)
        sections += [
            Section(title="The answer of each clock", blocks=(BulletList(items=answers),)),
            Section(title="What to do next", blocks=(Commands(commands=shown),)),
        ]
    return Document(title=title, answer=answer(table), sections=tuple(sections))


def _head(table: ScaleTable) -> tuple[str, ...]:
    sides = (f"{name}_{scale}ns" for scale in table.scales for name in ("effect", "low", "high", "verdict"))
    return ("suite", "workload", "load", "metric", "candidate", *sides, "outcome", "reason")


def _values(row: ScaleRow) -> tuple[str | float | None, ...]:
    sides = (
        value
        for each in row.sides
        for value in (
            (None, None, None, "") if each is None else (each.effect, each.low, each.high, each.verdict.value)
        )
    )
    start = (row.suite, row.workload, row.load, row.metric.name, row.candidate.label)
    return (*start, *sides, row.outcome.value, row.reason)


def to_csv(table: ScaleTable) -> str:
    """Return one line per row; an empty cell stands for no number."""
    lines = (tuple(value if isinstance(value, str) else plain(value) for value in _values(row)) for row in table.rows)
    return comma_separated(_head(table), lines)


def to_json(table: ScaleTable) -> str:
    """Return everything, as JSON of the format ``clock-scales``."""
    return printed_json("clock-scales", answer=answer(table), table=labelled(table))
