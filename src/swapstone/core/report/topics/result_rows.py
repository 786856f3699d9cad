# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every comparison as a row of one table, for a page: the rows to read first, then other times and rates, memory, events and sizes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swapstone.core.model import WITHOUT_DIRECTION, Analysis, Metric, Verdict
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.answer import tails
from swapstone.core.report.answer.means import name_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import (
    Block,
    Paragraph,
    ResultGroup,
    ResultRow,
    ResultTable,
    Section,
    Tone,
)
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import (
    ComparisonGroup,
    Row,
    by_metric,
    comparison_groups,
)
from swapstone.core.report.topics.comparisons import direction, forest_row
from swapstone.core.report.topics.topic import Topic, nothing
from swapstone.core.report.variant_values import grouped
from swapstone.core.report.verdict_groups import NO_NUMBERS, TAIL_DIFFERS

NAME = "results"

Key = tuple[str, str, str]
"""(suite, load, candidate)"""


def page(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section with every comparison, as a table that a page can sort and filter.

    Args:
        context: has the margin, the published study and the selection of metrics.
        analysis: holds the comparisons.
    """
    groups = comparison_groups(context, analysis)
    metrics = _by_metric(context, groups)
    if not metrics:
        return (Section(title="Results", blocks=(Paragraph("There is nothing to compare in this record."),)),)
    keys = {_key(group) for group in groups}
    workloads = {(group.suite, row.comparison.workload) for _, _, found in metrics for group, row in found}
    # A suite is a column only where two suites have a workload of the same name.
    needed = (
        len(workloads) > len({name for _, name in workloads}),
        *(len({key[at] for key in keys}) > 1 for at in (1, 2)),
    )
    places = [place for place in range(3) if needed[place]]
    single = len({key[2] for key in keys}) == 1
    baseline, candidate = groups[0].baseline, groups[0].candidate
    table = ResultTable(
        title="Every result: values of both sides, their ratio with its interval, and the verdict",
        before_name=baseline.short_label if single else "baseline",
        after_name=candidate.short_label if single else "candidate",
        margin=context.experiment.margin,
        key_names=tuple(("suite", "load", "candidate")[place] for place in places),
        groups=tuple(
            ResultGroup(
                title=title,
                note=f"{sentences.upper_first(metric.meaning)}; {direction(metric)}.",
                rows=tuple(_row(group, row, places, context.experiment.margin) for group, row in found),
            )
            for title, metric, found in metrics
        ),
        reference_name="page" if any(row.published for _, _, found in metrics for _, row in found) else "",
    )
    return (Section(title="Results", name=NAME, blocks=(*_read_first(groups), table)),)


def _read_first(groups: tuple[ComparisonGroup, ...]) -> Iterator[Block]:
    """Yield the sentence about the rows to read first."""
    counted = [row for group in groups for row in group.rows]
    workloads = formatting.count(len({(row.comparison.suite, row.comparison.workload) for row in counted}), "workload")
    if counted:
        yield Paragraph(
            f"The rows to read first are one time or rate for each of {workloads}: {sentences.verdicts(counted)}. They stand first; "
            "every other metric follows. A row with + has a drawing of its runs. Detectable: the smallest change that so many runs "
            "would find. Modes: slow runs rarer than that are not excluded. The baseline is "
            f"{formatting.safe(groups[0].baseline.short_label)}.",
            Tone.NOTE,
        )


def _key(group: ComparisonGroup) -> Key:
    return group.suite, group.load, group.candidate.short_label


def _by_metric(
    context: ReportContext, groups: tuple[ComparisonGroup, ...]
) -> list[tuple[str, Metric, list[tuple[ComparisonGroup, Row]]]]:
    """Return (title, metric, rows): each metric that is read first, then other times and rates, then memory, events and sizes."""
    every = (
        (rank, metric, group, rows)
        for group in groups
        for rank, (_, kind) in enumerate((("", group.rows), *group.others))
        for metric, rows in by_metric(kind)
        if context.selection.admits(metric)
    )
    found = grouped(every, lambda each: (each[0], each[1].name))
    first = {name for rank, name in found if rank == 0}
    return [
        (
            _title(of[0][1]) + (", other workloads" if rank == 1 and name in first else ""),
            of[0][1],
            [(group, row) for _, _, group, rows in of for row in rows],
        )
        for (rank, name), of in sorted(found.items(), key=lambda pair: pair[0][0])
    ]


def _title(metric: Metric) -> str:
    """Return a metric's name as a heading, with the short one where they differ."""
    name = name_of(metric)
    if name == metric.name:
        return formatting.safe(name)
    return sentences.upper_first(name) if metric.name in TIMES else f"{sentences.upper_first(name)} ({metric.name})"


def _row(group: ComparisonGroup, row: Row, places: list[int], margin: float) -> ResultRow:
    c, key = row.comparison, _key(group)
    before, after = c.medians or (None, None)
    return ResultRow(
        row=msgspec.structs.replace(forest_row(row), note=_note(row, margin), detail=_detail(row)),
        metric=c.metric.name,
        keys=tuple(key[place] for place in places),
        before=before,
        after=after,
    )


def _note(row: Row, margin: float) -> str:
    """Return why a row has no effect, or which effect would be detected."""
    c = row.comparison
    if c.verdict in NO_NUMBERS:
        return c.reason or "no reason given"
    if c.verdict is Verdict.SAME_MEDIAN:
        return tails.short_limit(c, margin)
    if c.bounded:
        return tails.bound(c)
    if c.verdict is Verdict.BELOW_MARGIN:
        return c.reason
    if c.verdict is Verdict.INCONCLUSIVE and c.reason.startswith(WITHOUT_DIRECTION):
        return c.reason
    if c.verdict is Verdict.INCONCLUSIVE:
        smallest = formatting.smallest(c)
        return f"detectable: {smallest}" if smallest else "too few runs"
    return ""


def _detail(row: Row) -> str:
    """Return mean and tail of a row whose verdict rests on them, and medians that oppose the effect; others are beside the runs."""
    c = row.comparison
    opposed = "" if c.verdict in NO_NUMBERS else tails.opposed(c)
    if c.verdict not in {*TAIL_DIFFERS, Verdict.MIXED}:
        return opposed
    return "; ".join(filter(None, (tails.detail(c) or c.reason, opposed)))


RESULTS = Topic("results", 140, nothing, selective=True, page=page)
