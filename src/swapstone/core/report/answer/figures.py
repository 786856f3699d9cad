# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two tables of an overview: one ratio for each quantity, and the rows that matter most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

from swapstone.core.model import DECIDED, NO_NUMBERS, TAIL_DIFFERS, Comparison, Scale, Verdict
from swapstone.core.report import formatting
from swapstone.core.report.answer import tails
from swapstone.core.report.answer.limits import row_name, values
from swapstone.core.report.answer.means import Mean, Place, name_of
from swapstone.core.report.document import Block, Cell, Column, ForestPlot, ForestRow, Paragraph, Table
from swapstone.core.report.tables import Field, short_table
from swapstone.core.report.verdict_groups import COUNTED, VERDICT_MARKS

MOST_ROWS = 8
ROWS_TITLE = "The rows to read first, the worst at the top"
"""The heading of the rows that matter most. It states nothing of them: a terminal may leave rows out, and further ones may differ."""
_SHORT = {"requests a second": "requests/s", "CPU time of a request": "CPU/request"}


def ratio_table(places: Sequence[Place], margin: float) -> tuple[Block, ...]:
    """Return the table with one ratio for each quantity; a row per quantity, or of several candidates a row for each of them.

    Mean and tail follow below the table of a single row, where they differ from the median.
    """
    shown = [place for place in places if place.leads and (place.means or place.asked)] or [
        place for place in places if place.means
    ]
    if not shown:
        return ()
    if len(shown) > 1:
        return (_by_place(shown),)
    (place,) = shown
    if place.workloads > 1:
        return (_by_quantity(place),)
    first = dict.fromkeys((*(mean.rows[0] for mean in place.means), *place.asked))
    notes = (f"{name_of(row.metric)}: {tails.detail(row)}." for row in first if tails.matters(row, margin))
    return (_one_row_table(place), *(Paragraph(text[:1].upper() + text[1:]) for text in notes))


def _by_quantity(place: Place) -> Table:
    """Return a row per quantity, with the number of workloads for each verdict."""
    counted = [(name, verdicts) for name, verdicts in COUNTED if any(mean.count(*verdicts) for mean in place.means)]
    columns = (
        Column(("",)),
        Column((f"{place.names[0]} / {place.names[1]}",)),
        *(Column((name,), right=True, optional=place > 1) for place, (name, _) in enumerate(counted)),
    )
    rows = tuple(
        (
            Cell(f"{mean.name}, index" if mean.indexed else mean.name),
            mean_cell(mean),
            *(Cell(str(mean.count(*verdicts) or "")) for _, verdicts in counted),
        )
        for mean in place.means
    )
    title = f"Ratios of {place.names[0]} to {place.names[1]}, and the number of workloads with each verdict"
    return Table(title=title, columns=columns, rows=rows)


def mean_cell(mean: Mean | None) -> Cell:
    """Return a mean's ratio with its interval as a cell."""
    if mean is None:
        return Cell()
    text, dash = (formatting.exact_effect, " to ") if mean.exact else (formatting.ratio, "–")  # noqa: RUF001 - a dash
    if mean.low is None or mean.high is None:
        ranged = formatting.pair_range(mean.rows[0]) if len(mean.rows) == 1 else ""
        return Cell(effect=text(mean.effect), interval=ranged or "no interval")
    low, high = text(mean.low), text(mean.high)
    same = mean.low == mean.high or (mean.exact and low == high)
    return Cell(effect=text(mean.effect), interval="" if same else f"{low}{dash}{high}")


def _one_row_table(place: Place) -> Table:
    """Return the quantities of one workload: both values, the ratio and the verdict."""
    columns = (
        Column(("",)),
        Column((place.names[1],), right=True, optional=True),
        Column((place.names[0],), right=True, optional=True),
        Column(("ratio",)),
    )
    rows = []
    first = {mean.metric.name: mean.rows[0] for mean in place.means}
    others = (row for row in place.leads if row in place.asked or row.verdict is Verdict.DISTURBED)
    for row in (*(row for row in others if row.metric.name not in first), *first.values()):
        mean = place.mean(row.metric.name)
        cell = _difference_cell(row) if mean is None else mean_cell(mean)
        interval = cell.interval + (formatting.BOUNDED if cell.interval and row.bounded else "")
        marked = msgspec.structs.replace(cell, interval=interval, mark=VERDICT_MARKS[row.verdict])
        rows.append((Cell(name_of(row.metric)), *map(Cell, values(row)), marked))
    return Table(title=f"Ratios of {place.names[0]} to {place.names[1]}", columns=columns, rows=tuple(rows))


def _difference_cell(row: Comparison) -> Cell:
    """Return the difference of a row that has no ratio, with its interval; of a disturbed one the range of its pairs."""
    if row.verdict is Verdict.DISTURBED:
        return Cell(effect=formatting.pair_range(row))
    if row.verdict in NO_NUMBERS or row.effect is None:
        return Cell()
    return Cell(
        effect=formatting.effect(row.effect, row), interval=formatting.interval(row).removesuffix(formatting.BOUNDED)
    )


def _by_place(places: Sequence[Place]) -> Table:
    """Return a row per candidate, suite and load, with the ratio of each quantity."""
    names = list(dict.fromkeys(mean.name for place in places for mean in place.means))
    candidates = len({place.candidate for place in places}) > 1
    where = len({(place.suite, place.load) for place in places}) > 1

    def ratio(name: str) -> Field[Place]:
        return Field(
            _SHORT.get(name, name),
            "",
            lambda place: mean_cell({mean.name: mean for mean in place.means}.get(name)),
            right=False,
        )

    fields: tuple[Field[Place], ...] = (
        Field(
            "candidate" if candidates or not where else "",
            "",
            lambda place: formatting.safe(place.candidate.short_label),
            right=False,
        ),
        Field(
            "measured on" if where else "",
            "",
            lambda place: formatting.safe(formatting.place(place.suite, place.load)),
            right=False,
        ),
        *map(ratio, names),
    )
    optional = [_SHORT.get(name, name) for name in names[2:]]
    title, keys = f"Ratios to {places[0].names[1]}", sum(bool(field.head) for field in fields[:2])
    return short_table(title, fields, places, MOST_ROWS, keys=keys, optional=optional)


def _distance(row: Comparison) -> float:
    """Return the logarithm of a row's ratio, above 0 where the candidate is worse or only larger; 0 without a ratio.

    Of a row with another tail it is the ratio of means.
    """
    effect = row.mean_effect if row.verdict in TAIL_DIFFERS else row.effect
    if row.scale is not Scale.RATIO or effect is None or effect <= 0:
        return 0.0
    size = math.log(effect)
    return -size if row.metric.better.value == "higher" else size


def chosen(rows: Sequence[Comparison], most: int = MOST_ROWS) -> tuple[list[Comparison], int]:
    """Return the rows that matter most, from the worst to the best, and the number of rows above the gap where others are left out.

    The worst and the best are always among them. The others are those with the largest ratios in either direction whose verdict is a
    difference, then those without such a verdict.
    """
    usable = sorted(
        (row for row in rows if row.verdict not in NO_NUMBERS and row.effect is not None),
        key=lambda row: -_distance(row),
    )
    if len(usable) <= most:
        return usable, len(usable)
    ends = [0, len(usable) - 1]
    inner = sorted(
        range(1, len(usable) - 1), key=lambda i: (usable[i].verdict not in DECIDED, -abs(_distance(usable[i])))
    )
    kept = sorted([*ends, *inner[: most - 2]])
    gap = next((place for place, (index, after) in enumerate(itertools.pairwise(kept)) if after != index + 1), 0)
    return [usable[index] for index in kept], gap + 1


def rows_plot(rows: Sequence[Comparison], margin: float) -> tuple[Block, ...]:
    """Return a forest plot of the rows that matter most; nothing for a single row, which the table of ratios holds."""
    shown, after = chosen(rows)
    if len(rows) < 2 or not shown:
        return ()
    single = len({row.candidate for row in shown}) == 1
    left_out = len(rows) - len(shown)
    return (
        ForestPlot(
            title=ROWS_TITLE,
            before_name=formatting.safe(shown[0].baseline.short_label),
            after_name=formatting.safe(shown[0].candidate.short_label) if single else "candidate",
            margin=margin,
            rows=tuple(_forest_row(row, rows, margin) for row in shown),
            left_out=left_out,
            left_out_after=after if left_out else 0,
        ),
    )


def _forest_row(row: Comparison, rows: Sequence[Comparison], margin: float) -> ForestRow:
    found = forest_row(row)
    details = (tails.detail(row) if tails.matters(row, margin) else "", found.detail)
    return msgspec.structs.replace(found, name=row_name(row, rows), detail="; ".join(filter(None, details)))


def forest_row(row: Comparison) -> ForestRow:
    """Return a comparison as a row of a forest plot; without an effect if its runs can't be compared."""
    before, after = values(row)
    effect = row.effect if row.verdict not in NO_NUMBERS and row.baseline_values else None
    drawn = row.scale is Scale.RATIO and effect is not None and effect > 0
    return ForestRow(
        name=row.workload,
        before=before,
        after=after,
        effect=_difference_cell(row).effect if effect is None else formatting.effect(effect, row),
        interval=""
        if effect is None
        else "exact"
        if row.one_number
        else formatting.interval(row) or formatting.pair_range(row),
        mark=VERDICT_MARKS[row.verdict],
        ratio=effect if drawn else None,
        low=row.low if drawn else None,
        high=row.high if drawn else None,
        detail="" if effect is None else tails.opposed(row),
    )
