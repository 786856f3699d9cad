# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts that every answer about ratios has beside its sentence."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.report.answer import figures, limits
from swapstone.core.report.answer.answer import Answer
from swapstone.core.report.answer.claim import Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import Place
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Item


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
    rows = [row for place in places for row in place.leads]
    return Answer(
        claims=tuple(claims),
        figures=figures.ratio_table(places, margin=context.experiment.margin),
        rows=table or figures.rows_plot(rows, margin=context.experiment.margin),
        rows_title=table_title if table else figures.rows_title(rows),
        unknown=(*limits.rejected(rows), *undecided, *limits.open_rows(rows)),
        commands=commands_for(context, rows),
    )
