# SPDX-License-Identifier: MIT OR Apache-2.0
"""The values of an experiment with one variant: its answer, and a table with a row for each metric."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import NO_NUMBERS, REFERENCE_SUITE, Analysis, Comparison, Quantity, grouped
from swapstone.core.report import formatting
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.means import Place, phrase_of, places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Cell, Column, Paragraph, Section, Table
from swapstone.core.report.tables import Field, data_of

_SIDE = ("mean", "p90", "maximum")


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section for each suite and load: the program's, then the reference program's."""
    found = grouped(analysis.comparisons, lambda row: (row.suite, row.load))
    return tuple(
        Section(
            title=formatting.place("The reference program" if suite == REFERENCE_SUITE else "Values", load),
            blocks=tuple(_table(context, rows)),
            name=f"values-{suite}-{load}",
            data=data_of(_FIELDS, rows),
            brief=suite != REFERENCE_SUITE,
        )
        for (suite, load), rows in found.items()
    )


_FIELDS: tuple[Field[Comparison], ...] = (
    Field("", "workload", lambda row: row.workload),
    Field("", "metric", lambda row: row.metric.name),
    Field("", "unit", lambda row: row.metric.unit),
    Field("", "median", lambda row: row.effect),
    Field("", "low", lambda row: row.low),
    Field("", "high", lambda row: row.high),
    Field("", "runs", lambda row: len(row.candidate_values)),
    Field("", "reason", lambda row: row.reason),
)


def _table(context: ReportContext, rows: Sequence[Comparison]) -> list[Block]:
    """Return the table of rows with numbers, and a paragraph for each reason for which others have none."""
    admitted = [row for row in rows if context.selection.admits(row.metric)]
    shown = [row for row in admitted if row.verdict not in NO_NUMBERS and row.effect is not None]
    several = len({row.workload for row in rows}) > 1
    columns = (
        *([Column(("workload",))] if several else []),
        Column(("metric",)),
        Column(("median",), right=True),
        Column(("interval",), help=f"at {formatting.percent(context.experiment.confidence)}"),
        *(Column((name,), right=True, optional=True) for name in _SIDE),
        Column(("runs",), right=True, optional=True),
    )
    table = Table(
        title="The value of each metric",
        columns=columns,
        rows=tuple(
            (
                *([Cell(row.workload, code=True)] if several else []),
                Cell(row.metric.name),
                Cell(formatting.effect(row.effect or 0.0, row)),
                Cell("in each run" if row.one_number else formatting.interval(row) or "no interval"),
                *(
                    Cell(
                        formatting.quantity(getattr(row.candidate_runs, name), row.metric.unit)
                        if row.candidate_runs
                        else ""
                    )
                    for name in _SIDE
                ),
                Cell(str(len(row.candidate_values))),
            )
            for row in shown
        ),
        keys=2 if several else 1,
    )
    missing = grouped((row for row in admitted if row not in shown), lambda row: row.reason).items()
    texts = (f"{', '.join(dict.fromkeys(row.metric.name for row in of))}: {why}." for why, of in missing)
    return [*([table] if shown else []), *(Paragraph(formatting.safe(text)) for text in texts)]


def answer(context: ReportContext, analysis: Analysis) -> Answer:
    """Return the answer: each program's time and memory, with their intervals."""
    places = places_of(analysis, context.asked)
    programs = [(place, name) for place in places for name in dict.fromkeys(row.workload for row in place.rows)]
    claims = tuple(claim for place, name in programs for claim in _claims(place, name))
    figures = [block for place in places for block in _table(context, place.rows)]
    against = f"swapstone compare --against {context.quoted_path} {context.command}"
    return Answer(claims=claims, figures=tuple(figures), commands=(("what changed since", against),))


def _claims(place: Place, workload: str) -> list[Claim]:
    rows = [
        row
        for row in place.rows
        if row.workload == workload and row.verdict not in NO_NUMBERS and row.effect is not None
    ]
    lead = [row for row in place.leads if row in rows]
    memory = next((row for row in rows if row.metric.quantity is Quantity.MEMORY), None)
    if not lead:
        return []
    clauses = [_clause(row) for row in lead]
    if memory is not None:
        clauses.append(formatting.effect(memory.effect or 0.0, memory))
    where = "" if place.load == "idle" else f" under load {formatting.safe(place.load)}"
    return [
        Claim(
            suite=place.suite,
            load=place.load,
            text=f"{formatting.safe(workload)} {' and '.join(clauses)}{where}",
            metric=lead[0].metric.name,
            quantity=lead[0].metric.quantity,
            floor=0.0,
        )
    ]


def _clause(row: Comparison) -> str:
    """Return a value with its verb: ``takes 12.3 ms (12.1 to 12.5)``, ``uses 12.3 ms (12.1 to 12.5) of CPU time``."""
    phrase, text = phrase_of(row.metric), formatting.estimate(row)
    return (
        f"takes {text}"
        if phrase.lasts == ""
        else f"{phrase.verb} {text} of {formatting.safe(phrase.noun or phrase.name)}"
    )
