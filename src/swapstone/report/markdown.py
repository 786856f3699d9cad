"""The report as Markdown (GitHub's dialect): for an issue, a merge request, a wiki."""

from __future__ import annotations

import re

from swapstone.model import Analysis, Verdict
from swapstone.report import crossed, crossed_markdown, exhibits, exhibits_markdown, sentences, view, why, words
from swapstone.report.context import ReportContext
from swapstone.report.markdown_parts import code, details, plain, table
from swapstone.report.view import Grid, Row, Section

_STRONG = {Verdict.BETTER, Verdict.WORSE}


def _effect(row: Row) -> tuple[str, str]:
    c = row.comparison
    effect = view.shown(c)
    if effect is None:
        return "", ""
    return words.effect(effect, c), "exact" if c.exact else words.interval(c)


def _full(rows: tuple[Row, ...], section: Section) -> list[str]:
    page = any(row.published for row in rows)
    head = [
        "workload",
        plain(section.baseline.short_label),
        plain(section.candidate.short_label),
        "ratio",
        "interval",
        "verdict",
    ]
    head += ["page", "sign"] if page else []
    body = []
    for row in rows:
        c = row.comparison
        pair = view.medians(c)
        values = [words.quantity(value, c.metric.unit) for value in pair] if pair else ["", ""]
        verdict = f"**{c.verdict.value}**" if c.verdict in _STRONG else c.verdict.value
        cells = [code(c.workload), *map(plain, values), *_effect(row), verdict]
        if page:
            cells += [
                words.ratio(row.published.ratio) if row.published else "",
                row.agreement.value if row.agreement else "",
            ]
        body.append(cells)
    return table(head, [False, True, True, True, True, False] + [True, False] * page, body)


def _grid(grid: Grid) -> list[str]:
    body = []
    for name, cells in grid.lines:
        line = [code(name)]
        for row in cells:
            pair = view.medians(row.comparison) if row else None
            if row is None or pair is None:
                line.append("")
                continue
            c = row.comparison
            text = " → ".join(words.quantity(value, c.metric.unit) for value in pair)
            ratio = view.shown_ratio(c)
            times = "" if ratio is None else f" ({words.ratio(ratio)})"
            line.append(f"{plain(text)}{times}, {c.verdict.value}")
        body.append(line)
    head = ["workload", *(code(metric.name) for metric in grid.metrics)]
    return table(head, [False] * len(head), body)


def _section(section: Section) -> list[str]:
    lines = [
        "",
        f"## {plain(section.title)}: {plain(section.candidate.label)} against {plain(section.baseline.label)}",
        "",
    ]
    if section.rows:
        lines.append(plain(sentences.summary(section)))
    for metric, rows in section.times:
        lines += ["", f"### {plain(sentences.metric_name(metric.name))}", *_full(rows, section)]
        lines += [f"{plain(text)}\n" for text in (sentences.undecided(rows), *sentences.rejected(rows)) if text]
    for metric, rows in section.others:
        lines += details(f"{words.count(len(rows), 'workload')} in {metric_heading(metric.name)}", _full(rows, section))
    for grid in section.grids:
        lines += details(f"{grid.title}: {metric_headings(grid)}", _grid(grid))
    return lines


def _folded(section: Section) -> str:
    """Name a section for HTML inside Markdown: nothing that either of the two would obey."""
    return re.sub(r"[^\w =,.:+-]", "", words.safe(f"{section.title}: {section.candidate.label}"))


def metric_heading(name: str) -> str:
    """Return a metric's name for HTML inside Markdown."""
    return re.sub(r"[<>&\"'`]", "", sentences.metric_name(name))


def metric_headings(grid: Grid) -> str:
    """Return the names of a grid's metrics for HTML inside Markdown."""
    return ", ".join(metric_heading(metric.name) for metric in grid.metrics)


def _evidence(context: ReportContext, analysis: Analysis, found: tuple[Section, ...]) -> list[str]:
    lines = []
    copies = {null.copy for null in analysis.nulls}
    for index in analysis.indices:
        if index.candidate not in copies:
            lines.append(f"- **Index.** {plain(sentences.index(index, context))}.")
    baseline = analysis.comparisons[0].baseline.label if analysis.comparisons else "the baseline"
    for null in analysis.nulls:
        lines.append(f"- **Null.** {plain(sentences.null(null, baseline))}.")
        lines += [f"  - {plain(sentences.index(index, context))}." for index in null.index]
    if analysis.layouts:
        lines.append(f"- **Layouts.** {plain(sentences.layouts_note(context))}")
        lines += [f"  - {plain(sentences.layout(each))}." for each in sentences.layouts(analysis)]
    rows = tuple(row for section in found for row in section.rows)
    if context.published and any(row.published for row in rows):
        lines.append(f"- **Published.** {plain(sentences.page(context.published))}")
        lines.append(f"  - Time: {plain(sentences.against_page(rows))}")
        lines.append(f"  - Memory: {plain(sentences.against_page(view.memory_rows(found)))}")
    for failure in crossed.failures(analysis):
        lines.append(f"- **No numbers.** {code(failure.key)}: {failure.status}: {plain(failure.reason)}")
    return lines


def render(context: ReportContext, analysis: Analysis) -> str:
    """Render an analysis as Markdown.

    Args:
        context: what stands beside the comparisons.
        analysis: what may be said.

    Returns:
        The text, ending in a newline. Text from outside is shown, never interpreted.
    """
    found = view.sections(context, analysis)
    lines = [f"# {plain(view.title(context))}", "", plain(sentences.effort(context, analysis)), ""]
    lines.append(f"- {plain(sentences.machine(context, analysis))}")
    for caveat in analysis.caveats:
        hint = f" {plain(caveat.hint)}" if caveat.hint else ""
        lines.append(f"- **Caveat.** {plain(caveat.message)}{hint}")
    shown = exhibits.exhibits(context, analysis)
    lines += [f"- **Caveat.** {plain(flag)}" for flag in exhibits.flags(shown)]
    lines += [f"- {plain(note)}" for note in context.notes]
    lines += ["", *_evidence(context, analysis, found)]
    for exhibit in shown:
        lines += exhibits_markdown.lines(exhibit)
    for each in crossed.sections(context, analysis):
        lines += crossed_markdown.lines(each)
    for section in found:
        if crossed.is_crossed(analysis):
            lines += details(_folded(section), _section(section))
        else:
            lines += _section(section)
    lines += why.markdown_lines(context)
    if context.facts:
        lines += ["", "## Environment"]
        lines += table(
            ["what", "value"], [False, False], [(plain(label), plain(value)) for label, value in context.facts]
        )
    lines += ["", "## Again", "", f"Record {code(context.record_id)}, {code(context.record_path)}.", ""]
    if context.rerun:
        lines += [f"    {words.safe(context.rerun)}", ""]
    if context.version:
        lines.append(f"swapstone {plain(context.version)}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
