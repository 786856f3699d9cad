# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of an experiment by the time that the virtual clock counts for an instruction: a document, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swapstone.comparison.clock_scales import ScaleOutcome, ScaleRow, ScaleTable
from swapstone.model import IDLE, Comparison
from swapstone.report import formatting, side_by_side
from swapstone.report.answer.wording import listed
from swapstone.report.document import Cell, Document, Mark, Section, Tone
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.side_by_side import name_of, place_fields
from swapstone.report.tables import Field, as_csv

_TONES = {
    ScaleOutcome.VERDICT: Tone.BAD,
    ScaleOutcome.SIZE: Tone.WARNING,
    ScaleOutcome.UNDECIDED: Tone.NOTE,
    ScaleOutcome.SAME: Tone.GOOD,
    ScaleOutcome.NOT_COMPARABLE: Tone.NOTE,
}
_MOST_NAMED = 3
"""Rows named in the answer."""
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
        f"{formatting.safe(name_of(row.workload, row.load))}, {row.metric.name}, {formatting.safe(row.candidate.short_label)} {span(row)}"
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


def _side_fields(place: int, scale: int) -> tuple[Field[ScaleRow], ...]:
    def of(name: str) -> Callable[[ScaleRow], float | None]:
        return lambda row: None if (side := row.sides[place]) is None else getattr(side, name)

    return (
        Field(f"{scale} ns", "", lambda row: _text(row.sides[place])),
        *(Field("", f"{name}_{scale}ns", of(name)) for name in ("effect", "low", "high")),
        Field("", f"verdict_{scale}ns", lambda row: side.verdict.value if (side := row.sides[place]) else ""),
    )


def _clock(row: ScaleRow) -> Cell:
    return Cell(mark=Mark(row.outcome.value, "", _TONES[row.outcome]), note=row.reason)


def _fields(table: ScaleTable) -> tuple[Field[ScaleRow], ...]:
    return (
        *place_fields(ScaleRow),
        *(field for place, scale in enumerate(table.scales) for field in _side_fields(place, scale)),
        Field("clock", "", _clock, right=False),
        Field("", "outcome", lambda row: row.outcome.value),
        Field("", "reason", lambda row: row.reason),
    )


def rows_section(table: ScaleTable, title: str = "Rows by the clock", name: str = "clock-scales") -> Section:
    """Return the section with every row: those that depend on the clock first.

    Args:
        table: of at least two clocks.
        title: heading.
        name: of the section, unique in its document.
    """
    return side_by_side.rows_section(
        name,
        title,
        _fields(table),
        table.rows,
        _ordered(table),
        rest="which depend less or not at all",
        notes=(MEANING, *((LOADS,) if any(row.load != IDLE.name for row in table.rows) else ())),
    )


def document_of(table: ScaleTable, records: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the table as a document, the answer first.

    Args:
        table: of at least two clocks.
        records: pairs (answer of a record, command that shows it), parallel to the clocks; none to leave them out.
    """
    return side_by_side.document_of(
        f"The same experiment at {_scales(table)} for each instruction",
        answer(table),
        rows_section(table),
        (
            (f"{scale} ns", text, f"the record at {scale} ns", command)
            for scale, (text, command) in zip(table.scales, records, strict=False)
        ),
        "clock",
    )


def to_csv(table: ScaleTable) -> str:
    """Return one line per row; an empty cell stands for no number."""
    return as_csv(_fields(table), table.rows)


def to_json(table: ScaleTable) -> str:
    """Return everything, as JSON of the format ``clock-scales``."""
    return printed_json("clock-scales", answer=answer(table), table=labelled(table))
