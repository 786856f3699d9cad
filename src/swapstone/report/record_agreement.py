# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of the effects of two records, their sizes and signs: a document, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator

from swapstone.comparison.agreement import AgreementRow, AgreementTable, SignAgreement, Spread
from swapstone.comparison.size_agreement import SizeOutcome
from swapstone.model import Comparison
from swapstone.report import formatting
from swapstone.report.csv_output import comma_separated, plain
from swapstone.report.document import BulletList, Cell, Column, Document, Item, Mark, Section, Table, Tone
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.topics.comparison_groups import shown

_SIZE_TONES = {
    SizeOutcome.AGREE: Tone.GOOD,
    SizeOutcome.DIFFER: Tone.BAD,
    SizeOutcome.UNDECIDED: Tone.NOTE,
    SizeOutcome.NOT_COMPARABLE: Tone.NOTE,
}
_MOST_NAMED = 3
"""Rows that differ in size are named in the answer up to this number; the table has all."""

_TONES = {SignAgreement.AGREE: Tone.GOOD, SignAgreement.DISAGREE: Tone.BAD, SignAgreement.NOT_COMPARABLE: Tone.NOTE}


def _side(found: Comparison | None) -> tuple[str, str]:
    """Return a side's ratio with its interval, and its verdict."""
    if found is None:
        return "", ""
    effect = shown(found)
    if effect is None:
        return "", found.verdict.value
    between = "exact" if found.exact else formatting.interval(found)
    return formatting.effect(effect, found) + (f" ({between})" if between else ""), found.verdict.value


def _name(row: AgreementRow) -> str:
    return row.workload if row.load == "idle" else f"{row.workload} under {row.load}"


def _cells(row: AgreementRow) -> tuple[str, ...]:
    return (_name(row), row.candidate.short_label, *_side(row.first), *_side(row.second), _size(row))


def _size(row: AgreementRow) -> str:
    """Return the ratio of the two effects with its interval; empty without one."""
    size = row.size
    if size.ratio is None:
        return ""
    if size.low is None or size.high is None:
        return formatting.ratio(size.ratio)
    if size.exact:
        return f"{formatting.ratio(size.ratio)} (exact)"
    width = min(size.ratio - size.low, size.high - size.ratio)
    ratio, low, high = (formatting.ratio(value, width) for value in (size.ratio, size.low, size.high))
    return f"{ratio} ({low}–{high})"  # noqa: RUF001 - a dash between numbers


def answer(found: AgreementTable) -> str:
    """Return the sentence with the number of rows whose effects have the same size, and those that differ most."""
    agree, differ, undecided, silent = (found.count_sizes(each) for each in SizeOutcome)
    comparable = agree + differ + undecided
    if not comparable:
        return f"No effect of the {formatting.count(len(found.rows), 'row')} can be compared in size."
    text = f"{agree} of {formatting.count(comparable, 'row')} agree in size, within {formatting.percent(found.margin)}"
    rows = sorted((row for row in found.rows if row.size.outcome is SizeOutcome.DIFFER), key=_distance, reverse=True)
    if differ:
        named = ", ".join(f"{formatting.safe(_name(row))} {_size(row)}" for row in rows[:_MOST_NAMED])
        more = f" and {differ - _MOST_NAMED} more" if differ > _MOST_NAMED else ""
        text += f"; {differ} {'differs' if differ == 1 else 'differ'}: {named}{more}"
    if undecided:
        text += f"; {undecided} {'is' if undecided == 1 else 'are'} undecided"
    return f"{text}; {silent} can't be compared." if silent else f"{text}."


def _distance(row: AgreementRow) -> float:
    return abs(math.log(row.size.ratio)) if row.size.ratio else 0.0


def sentences(found: AgreementTable) -> tuple[str, ...]:
    """Return sentences with the number of rows that agree in size and in sign, and the spread of each side's runs."""
    return (answer(found), *_other_sentences(found))


def _other_sentences(found: AgreementTable) -> tuple[str, ...]:
    agree, disagree, silent = (found.count(each) for each in SignAgreement)
    opposite = sum(row.opposite for row in found.rows)
    comparable = agree + disagree
    first = f"Signs of {formatting.count(len(found.rows), 'row')}: {agree} of {comparable} comparable ones agree, {disagree} disagree"
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
    rows = formatting.count(spread.rows, "row")
    text = f"{formatting.safe(name)}: {spread.exact} of {rows} gave one and the same number on each side in every {repeats}"
    if spread.largest is None:
        return f"{text}."
    return f"{text}; the largest spread is {formatting.percent(spread.largest)} ({formatting.safe(spread.where)})."


def _head(found: AgreementTable) -> tuple[str, ...]:
    one, other = map(formatting.safe, found.names)
    return ("workload", "candidate", one, "verdict", other, "verdict", f"{other} / {one}", "sizes", "signs")


def document_of(found: AgreementTable) -> Document:
    """Return the table as a document, the answer about the sizes first."""
    right = (False, False, True, False, True, False, True, False, False)
    columns = tuple(Column((name,), flush) for name, flush in zip(_head(found), right, strict=True))
    rows = tuple(tuple(_styled(row)) for row in found.rows)
    title = f"Sizes and signs of {found.names[0]} and {found.names[1]}"
    sentence, *rest = sentences(found)
    lines = tuple(map(Item, rest))
    blocks = (Table(title=title, columns=columns, rows=rows, keys=2), BulletList(items=lines))
    return Document(title=title, answer=sentence, sections=(Section(title="Rows", blocks=blocks),))


def _styled(row: AgreementRow) -> Iterator[Cell]:
    name, *cells = _cells(row)
    yield Cell(name, code=True)
    yield from map(Cell, cells)
    yield Cell(mark=Mark(row.size.outcome.value, "", _SIZE_TONES[row.size.outcome]))
    yield Cell(mark=Mark(row.sameness.value, "", _TONES[row.sameness]), note=row.reason)


def to_csv(found: AgreementTable) -> str:
    """Return one row per workload; an empty cell stands for no number."""
    return comma_separated(CSV_HEADER, csv_rows(found))


_SIDES = tuple(
    f"{side}_{name}" for side in ("first", "second") for name in ("metric", "effect", "low", "high", "exact", "verdict")
)
_SIZES = ("size", "size_metric", "size_ratio", "size_low", "size_high", "size_confidence", "size_reason")
CSV_HEADER = ("suite", "workload", "load", "candidate", *_SIDES, "signs", "reason", *_SIZES)
"""Names of the cells of `csv_rows`."""


def csv_rows(found: AgreementTable) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row of the table."""
    for row in found.rows:
        yield (
            *(row.suite, row.workload, row.load, row.candidate.label),
            *(*_numbers(row.first), *_numbers(row.second)),
            *(row.sameness.value, row.reason),
            *(row.size.outcome.value, row.size.metric),
            *map(plain, (row.size.ratio, row.size.low, row.size.high, row.size.confidence)),
            row.size.reason,
        )


def _numbers(found: Comparison | None) -> tuple[str, ...]:
    if found is None:
        return ("",) * 6
    effect = shown(found)
    numbers = (effect, found.low, found.high) if effect is not None else (None, None, None)
    return (found.metric.name, *map(plain, numbers), str(found.exact).lower(), found.verdict.value)


def to_json(found: AgreementTable) -> str:
    """Return everything, as JSON of the format ``signs``."""
    return printed_json("signs", sentences=sentences(found), signs=labelled(found))
