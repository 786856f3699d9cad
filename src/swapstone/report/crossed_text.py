"""Crossed factors for a terminal: the matrix of variants, main effects, interactions, and what they mean in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len

from swapstone.model import Comparison, FactorEffect, Interaction, Presence
from swapstone.report import columns, crossed, marks, sentences, view, words
from swapstone.report.columns import Cell, Paint
from swapstone.report.crossed import CrossedSection, Matrix

_PRESENCE_STYLES = {
    Presence.PRESENT: "odd",
    Presence.ABSENT: "",
    Presence.UNDECIDED: "dim",
    Presence.UNAVAILABLE: "dim",
}
_MOST_SENTENCES = 6
_NAME = 29  # a longer name is cut before it costs a column
_LEAST_NAME = 12


def lines(section: CrossedSection, width: int, paint: Paint, *, every: bool) -> list[str]:
    """Lay out all about one metric.

    Args:
        section: what to show.
        width: columns of the terminal.
        paint: applies styles.
        every: whether to print every table and every sentence, and not only the first.
    """
    name = f"{words.safe(section.title)}: {sentences.metric_name(section.metric.name)}"
    found = _titled(
        f"{name}, each variant against the first", _matrix_lines(section.matrix, width, paint), width, paint
    )
    for text in section.rejected:
        found += columns.wrap(text, width, "  ")
    if section.brief and not every:
        return found
    effects, interactions = section.main, section.interactions
    if effects.lines:
        body = [(label, [_effect_cell(cell) for cell in cells]) for label, cells in effects.lines]
        head = [[words.safe(change.label) for change in effects.columns]]
        title = f"{name}, main effects: the mean over the other factors' levels"
        found += _titled(title, _chunks([""], head, body, width, paint, right=False), width, paint)
        dependences = crossed.dependences(effects)
        for text in (f"* {dependences}" if dependences else "", crossed.left_out(effects)):
            found += columns.wrap(text, width, "  ") if text else []
    if interactions.lines:
        rows = [(label, [_interaction_cell(cell) for cell in cells]) for label, cells in interactions.lines]
        head = [[crossed.pair(*pair) for pair in interactions.columns]]
        title = f"{name}, interactions: the first's ratio with the second, over its ratio without"
        found += _titled(title, _chunks([""], head, rows, width, paint, right=False), width, paint)
        found += _sentences(section, width, paint, every=every)
    return found


def _titled(title: str, body: list[str], width: int, paint: Paint) -> list[str]:
    return ["", *(paint(line, "bold") for line in columns.wrap(title, width, "  ")), *body]


def _matrix_lines(matrix: Matrix, width: int, paint: Paint) -> list[str]:
    """Lay out the baseline's values, then each variant's ratio with a mark for the verdict."""
    head = [
        [words.safe(levels[place]) for levels in (matrix.baseline, *matrix.variants)]
        for place in range(len(matrix.factors))
    ]
    body = [(name, [Cell(crossed.baseline_text(line)), *map(_ratio_cell, line)]) for name, line in matrix.lines]
    if matrix.indices:
        ratios = [Cell("" if each is None else f"{words.ratio(each.effect)}  ", "bold") for each in matrix.indices]
        body.append((crossed.INDEX, [Cell(""), *ratios]))
    return _chunks([words.safe(name) for name in matrix.factors], head, body, width, paint, right=True)


def _ratio_cell(c: Comparison | None) -> Cell:
    if c is None:
        return Cell("")
    effect = view.shown(c)
    text = "" if effect is None else f"{words.effect(effect, c)} "
    return Cell(text + marks.MARKS[c.verdict], marks.STYLES[c.verdict])


def _effect_cell(cell: FactorEffect | None) -> Cell:
    if cell is None or cell.effect is None:
        return Cell("" if cell is None else marks.MARKS[cell.verdict], "dim")
    star = "*" if cell.depends_on else ""
    return Cell(f"{_with_interval(cell, cell.effect)} {marks.MARKS[cell.verdict]}{star}", marks.STYLES[cell.verdict])


def _interaction_cell(cell: Interaction | None) -> Cell:
    if cell is None:
        return Cell("")
    text = "" if cell.effect is None else f"{_with_interval(cell, cell.effect)} "
    return Cell(text + cell.presence.value, _PRESENCE_STYLES[cell.presence])


def _with_interval(cell: FactorEffect | Interaction, effect: float) -> str:
    between = words.interval(cell)
    return f"{words.effect(effect, cell)} ({between})" if between else words.effect(effect, cell)


def _sentences(section: CrossedSection, width: int, paint: Paint, *, every: bool) -> list[str]:
    cells = section.interactions.cells
    told = crossed.told(section.interactions)
    present = [each for each in told if each.workload]
    found: list[str] = []
    for each in told[: None if every else len(told) - len(present) + _MOST_SENTENCES]:
        text = f"{words.safe(each.workload) or sentences.upper_first(crossed.INDEX)}: {crossed.sentence(each)}."
        found += [paint(line, "" if each.workload else "bold") for line in columns.wrap(text, width, "  ")]
    if not every and len(present) > _MOST_SENTENCES:
        found.append(f"  and {len(present) - _MOST_SENTENCES} more that are present")
    for text in (crossed.counted(section.interactions), crossed.undecided(cells, None if every else _MOST_SENTENCES)):
        found += columns.wrap(text, width, "  ") if text else []
    return found


def _chunks(
    corner: Sequence[str],
    head: Sequence[Sequence[str]],
    body: Sequence[tuple[str, Sequence[Cell]]],
    width: int,
    paint: Paint,
    *,
    right: bool,
) -> list[str]:
    """Lay out a table with several lines of headings; where it is too wide, as several with equally many columns.

    Args:
        corner: names of the lines of headings.
        head: the lines of headings, a text per column.
        body: name and cells of each line.
        width: columns of the terminal.
        paint: applies styles.
        right: whether cells are flush right.
    """
    count = len(head[0])
    if not count:
        return []
    widest = [
        max(cell_len(text) for text in (*(line[i] for line in head), *(cells[i].text for _, cells in body)))
        for i in range(count)
    ]
    name = max(cell_len(text) for text in (*corner, *(words.safe(label) for label, _ in body)))
    room = max(1, (width - min(name, _NAME)) // (max(widest) + 1))
    each = math.ceil(count / math.ceil(count / room))
    found: list[str] = []
    for start in range(0, count, each):
        stop = min(count, start + each)
        rows = [
            [Cell(label, "dim"), *(Cell(text, "dim") for text in line[start:stop])]
            for label, line in zip(corner, head, strict=True)
        ]
        rows += [[Cell(words.safe(label)), *cells[start:stop]] for label, cells in body]
        most = [min(size, width - _LEAST_NAME - 1) for size in widest[start:stop]]
        limit = [max(_LEAST_NAME, width - sum(most) - len(most)), *most]
        found += [*([""] if start else []), *columns.table(rows, [False, *([right] * len(most))], limit, paint)]
    return found
