# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons: of each suite, load and candidate the times to read first, then other metrics.

A page has every comparison as a row of one table: the rows to read first, then other times and rates, memory, events and sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from swapstone.core.model import (
    NO_NUMBERS,
    TAIL_DIFFERS,
    WITHOUT_DIRECTION,
    Analysis,
    Comparison,
    Metric,
    RunSummary,
    Scale,
    Verdict,
    grouped,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.report import formatting
from swapstone.core.report.answer import figures, tails
from swapstone.core.report.answer.limits import values
from swapstone.core.report.answer.means import name_of
from swapstone.core.report.context import ABSENT, ReportContext
from swapstone.core.report.document import (
    Block,
    Cell,
    Column,
    Fold,
    ForestPlot,
    ForestRow,
    Heading,
    PairedRuns,
    Paragraph,
    ResultGroup,
    ResultRow,
    ResultTable,
    Section,
    Table,
    Tone,
)
from swapstone.core.report.topics import measurements, sentences
from swapstone.core.report.topics.comparison_answer import answer
from swapstone.core.report.topics.comparison_groups import (
    Agreement,
    ComparisonGroup,
    Row,
    by_metric,
    comparison_groups,
    shown,
)
from swapstone.core.report.topics.factorial_tables import is_crossed
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.verdict_groups import VERDICT_MARKS

_AGREEMENT_TONES: dict[Agreement | None, Tone] = {Agreement.AGREES: Tone.GOOD, Agreement.DISAGREES: Tone.BAD}


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return one section per suite, load and candidate; of crossed factors they are folded away."""
    if not analysis.comparisons:
        return (Section(title="Comparisons", blocks=(Paragraph("There is nothing to compare in this record."),)),)
    if context.experiment.alone:
        return measurements.sections(context, analysis)
    crossed = is_crossed(analysis)
    found = []
    for group in comparison_groups(context, analysis):
        blocks = tuple(_blocks(context, group))
        title = f"{group.title}: {group.candidate.short_label} against {group.baseline.short_label}"
        if crossed and blocks:
            blocks = (Fold(summary=f"Every row of {title}", blocks=blocks, brief=False),)
        if blocks:
            found.append(Section(title=title, blocks=blocks, brief=not crossed))
    return tuple(found)


def _blocks(context: ReportContext, group: ComparisonGroup) -> Iterator[Block]:
    """Yield the times to read first, then other times and rates, then memory, events and sizes."""
    selection = context.selection
    if group.rows and not selection.metrics:
        yield Paragraph(sentences.verdicts(group.rows))
    full = selection.every or bool(selection.metrics)
    first = next((title for title, rows in group.others if title and rows), "")
    absent: dict[str, list[str]] = {}
    reasons: dict[str, str] = context.piece(ABSENT, dict) or {}
    for title, rows in (("", group.rows), *group.others):
        if title and rows and not full:
            yield _grid(group, title, rows, first=title == first)
            continue
        for metric, of in by_metric(rows):
            name, plot = sentences.metric_name(metric.name), tuple(_plot(context, group, metric, of))
            if title and not selection.metrics and (reason := _absent(of)):
                absent.setdefault(reasons.get(metric.name, reason), []).append(name)
            elif not full and rows is not group.rows:
                note = formatting.count(len(of), "workload")
                yield Fold(summary=f"Also: {name}", note=note, blocks=plot, brief=False)
            elif selection.admits(metric):
                yield Heading(f"{title}: {name}" if title else sentences.heading(metric.name))
                yield from plot
    for reason, names in absent.items():
        yield Paragraph(f"Unavailable, because {reason}: {', '.join(names)}.")


def _absent(rows: Sequence[Row]) -> str:
    """Return why no row of a metric has a number, if it is one reason for all; empty otherwise."""
    found = [row.comparison for row in rows]
    reasons = {c.reason.removesuffix(f" of {c.metric.name}") for c in found}
    all_absent = all(c.verdict is Verdict.UNAVAILABLE for c in found)
    return formatting.safe(reasons.pop()) if all_absent and len(reasons) == 1 else ""


def _plot(
    context: ReportContext,
    group: ComparisonGroup,
    metric: Metric,
    rows: tuple[Row, ...],
) -> Iterator[Block]:
    """Yield a metric's forest plot and the sentences below it."""
    yield Paragraph(f"{sentences.upper_first(metric.meaning)}; {direction(metric)}.", Tone.NOTE)
    yield ForestPlot(
        title=f"{group.title}, {sentences.metric_name(metric.name)}: ratios of {group.candidate.shown_label} to "
        f"{group.baseline.shown_label} with intervals and verdicts",
        before_name=group.baseline.short_label,
        after_name=group.candidate.short_label,
        margin=context.experiment.margin,
        rows=tuple(map(forest_row, rows)),
        reference_name="page" if any(row.published for row in rows) else "",
    )
    yield from map(Paragraph, (*sentences.undecided(rows), *sentences.rejected(rows), *_bounds(rows)))
    yield from _tails(metric, rows)


def _bounds(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the footnote of intervals that are the range of few pairs."""
    found = [(row.comparison.workload, text) for row in rows if (text := tails.bound(row.comparison))]
    if found:
        named = ", ".join(f"{formatting.safe(name)} {text}" for name, text in found)
        yield f"{formatting.BOUNDED} The range of all pairs, which are too few for an interval: {named}."


def _tails(metric: Metric, rows: Iterable[Row]) -> Iterator[Block]:
    """Yield a table of means, 90th percentiles and maxima; nothing without any."""
    found = [c for c in (row.comparison for row in rows) if tails.detail(c) and not c.exact]
    places = [(name, side) for name in ("mean", "p90", "maximum") for side in ("baseline", "candidate")]
    if found:
        yield Table(
            title=f"Medians, means, 90th percentiles and maxima of {sentences.metric_name(metric.name)}",
            columns=(
                Column(("workload",)),
                Column(("medians (interval)",), help="ratio of the medians"),
                Column(("means (interval)",), help="ratio of the arithmetic means"),
                *(Column((name, getattr(found[0], side).short_label), right=True) for name, side in places),
                Column(
                    ("rarest mode",),
                    right=True,
                    help="the rarest slow mode that so many runs show with 99 % probability",
                ),
            ),
            rows=tuple(
                (
                    Cell(c.workload, code=True),
                    *(
                        Cell(text.replace(" times", ""))
                        for text in (tails.average_text(c, "median"), tails.average_text(c))
                    ),
                    *(Cell(_of_runs(getattr(c, f"{side}_runs"), name, c.metric.unit)) for name, side in places),
                    Cell("" if c.rarest_mode is None else formatting.percent(c.rarest_mode)),
                )
                for c in found
            ),
        )


def _of_runs(side: RunSummary | None, name: str, unit: str) -> str:
    return "" if side is None else formatting.quantity(getattr(side, name), unit)


def direction(metric: Metric) -> str:
    """Return which direction of a metric is better, as a clause."""
    better = metric.better.value
    return "neither direction is better" if better == "neither" else f"{better} is better"


def forest_row(row: Row) -> ForestRow:
    """Return a comparison as a row of a forest plot, with its runs where they vary."""
    c = row.comparison
    return msgspec.structs.replace(
        figures.forest_row(c),
        reference=row.published,
        reference_text=formatting.ratio(row.published) if row.published else "",
        reference_note=row.page_note,
        reference_tone=Tone.NOTE if row.another_size else _AGREEMENT_TONES.get(row.agreement, Tone.NOTE),
        runs=paired_runs(c) if varies(c) else None,
    )


def varies(c: Comparison) -> bool:
    """Return whether there are runs to draw: values on both sides that are not all equal."""
    return bool(c.baseline_values and c.candidate_values) and not c.one_number


def paired_runs(c: Comparison, title: str = "") -> PairedRuns:
    """Return the runs of a comparison for a drawing.

    Args:
        c: one for which `varies` holds.
        title: a heading, where nothing else names the row.
    """
    both = (*c.baseline_values, *c.candidate_values)
    return PairedRuns(
        title=title,
        before_name=c.baseline.short_label,
        after_name=c.candidate.short_label,
        before=c.baseline_values,
        after=c.candidate_values,
        low=formatting.quantity(min(both), c.metric.unit),
        high=formatting.quantity(max(both), c.metric.unit),
        mark=VERDICT_MARKS[c.verdict],
        text=_runs_text(c),
    )


def _runs_text(c: Comparison) -> str:
    """Describe the runs of a comparison, and what the analysis found."""
    before, after = values(c)
    unit, pairs = c.metric.unit, formatting.count(len(c.baseline_values), "pair")
    ranges = [
        f"{formatting.quantity(min(numbers), unit)} to {formatting.quantity(max(numbers), unit)}"
        for numbers in (c.baseline_values, c.candidate_values)
    ]
    text = f"{pairs}. Medians {before} and {after}; baseline from {ranges[0]}; candidate from {ranges[1]}."
    level = formatting.digits(c.confidence * 100, 4)
    bound = (
        f"Too few pairs for an interval: {tails.bound(c)}."
        if tails.bound(c)
        else "The values are exact."
        if formatting.is_exact(c)
        else f"The interval holds at {level} %."
    )
    p_value, tail_p_value = (formatting.digits(each or 0.0, 2) for each in (c.p_value, c.tail_p_value))
    more = (
        (c.low is not None, bound),
        (c.p_value is not None, f"p of no difference {p_value}, uncorrected."),
        (formatting.smallest(c), f"The smallest detectable effect: {formatting.smallest(c)}."),
        (tails.detail(c), f"{sentences.upper_first(tails.detail(c))}."),
        (c.tail_p_value is not None, f"p of equal distributions, by their tails, {tail_p_value}, uncorrected."),
        (
            c.rarest_mode is not None,
            f"A separate mode of {formatting.percent(c.rarest_mode or 0.0)} of the runs would show.",
        ),
        (c.carry_over is not None, tails.carry_over_text(c)),
    )
    return " ".join([text, *(sentence for holds, sentence in more if holds)])


def _grid(group: ComparisonGroup, heading: str, found: Sequence[Row], *, first: bool) -> Fold:
    """Return a table with a row per workload and a column per metric."""
    metrics = [metric for metric, _ in by_metric(found)]
    cells = {(row.comparison.workload, row.comparison.metric.name): row for row in found}
    rows = tuple(
        (Cell(name, code=True), *(grid_cell(cells.get((name, metric.name))) for metric in metrics))
        for name in dict.fromkeys(name for name, _ in cells)
    )
    title = f"{group.title}, {heading}: {group.baseline.shown_label}, then {group.candidate.shown_label}, their ratio and the verdict"
    columns = (
        Column(("workload",)),
        *(Column((metric.name,), right=True, help=metric.meaning) for metric in metrics),
    )
    blocks: list[Block] = [Table(title=title, columns=columns, rows=rows, dense=True)]
    blocks += [Paragraph(text) for text in sentences.rejected(found)]
    varied = [row.comparison for row in found if varies(row.comparison)]
    runs = tuple(paired_runs(c, f"{c.workload}, {c.metric.name}") for c in varied)
    if runs:
        summary = f"The runs behind the {formatting.count(len(runs), 'value')} that varied"
        blocks.append(Fold(summary=summary, blocks=runs, brief=False))
    note = ", ".join(sentences.metric_name(metric.name) for metric in metrics)
    summary = f"{heading}, {group.baseline.short_label} → {group.candidate.short_label}"
    return Fold(summary=summary, note=note, blocks=tuple(blocks), open=first)


def grid_cell(row: Row | None) -> Cell:
    """Return the cell of a row in a table of workloads and variants; an empty one for None."""
    if row is None:
        return Cell()
    c = row.comparison
    before, after = values(c)
    effect, pair = shown(c), c.medians
    notes = [f"page {formatting.ratio(row.published)}, {row.page_note}"] if row.published and row.agreement else []
    ratio = c.scale is Scale.RATIO
    if effect is not None and not ratio and not c.one_number:
        notes.insert(0, f"difference {formatting.effect(effect, c)} ({formatting.interval(c)})")
    opposed = tails.opposed(c) if effect is not None else ""
    notes += [opposed] if opposed else []
    return Cell(
        f"{before} → {after}" if before else "",
        short="→".join(_compact(value, c.metric.unit) for value in pair) if pair and effect is not None else "",
        effect=formatting.effect(effect, c) if effect is not None and ratio else "",
        interval=formatting.interval(c) if effect is not None and ratio else "",
        mark=VERDICT_MARKS[c.verdict],
        note="; ".join(notes),
        sign=" pairs" if opposed else "",
    )


def _compact(value: float, unit: str) -> str:
    """Return a value as short as a dense table needs it: ``38.1M`` for 38.1 MiB."""
    return formatting.quantity(value, unit).replace("iB", "").replace(" ", "").removesuffix("B") or "0"


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


COMPARISONS = Topic("comparisons", 130, sections, selective=True, answer=answer, remaining=True, page=page)
