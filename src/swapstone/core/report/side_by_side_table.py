# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of several records side by side: a document, CSV and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from swapstone.core.comparison.row_judgements import Judgement, Outcome, one_scale
from swapstone.core.comparison.side_by_side import Question, SideBySide, SideBySideRow
from swapstone.core.model import IDLE, VIRTUAL_CLOCK, Comparison
from swapstone.core.model.safe_text import safe
from swapstone.core.report import formatting
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.document import (
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
from swapstone.core.report.printed_json import labelled, printed_json
from swapstone.core.report.tables import comma_separated, plain
from swapstone.core.report.topics.comparison_groups import shown
from swapstone.core.report.verdict_groups import LEGEND, VERDICT_MARKS

_TONES = {
    Outcome.SIZE: Tone.WARNING,
    Outcome.UNDECIDED: Tone.NOTE,
    Outcome.NOT_COMPARABLE: Tone.NOTE,
    Outcome.AGREE: Tone.GOOD,
}
"""Of the outcomes; of others it is `Tone.BAD`."""
_NOT_DIFFERENT = (Outcome.AGREE, Outcome.UNDECIDED, Outcome.NOT_COMPARABLE)
_MOST_NAMED = 3
"""Rows named in the answer; the table has all."""
_MOST_ROWS = 16
"""Rows of a brief table of several clocks or boards. A page has all."""
_HEADS = {Question.RECORDS: ("sizes", "signs"), Question.CLOCKS: ("clock", ""), Question.BOARDS: ("boards", "verdicts")}
_MEANINGS = {
    Question.RECORDS: "",
    Question.CLOCKS: "The virtual clock counts a constant time for an instruction, which no hardware has. Where instructions compete with "
    "a device, a timer or a rate in guest time, that constant decides the ratio: a range is printed then, and no single number.",
    Question.BOARDS: "Boards are a random effect: the interval over boards (95 % for each row, not corrected for their number) contains "
    "the spread between them, and is wide with few boards. Spread is the standard deviation of the boards' true ratios.",
}
LOADS = (
    "At N ns, a load executes an Nth of the instructions of 1 ns in a measured second. An event that is rare in it may then be missing: "
    "compare more or longer replicates."
)
_OMITTED = {
    Question.RECORDS: "of other metrics",
    Question.CLOCKS: "of one record alone",
    Question.BOARDS: "without 3 pairs of positive values on every board",
}


def answer(table: SideBySide) -> str:
    """Return the sentence that answers the table's question, with the rows that differ most."""
    total = formatting.count(len(table.rows), "row")
    if table.question is Question.BOARDS:
        held = sum(row.signs is not None and row.signs.outcome is Outcome.AGREE for row in table.rows)
        boards = Counter(board for row in table.rows for board in row.judgement.deviating).most_common()
        named = "; ".join(f"{_label(table, board)}, differs in {formatting.count(n, 'row')}" for board, n in boards)
        text = f"{held} of {total} {'has' if held == 1 else 'have'} the same verdict on each of {len(table.names)} boards and over all"
        return f"{text} of them; {named or 'no board is shown to differ from the others'}."
    clocks = table.question is Question.CLOCKS
    rows, counts = sorted(table.rows, key=_order), Counter(row.judgement.outcome for row in table.rows)
    agree, undecided, silent = (counts[each] for each in (Outcome.AGREE, Outcome.UNDECIDED, Outcome.NOT_COMPARABLE))
    opposite = [row for row in rows if _is_opposite(row)]
    differ = [row for row in rows if row.judgement.outcome not in _NOT_DIFFERENT and not _is_opposite(row)]
    where = f"at {_scales(table)} for each instruction" if clocks else "in size"
    compared = formatting.count(len(rows) - silent, "row")
    verb = f"{'depend' if clocks else 'differ'}{'s' if len(differ) == 1 else ''}{' on the clock' if clocks else ''}"
    wide = [row for row in rows if row.judgement.outcome is not Outcome.AGREE and row.quotient > 1 + table.margin]
    widest = min(wide, key=lambda row: _order(row)[2:], default=None) if clocks and not differ else None
    have = "has" if len(opposite) == 1 else "have"
    parts = (
        f"{formatting.count(len(opposite), 'row')} {have} opposite signs: {_list(opposite, span)}" if opposite else "",
        f"{agree} of {compared} agree {where}, within {formatting.percent(table.margin)}" if silent < len(rows) else "",
        f"No effect of the {total} can be compared {where}" if silent == len(rows) else "",
        f"{len(differ)} {'more ' * bool(opposite)}{verb}: {_list(differ, _effect)}" if differ else "",
        f"{undecided} {'is' if undecided == 1 else 'are'} undecided" if undecided else "",
        f"{silent} can't be compared" if 0 < silent < len(rows) else "",
        f"the widest range of those without a result: {_list([widest], _effect)}" if widest else "",
    )
    return f"{'; '.join(filter(None, parts))}."


def sentences(table: SideBySide) -> tuple[str, ...]:
    """Return the answer, the number of rows of two records that agree in sign, and the spread of each record's runs."""
    found = [answer(table)]
    if table.question is Question.RECORDS:
        counts = Counter(row.signs.outcome for row in table.rows if row.signs)
        agree, opposite, one = counts[Outcome.AGREE], counts[Outcome.OPPOSITE], counts[Outcome.DIFFER]
        cases = (
            f" ({opposite} with opposite signs, {one} where only one side has a difference)" if opposite + one else ""
        )
        found.append(
            f"Signs of {formatting.count(len(table.rows), 'row')}: {agree} of {agree + opposite + one} comparable ones agree, "
            f"{opposite + one} disagree{cases}; {counts[Outcome.NOT_COMPARABLE]} can't be compared."
        )
    for name, clock, spread in zip(table.names, table.clocks, table.spreads, strict=True):
        rows, repeats = formatting.count(spread.rows, "row"), "draw" if clock == VIRTUAL_CLOCK else "block"
        text = f"{safe(name)}: {spread.exact} of {rows} gave one and the same number on each side in every {repeats}"
        if spread.largest is not None:
            text += f"; the largest spread is {formatting.percent(spread.largest)} ({safe(spread.where)})"
        found.append(f"{text}.")
    return tuple(found)


def _name(row: SideBySideRow) -> str:
    return row.workload if row.load == IDLE.name else f"{row.workload} under {row.load}"


def _is_opposite(row: SideBySideRow) -> bool:
    return row.signs is not None and row.signs.outcome is Outcome.OPPOSITE


def _list(rows: Sequence[SideBySideRow], effect: Callable[[SideBySideRow], str]) -> str:
    """Return the first rows with their effects, and the number of the others."""
    named = (
        f"{safe(_name(row))}, {row.metric.name}, {safe(row.candidate.short_label)} {effect(row)}"
        for row in rows[:_MOST_NAMED]
    )
    more = [f"and {len(rows) - _MOST_NAMED} more"] if len(rows) > _MOST_NAMED else []
    return "; ".join([", ".join(named), *more])


def _effect(row: SideBySideRow) -> str:
    return _ratio(row.judgement) or span(row)


def _scales(table: SideBySide) -> str:
    return f"{listed([name.removesuffix(' ns') for name in table.names])} ns"


def _label(table: SideBySide, side: int) -> str:
    return f"board {side + 1}, " * (table.question is Question.BOARDS) + safe(table.names[side])


def span(row: SideBySideRow) -> str:
    """Return the smallest and the largest effect of a row, e.g. ``1.87 to 7.50``; one of them if they print alike.

    A difference and a ratio have no order. They are printed by record, e.g. ``+1.05 and 1045``.
    """
    sides = [
        (each.effect, formatting.effect(each.effect, each)) for each in row.sides if each and each.effect is not None
    ]
    if one_scale(row.sides):
        return " to ".join(dict.fromkeys(text for _, text in sorted(sides)[:: len(sides) - 1 or 1]))
    return " and ".join(text for _, text in sides)


def _order(row: SideBySideRow) -> tuple[bool, int, bool, float, tuple[str, ...]]:
    """Sort key: opposite signs, the outcome, the time that is read first, how far apart the effects are, the name."""
    first = row.metric.leads or any(each is not None and each.preferred for each in row.sides)
    names = row.suite, row.workload, row.load, row.metric.name, row.candidate.label
    return not _is_opposite(row), list(Outcome).index(row.judgement.outcome), not first, -row.quotient, names


def _side(side: Comparison | None, *, brief: bool) -> str:
    """Return a record's effect with its interval, and its verdict; in brief without the interval, with the verdict's letter."""
    effect = shown(side) if side else None
    if side is None or effect is None:
        return side.verdict.value if side else ""
    short = f"{formatting.effect(effect, side)} {VERDICT_MARKS[side.verdict].letter}"
    return (
        short if brief else f"{formatting.estimate(side)} {'(exact) ' if side.one_number else ''}{side.verdict.value}"
    )


def _ratio(found: Judgement) -> str:
    """Return the ratio of two effects, or that over boards, with its interval; empty without one."""
    if found.ratio is None or found.low is None or found.high is None:
        return "" if found.ratio is None else formatting.ratio(found.ratio)
    width = 0.0 if found.exact else min(found.ratio - found.low, found.high - found.ratio)
    ratio, low, high = (formatting.ratio(value, width) for value in (found.ratio, found.low, found.high))
    bounds = "exact" if found.exact else f"{low}–{high}"  # noqa: RUF001 - a dash between numbers
    return f"{ratio} ({bounds}){f' {VERDICT_MARKS[found.verdict].letter}' if found.verdict else ''}"


def _mark(found: Judgement | None) -> Mark | None:
    return Mark(found.outcome.value, "", _TONES.get(found.outcome, Tone.BAD)) if found else None


def _cells(row: SideBySideRow, *, brief: bool) -> tuple[Cell, ...]:
    found = row.judgement
    spread = "" if found.spread is None else f"{100 * math.expm1(found.spread):.1f} %"
    sides = (Cell(_side(side, brief=brief)) for side in row.sides)
    keys = (Cell(_name(row), code=True), Cell(row.metric.name), Cell(row.candidate.short_label))
    outcome = Cell(mark=_mark(found), note=found.reason)
    # Without the reason of the signs: the row has the verdicts, which are it.
    return (*keys, *sides, Cell(_ratio(found)), Cell(spread), outcome, Cell(mark=_mark(row.signs)))


def rows_section(table: SideBySide, title: str = "Rows", name: str = "side-by-side") -> Section:
    """Return the section with every row: those that differ first.

    Args:
        table: of two records at least.
        title: heading.
        name: of the section, unique in its document.
    """
    of_boards = table.question is Question.BOARDS
    sides = [f"board {number}" if of_boards else side for number, side in enumerate(table.names, 1)]
    ratio = "over boards" if of_boards else f"{sides[1]} / {sides[0]}"
    heads = ["workload", "metric", "candidate", *sides, ratio, "spread"]
    short = table.question is not Question.RECORDS
    rows = [_cells(row, brief=short) for row in sorted(table.rows, key=_order)]
    used = [place for place in range(len(heads) + 2) if any(row[place] != Cell() for row in rows)]
    columns = [
        Column((head,), right=3 <= place < len(heads)) for place, head in enumerate((*heads, *_HEADS[table.question]))
    ]
    most = _MOST_ROWS if short else len(rows)
    first, rest = (
        Table(
            title=title,
            columns=tuple(columns[place] for place in used),
            rows=tuple(tuple(row[place] for place in used) for row in part),
            keys=3,
        )
        for part in (rows[:most], rows[most:])
    )
    loaded = table.question is Question.CLOCKS and any(row.load != IDLE.name for row in table.rows)
    notes = (_MEANINGS[table.question], LOADS if loaded else "", f"Verdicts: {LEGEND}." if short else "")
    more = Fold(summary=f"{len(rest.rows)} more, which differ less or not at all", blocks=(rest,), brief=False)
    omitted = f"{formatting.count(table.omitted, 'row')} {_OMITTED[table.question]}: left out."
    blocks: tuple[Block, ...] = (
        *(Paragraph(note, Tone.NOTE) for note in notes if note),
        first,
        *([more] if rest.rows else []),
        *([Paragraph(omitted, Tone.NOTE)] if table.omitted else []),
        BulletList(items=tuple(map(Item, sentences(table)[1:]))),
    )
    return Section(title=title, name=name, blocks=blocks, data=tuple(_data(row, table) for row in table.rows))


def document_of(table: SideBySide, records: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the table as a document, the answer first.

    Args:
        table: of two records at least.
        records: pairs (answer of a record, command that shows it), parallel to the records; none to leave them out.
    """
    titles = {
        Question.RECORDS: f"Sizes and signs of {' and '.join(table.names)}",
        Question.CLOCKS: f"The same experiment at {_scales(table)} for each instruction",
        Question.BOARDS: f"The same experiment on {len(table.names)} boards",
    }
    sections = [rows_section(table)]
    if records:
        labelled_records = [(_label(table, number), *record) for number, record in enumerate(records)]
        answers = tuple(Item(text, label=label) for label, text, _ in labelled_records)
        commands = tuple((f"the record of {label}", command) for label, _, command in labelled_records)
        sections += [
            Section(title="The answer of each record", blocks=(BulletList(items=answers),)),
            Section(title="What to do next", blocks=(Commands(commands=commands),)),
        ]
    return Document(title=titles[table.question], answer=answer(table), sections=tuple(sections))


_SIDE = ("side", "effect", "low", "high", "exact", "verdict")


def _data(row: SideBySideRow, table: SideBySide) -> dict[str, str | float | None]:
    """Return the cells of a row for programs, by column."""
    judgement, signs = row.judgement, row.signs
    found: dict[str, str | float | None] = {
        "suite": row.suite,
        "workload": row.workload,
        "load": row.load,
        "metric": row.metric.name,
        "candidate": row.candidate.label,
    }
    for number, (name, side) in enumerate(zip(table.names, row.sides, strict=True), 1):
        effects = (None,) * 3 if side is None or shown(side) is None else (side.effect, side.low, side.high)
        words = ("", "") if side is None else (str(side.exact).lower(), side.verdict.value)
        found |= {f"{key}_{number}": cell for key, cell in zip(_SIDE, (name, *effects, *words), strict=True)}
    return found | {
        "outcome": judgement.outcome.value,
        "reason": judgement.reason,
        "signs": signs.outcome.value if signs else "",
        "signs_reason": signs.reason if signs else "",
        **{field: getattr(judgement, field) for field in ("ratio", "low", "high", "confidence", "spread")},
        "verdict": judgement.verdict.value if judgement.verdict else "",
        "deviating": " ".join(table.names[board] for board in judgement.deviating),
    }


def to_csv(table: SideBySide) -> str:
    """Return one line per row; an empty cell stands for no number."""
    rows = [_data(row, table) for row in table.rows]
    lines = ([each if isinstance(each, str) else plain(each) for each in row.values()] for row in rows)
    return comma_separated(rows[0], lines)


def to_json(table: SideBySide) -> str:
    """Return everything, as JSON of the format ``side-by-side``, whose list has one table: ``board`` is empty."""
    return printed_json("side-by-side", tables=[{"board": "", "sentences": sentences(table), "table": labelled(table)}])
