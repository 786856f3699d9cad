"""The report for a terminal, or for a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len

from swapstone.model import Analysis, Comparison, FrozenStruct
from swapstone.report import columns, crossed, crossed_text, exhibits, exhibits_text, marks, sentences, view, why, words
from swapstone.report.columns import Cell, Paint
from swapstone.report.context import ReportContext
from swapstone.report.exhibit import Exhibit
from swapstone.report.view import Agreement, Grid, Row, Section

_AGREEMENT_STYLES = {Agreement.AGREES: "good", Agreement.DISAGREES: "bad"}
_LEAST = 64  # a cut name, both values, a ratio with its interval and a verdict need so much
_NARROW = 100  # from here on a bar fits
_VALUE, _WIDE_VALUE = 9, 16  # a column of values is no wider, on a narrow terminal and on others
_WIDE = 116  # from here on the published ratio fits beside ours


class Selection(FrozenStruct, frozen=True, kw_only=True):
    """Which rows to print.

    Attributes:
        every: one full row for every comparison, not only for those that are read first.
        metrics: only these metrics, by name; empty for all.
    """

    every: bool = False
    metrics: tuple[str, ...] = ()

    def admits(self, comparison: Comparison) -> bool:
        """Return whether a comparison's metric was asked for."""
        return not self.metrics or comparison.metric.name in self.metrics


def _values(comparison: Comparison) -> tuple[str, str]:
    pair = view.medians(comparison)
    if pair is None:
        return "", ""
    return words.quantity(pair[0], comparison.metric.unit), words.quantity(pair[1], comparison.metric.unit)


def _effect(comparison: Comparison) -> str:
    effect = view.shown(comparison)
    if effect is None:
        return ""
    text, between = words.effect(effect, comparison), words.interval(comparison)
    if comparison.exact:
        return f"{text} exact"
    return f"{text} ({between})" if between else text


def _reach(rows: tuple[Row, ...]) -> float:
    ratios = [view.shown_ratio(row.comparison) for row in rows]
    most = max((abs(math.log(ratio)) for ratio in ratios if ratio is not None), default=0.0)
    return float(2 ** max(1, math.ceil(most / math.log(2) - 1e-9)))


def _full_table(rows: tuple[Row, ...], section: Section, width: int, paint: Paint) -> list[str]:
    """Lay out one row per comparison: name, both values, ratio, and as the width allows a bar and the published ratio."""
    page = width >= _WIDE and any(row.published for row in rows)
    bars = width >= _NARROW
    reach = _reach(rows)
    head = ["", words.safe(section.baseline.short_label), words.safe(section.candidate.short_label), "ratio (interval)"]
    if bars:
        head.append(f"1/{reach:.0f}".ljust(6) + "1" + f"{reach:.0f}".rjust(6))
    head += ["verdict", "page", "sign"] if page else ["verdict"]
    body = [[Cell(text, "dim") for text in head]]
    for row in rows:
        c = row.comparison
        before, after = _values(c)
        style = marks.STYLES[c.verdict]
        cells = [Cell(words.safe(c.workload)), Cell(before), Cell(after), Cell(_effect(c))]
        if bars:
            drawn = view.shown_ratio(c)
            cells.append(Cell("" if drawn is None else columns.bar(drawn, reach), style))
        cells.append(Cell(c.verdict.value, style))
        if page:
            ratio = words.ratio(row.published.ratio) if row.published else ""
            kind = row.agreement
            cells += [Cell(ratio), Cell(kind.value if kind else "", _AGREEMENT_STYLES.get(kind, "dim") if kind else "")]
        body.append(cells)
    right = [False, True, True, False] + [False] * bars + [False] + [True, False] * page
    # A variant of several factors has a name that is longer than its values.
    value = _VALUE if width < _NARROW else _WIDE_VALUE
    limit = [0, value, value, *([0] * (len(right) - 3))]
    limit[0] = _name_limit(body, width, right, limit)
    return columns.table(body, right, limit, paint)


def _name_limit(body: list[list[Cell]], width: int, right: list[bool], limit: Sequence[int] = ()) -> int:
    widest = [max(cell_len(line[i].text) for line in body) for i in range(len(right))]
    others = sum(
        min(size, most) if most else size for size, most in zip(widest, limit or [0] * len(right), strict=True)
    )
    return max(12, width - (others - widest[0]) - (len(right) - 1))


def _page_table(rows: tuple[Row, ...], paint: Paint) -> list[str]:
    body = [[Cell(text, "dim") for text in ("beside the published page", "here", "page", "sign")]]
    for row in rows:
        if row.published and row.agreement:
            effect = view.shown(row.comparison)
            ours = "" if effect is None else words.effect(effect, row.comparison)
            style = _AGREEMENT_STYLES.get(row.agreement, "dim")
            name = Cell(words.safe(row.comparison.workload))
            body.append([name, Cell(ours), Cell(words.ratio(row.published.ratio)), Cell(row.agreement.value, style)])
    return columns.table(body, [False, True, True, False], [40, 0, 0, 0], paint) if len(body) > 1 else []


def _compact(value: float, unit: str) -> str:
    """Return a value as short as a grid's cell needs it: ``38.1M`` for 38.1 MiB."""
    return words.quantity(value, unit).replace("iB", "").replace(" ", "").removesuffix("B") or "0"


def _grid_cell(row: Row | None, wide: bool) -> tuple[Cell, Cell, Cell]:
    if row is None:
        return Cell(""), Cell(""), Cell("")
    c = row.comparison
    pair = view.medians(c)
    mark = Cell(marks.MARKS[c.verdict], marks.STYLES[c.verdict])
    if pair is None or view.shown(c) is None:
        return Cell("", ""), Cell(""), mark
    text = "→".join(_compact(value, c.metric.unit) for value in pair)
    ratio = view.shown_ratio(c) if wide else None
    times = "" if ratio is None else f"×{words.ratio(ratio)}"  # noqa: RUF001 - a times sign
    return Cell(text), Cell(times), mark


def _grid_table(grid: Grid, width: int, paint: Paint) -> list[str]:
    """Lay out a grid: per metric baseline → candidate, the ratio where there is room, and a mark for the verdict."""
    longest = max(cell_len(words.safe(name)) for name, _ in grid.lines)
    lines = []
    room = max(1, (width - min(longest, 29)) // 15)
    for start in range(0, len(grid.metrics), room):
        metrics = grid.metrics[start : start + room]
        wide = width >= min(longest, 29) + 24 * len(metrics)
        head = [Cell("")]
        for metric in metrics:
            head += [Cell(words.safe(metric.name), "dim"), *([Cell("")] * wide), Cell("")]
        body = [head]
        for name, cells in grid.lines:
            line = [Cell(words.safe(name))]
            for row in cells[start : start + room]:
                text, ratio, mark = _grid_cell(row, wide)
                line += [text, *([ratio] * wide), mark]
            body.append(line)
        right = [False] + [True, *([True] * wide), False] * len(metrics)
        lines += columns.table(body, right, [_name_limit(body, width, right), *([0] * (len(right) - 1))], paint)
    return lines


def _caveats(
    context: ReportContext, analysis: Analysis, shown: tuple[Exhibit, ...], width: int, paint: Paint
) -> list[str]:
    lines = [
        paint(line, "warn" if analysis.noise.busy else "dim")
        for line in columns.wrap(sentences.machine(context, analysis), width, "  ")
    ]
    for caveat in analysis.caveats:
        text = f"! {words.safe(caveat.message)}" + (f" {words.safe(caveat.hint)}" if caveat.hint else "")
        lines += [paint(line, "warn") for line in columns.wrap(text, width, "  ")]
    for flag in exhibits.flags(shown):
        lines += [paint(line, "warn") for line in columns.wrap(f"! {words.safe(flag)}", width, "  ")]
    for note in context.notes:
        lines += columns.wrap(f"* {words.safe(note)}", width, "  ")
    return lines


def _after_rows(rows: tuple[Row, ...], width: int) -> list[str]:
    lines = []
    for text in (sentences.undecided(rows), *sentences.rejected(rows)):
        if text:
            lines += columns.wrap(text, width, "  ")
    return lines


def _section(section: Section, width: int, paint: Paint, selection: Selection) -> list[str]:
    def admitted(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(row for row in rows if selection.admits(row.comparison))

    full = [*section.times]
    if selection.every or selection.metrics:
        full += section.others
    lines: list[str] = []
    for metric, rows in full:
        shown = admitted(rows)
        if shown:
            title = f"{words.safe(section.title)}: {sentences.metric_name(metric.name)}, {words.safe(section.candidate.label)}"
            lines += ["", paint(title, "bold"), *_full_table(shown, section, width, paint)]
            lines += _after_rows(shown, width)
            if width < _WIDE:
                page = _page_table(shown, paint)
                lines += ["", *page] if page else []
    for grid in section.grids:
        if selection.every or selection.metrics:
            for i, metric in enumerate(grid.metrics):
                rows = admitted(tuple(row for _, cells in grid.lines if (row := cells[i]) is not None))
                if rows:
                    title = f"{words.safe(section.title)}: {words.safe(metric.name)}"
                    lines += [
                        "",
                        paint(title, "bold"),
                        *_full_table(rows, section, width, paint),
                        *_after_rows(rows, width),
                    ]
        else:
            title = f"{words.safe(section.title)}: {grid.title.lower()}, {words.safe(section.baseline.short_label)} → "
            title += words.safe(section.candidate.short_label)
            lines += ["", paint(title, "bold"), *_grid_table(grid, width, paint)]
            rejected = sentences.rejected(row for _, cells in grid.lines for row in cells if row is not None)
            for text in rejected:
                lines += columns.wrap(text, width, "  ")
    return lines


def _closing(
    context: ReportContext, analysis: Analysis, found: tuple[Section, ...], width: int, paint: Paint, *, short: bool
) -> list[str]:
    """Sum up; shorter where the tables of crossed factors have said it already."""
    lines = [""]
    for section in () if short else found:
        if section.rows:
            lines += columns.wrap(sentences.summary(section), width, "  ")
    for index in () if short else analysis.indices:
        if index.candidate not in {null.copy for null in analysis.nulls}:
            lines += [
                paint(line, "bold") for line in columns.wrap(f"Index {sentences.index(index, context)}.", width, "  ")
            ]
    for null in analysis.nulls:
        lines += columns.wrap(f"Null: {sentences.null(null, _baseline(analysis))}.", width, "  ")
        for index in null.index:
            lines += columns.wrap(f"  its index {sentences.index(index, context)}.", width, "    ")
    lines += _layouts(context, analysis, width)
    rows = tuple(row for section in found for row in section.rows)
    memory = view.memory_rows(found)
    if context.published and any(row.published for row in (*rows, *memory)):
        lines += columns.wrap(f"Published: {words.safe(sentences.page(context.published))}", width, "  ")
        lines += columns.wrap(f"Time: {sentences.against_page(rows)}", width, "  ")
        lines += columns.wrap(f"Memory: {sentences.against_page(memory)}", width, "  ")
    failures = crossed.failures(analysis) if short else analysis.failures
    if failures:
        lines.append(paint(f"{words.count(len(failures), 'trial')} gave no numbers:", "warn"))
        for failure in failures[:5]:
            reason = f"  {words.safe(failure.key)}: {failure.status}: {words.safe(failure.reason)}"
            lines += columns.wrap(reason, width, "    ")
        if len(failures) > 5:
            lines.append(f"  and {len(failures) - 5} more")
    return lines if len(lines) > 1 else []


def _layouts(context: ReportContext, analysis: Analysis, width: int) -> list[str]:
    spreads = sentences.layouts(analysis)
    if not spreads:
        return []
    lines = columns.wrap(f"Layouts: {sentences.layouts_note(context)}", width, "  ")
    for each in spreads[: sentences.LAYOUTS_SHOWN]:
        lines += columns.wrap(f"  {sentences.layout(each)}.", width, "    ")
    if len(spreads) > sentences.LAYOUTS_SHOWN:
        lines.append(f"  and {len(spreads) - sentences.LAYOUTS_SHOWN} that differ less")
    return lines


def _baseline(analysis: Analysis) -> str:
    return analysis.comparisons[0].baseline.label if analysis.comparisons else "the baseline"


def _where_next(context: ReportContext, selection: Selection) -> list[str]:
    path = words.safe(context.record_path)
    lines = ["", f"Record {words.safe(context.record_id)}: {path}"]
    if not selection.every:
        lines.append(f"  every metric   swapstone show {path} --all")
    lines.append(f"  as a page      swapstone report {path} --html")
    if context.explain:
        lines.append(f"  why it differs {words.safe(context.explain)}")
    if context.rerun:
        lines.append(f"  once more      {words.safe(context.rerun)}")
    return lines


def render(
    context: ReportContext,
    analysis: Analysis,
    *,
    width: int = 80,
    colour: bool = False,
    selection: Selection | None = None,
    ascii_only: bool = False,
) -> str:
    """Render an analysis for a terminal.

    Args:
        context: what stands beside the comparisons.
        analysis: what may be said.
        width: columns of the terminal, at least 64.
        colour: whether to use terminal codes; without, the text holds none, whatever the names contain.
        selection: which rows; by default the time to read first in full, and grids of the rest.
        ascii_only: whether to keep to ASCII.

    Returns:
        The text, ending in a newline. No line is longer than `width`, but for commands to copy and names of files.
    """
    width = max(_LEAST, width)
    selection = selection or Selection()
    paint = Paint(colour=colour, ascii_only=ascii_only)
    found = view.sections(context, analysis)
    lines = [paint(line, "bold") for line in columns.wrap(words.safe(view.title(context)), width)]
    lines += columns.wrap(sentences.effort(context, analysis), width, "  ")
    shown = exhibits.exhibits(context, analysis)
    lines += _caveats(context, analysis, shown, width, paint)
    for exhibit in () if selection.metrics else shown:
        lines += exhibits_text.lines(exhibit, width, paint)
    crossing = crossed.sections(context, analysis, selection.metrics)
    for each in crossing:
        lines += crossed_text.lines(each, width, paint, every=selection.every)
    short = crossed.is_crossed(analysis) and not selection.every
    for section in () if short else found:
        lines += _section(section, width, paint, selection)
    if crossing or (any(section.grids for section in found) and not (selection.every or selection.metrics)):
        lines += ["", *(paint(line, "dim") for line in columns.wrap(marks.LEGEND, width))]
    if not selection.metrics:
        lines += why.text_lines(context, width, paint)
    lines += _closing(context, analysis, found, width, paint, short=short)
    lines += _where_next(context, selection)
    return "\n".join(map(paint.final, lines)) + "\n"
