# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts that every answer about ratios has beside its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.core.model import Comparison
from swapstone.core.report.answer import figures, limits
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import Place
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Item
from swapstone.core.report.verdict_groups import DECIDED


def ratio_answer(
    context: ReportContext,
    places: Sequence[Place],
    claims: Sequence[Claim],
    *,
    table: tuple[Block, ...] = (),
    table_title: str = "",
    undecided: tuple[Item, ...] = (),
) -> Answer:
    """Return an answer with the table of ratios, the rows that matter most, what limits them, and commands.

    Args:
        context: gives the margin, and the commands.
        places: of the comparisons.
        claims: the results.
        table: in the place of the rows that matter most; empty for those.
        table_title: its heading.
        undecided: what else is undecided.
    """
    rows = [row for place in places for row in _rows_of(place)]
    return Answer(
        claims=tuple(claims),
        figures=figures.ratio_table(places, margin=context.experiment.margin),
        rows=table or figures.rows_plot(rows, margin=context.experiment.margin),
        rows_title=table_title if table else figures.ROWS_TITLE,
        unknown=(*limits.rejected(rows), *undecided, *limits.open_rows(rows)),
        commands=commands_for(context, rows),
    )


def _rows_of(place: Place) -> Iterator[Comparison]:
    """Yield the rows to read first, and CPU times with another verdict than what is read first of their workload."""
    first = {(row.workload, row.verdict) for row in place.leads}
    yield from place.leads
    others = (row for row in place.deciding if place.leads and row not in place.leads)
    yield from (row for row in others if row.verdict in DECIDED and (row.workload, row.verdict) not in first)
