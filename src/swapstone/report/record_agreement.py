# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of the effects of two records, their sizes and signs: a document, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable

from swapstone.comparison.agreement import AgreementRow, AgreementTable, SignAgreement, Spread
from swapstone.comparison.size_agreement import SizeOutcome
from swapstone.model import Comparison
from swapstone.report import formatting
from swapstone.report.document import BulletList, Cell, Document, Item, Mark, Section, Tone
from swapstone.report.labelled import labelled
from swapstone.report.printed_json import printed_json
from swapstone.report.side_by_side import code, name_of
from swapstone.report.tables import Field, as_csv, table_of
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
        named = ", ".join(
            f"{formatting.safe(name_of(row.workload, row.load))} {_size(row)}" for row in rows[:_MOST_NAMED]
        )
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


def _side_fields(
    name: str, of: Callable[[AgreementRow], Comparison | None], key: str
) -> tuple[Field[AgreementRow], ...]:
    def number(which: str) -> Callable[[AgreementRow], float | None]:
        return lambda row: getattr(side, which) if (side := of(row)) is not None and shown(side) is not None else None

    return (
        Field(formatting.safe(name), "", lambda row: _side(of(row))[0]),
        Field("verdict", "", lambda row: _side(of(row))[1], right=False),
        Field("", f"{key}_metric", lambda row: side.metric.name if (side := of(row)) else ""),
        *(Field("", f"{key}_{which}", number(which)) for which in ("effect", "low", "high")),
        Field("", f"{key}_exact", lambda row: side.exact if (side := of(row)) else ""),
        Field("", f"{key}_verdict", lambda row: side.verdict.value if (side := of(row)) else ""),
    )


def _mark(outcome: SizeOutcome | SignAgreement, tone: Tone, note: str = "") -> Cell:
    return Cell(mark=Mark(outcome.value, "", tone), note=note)


def _of_size(name: str) -> Callable[[AgreementRow], str | float | None]:
    return lambda row: getattr(row.size, name)


def fields(names: tuple[str, str]) -> tuple[Field[AgreementRow], ...]:
    """Return the columns of the table, of two records with these names."""
    one, other = map(formatting.safe, names)
    return (
        Field("workload", "", lambda row: name_of(row.workload, row.load), code, right=False),
        Field("", "suite", lambda row: row.suite),
        Field("", "workload", lambda row: row.workload),
        Field("", "load", lambda row: row.load),
        Field("candidate", "", lambda row: row.candidate.short_label, right=False),
        Field("", "candidate", lambda row: row.candidate.label),
        *_side_fields(names[0], lambda row: row.first, "first"),
        *_side_fields(names[1], lambda row: row.second, "second"),
        Field("", "signs", lambda row: row.sameness.value),
        Field("", "reason", lambda row: row.reason),
        Field(f"{other} / {one}", "", _size),
        Field("sizes", "", lambda row: _mark(row.size.outcome, _SIZE_TONES[row.size.outcome]), right=False),
        Field("signs", "", lambda row: _mark(row.sameness, _TONES[row.sameness], row.reason), right=False),
        Field("", "size", lambda row: row.size.outcome.value),
        Field("", "size_metric", lambda row: row.size.metric),
        *(Field("", f"size_{name}", _of_size(name)) for name in ("ratio", "low", "high", "confidence", "reason")),
    )


def document_of(found: AgreementTable) -> Document:
    """Return the table as a document, the answer about the sizes first."""
    title = f"Sizes and signs of {found.names[0]} and {found.names[1]}"
    sentence, *rest = sentences(found)
    table = table_of(title, fields(found.names), found.rows, keys=2)
    blocks = (table, BulletList(items=tuple(map(Item, rest))))
    return Document(title=title, answer=sentence, sections=(Section(title="Rows", blocks=blocks),))


def to_csv(found: AgreementTable) -> str:
    """Return one row per workload; an empty cell stands for no number."""
    return as_csv(fields(found.names), found.rows)


def to_json(found: AgreementTable) -> str:
    """Return everything, as JSON of the format ``signs``."""
    return printed_json("signs", sentences=sentences(found), signs=labelled(found))
