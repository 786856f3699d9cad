# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of lmbench's summary, UnixBench's scores and index, and CoreMark's row, measured here and published."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.model import IDLE, Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import SOURCE_NOTE, Column, Ratio, Ratios, mean_of, measured_field, ratio_fields
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import without_copies
from swapstone.parts.published.data import MeasuredRow, figures, measured_rows
from swapstone.parts.published.report.service_values import ratio_of, score_of, values_of
from swapstone.parts.published.report.throughput import compares_kernels

STUDY = "musl-vs-glibc"
_TABLES = (
    ("lmbench", "The rows of lmbench's summary", "lmbench"),
    ("unixbench", "UnixBench's tests and index, one copy", "unixbench"),
    ("core", "Iterations of the suite core, which are no CoreMark scores", "coremark"),
)
"""Names of sections, their titles, and the page's suites."""
_SAME_FREQUENCY = 0.02
"""Clock rates that differ by at most this share are one: it is the default margin of a comparison."""


class Row(NamedTuple):
    """One published row, or a mean of several: its values for two variants, in the row's unit, and ratios candidate / baseline.

    Attributes:
        published: the row; of a mean, one with that name.
        baseline, candidate: measured here; None if a workload of the row has no value, or a difference is not above 0.
        ratio: of the comparisons; None without one.
        on_page: None where the page has no figure for these levels.
        metric: what was measured; empty without values.
    """

    published: MeasuredRow
    baseline: float | None
    candidate: float | None
    ratio: Ratio | None
    on_page: float | None
    metric: str = ""


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the tables of the rows that were measured, for each pair of variants on an idle machine.

    Generic kernels and those with PREEMPT_RT have tables of their own (kernel_services.py).

    Args:
        context: of the report.
        analysis: holds the comparisons.
    """
    if compares_kernels(context):
        return ()
    found: list[Section] = []
    ratios, number = Ratios(analysis), 0
    for baseline, candidate in _pairs(analysis):
        rows = {each[0]: tuple(_rows(measured_rows(each[2]), baseline, candidate, ratios)) for each in _TABLES}
        shown = [each for each in _TABLES if any(row.ratio is not None and row.ratio.value for row in rows[each[0]])]
        number += bool(shown)
        for name, title, _ in shown:
            section, these, note = f"{name}-rows-{number}" if number > 1 else f"{name}-rows", rows[name], ""
            if name == "core":
                mhz, note = _clock_rate(context.piece("clock-rate", tuple))
                these += tuple(_per_mhz(row, mhz) for row in these if mhz is not None and row.ratio is not None)
            found.append(_section(section, title, these, (baseline, candidate), note))
    return tuple(found)


def _per_mhz(row: Row, mhz: float) -> Row:
    base, value = (None if each is None else each / mhz for each in (row.baseline, row.candidate))
    return row._replace(
        published=msgspec.structs.replace(row.published, unit="1/(s MHz)"), baseline=base, candidate=value
    )


def _pairs(analysis: Analysis) -> tuple[tuple[Variant, Variant], ...]:
    """Return the pairs (baseline, candidate) that ran the suites on an idle machine."""
    suites = {row.own_suite for row in measured_rows()}
    return tuple(
        dict.fromkeys(
            (each.baseline, each.candidate)
            for each in without_copies(analysis)
            if each.suite in suites and each.load == IDLE.name
        )
    )


def _rows(which: Sequence[MeasuredRow], baseline: Variant, candidate: Variant, ratios: Ratios) -> Iterator[Row]:
    over, side = (Column(IDLE.name, each) for each in (baseline, candidate))
    for row in which:
        base, other = values_of(row, ratios, over), values_of(row, ratios, side)
        yield Row(
            row,
            base and base.value,
            other and other.value,
            ratio_of(row, ratios, over, side),
            _on_page(row, baseline, candidate),
            base.metric if base else "",
        )


def _on_page(row: MeasuredRow, baseline: Variant, candidate: Variant) -> float | None:
    """Return the published ratio; None if the variants differ in more than the page's factor."""
    if len(baseline.levels) != 1 or len(candidate.levels) != 1:
        return None
    level = {
        figure.level: figure.value
        for figure in figures(STUDY, row.suite)
        if (figure.metric, figure.unit, figure.condition) == (row.metric, row.unit, row.condition)
    }
    base, other = level.get(baseline.levels[0][1]), level.get(candidate.levels[0][1])
    return other / base if base and other else None


def _section(name: str, title: str, rows: tuple[Row, ...], pair: tuple[Variant, Variant], note: str) -> Section:
    baseline, candidate = pair
    shown = [row for row in rows if row.ratio is not None]
    notes = [*_notes(rows), *((note,) if note else ())]
    if rows[0].published.suite == "unixbench":
        shown += _means(rows)
        notes.append(INDEX_NOTE)
    number = known(lambda value: formatting.digits(value, 4), "unavailable")
    return section_of(
        name,
        f"{title}: {candidate.label} against {baseline.label}",
        (
            Field("row", "", _name, right=False),
            Field("", "row", _of("metric")),
            Field("unit", "unit", _of("unit"), right=False),
            *(Field("", key, _of(key)) for key in ("condition", "workload", "less", "plus")),
            Field("", "same_work", lambda row: "no" if row.published.same_kind else "yes"),
            measured_field((row.metric for row in rows), lambda row: row.metric),
            Field(baseline.label, "baseline", lambda row: row.baseline, number),
            Field(candidate.label, "candidate", lambda row: row.candidate, number),
            *ratio_fields("ratio", "ratio", _ratio, "unavailable"),
            Field("page", "published_ratio", lambda row: row.on_page, known(formatting.ratio, "-")),
        ),
        shown,
        data=rows,
        notes=notes,
    )


def _ratio(row: Row) -> Ratio | None:
    return row.ratio


def _of(name: str) -> Callable[[Row], str]:
    return lambda row: str(getattr(row.published, name))


def _name(row: Row) -> str:
    condition = f", {row.published.condition}" if row.published.condition else ""
    return row.published.metric + "*" * row.published.same_kind + condition


def _clock_rate(found: tuple[float, float] | None) -> tuple[float | None, str]:
    """Return the clock rate of all trials in MHz, None if there is no single one, and a sentence about it."""
    if found is None:
        return None, (
            "Per MHz: unavailable, because the clock rate was not read. It is read on boards (--target ssh:...) whose kernel has cpufreq."
        )
    low, high = found
    if high > low * (1 + _SAME_FREQUENCY):
        return None, (
            f"Per MHz: unavailable, because the clock rate changed between {low:.0f} and {high:.0f} MHz. With governor=performance in the "
            "target it stays, unless the board is throttled."
        )
    return (low + high) / 2, (
        f"Per MHz: of {(low + high) / 2:.0f} MHz, which cpufreq stated for the fastest processor before and after each trial. It is the "
        "requested rate; a processor can run slower, and on boards with several kinds of processors a trial can run on a slower one."
    )


def _means(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield UnixBench's index over the rows with its work, and the mean of the ratios of all rows."""
    index, ratio = score_of([(row.published, row.baseline, row.ratio) for row in rows])
    other = index * ratio.value if index is not None and ratio is not None and ratio.value else None
    for name, those, numbers in (
        ("index", [row for row in rows if not row.published.same_kind], (index, other, ratio)),
        ("all rows", rows, (None, None, mean_of(row.ratio for row in rows))),
    ):
        pages = [row.on_page for row in those if row.on_page is not None]
        page = statistics.geometric_mean(pages) if numbers[-1] and len(pages) == len(those) else None
        first = msgspec.structs.replace(rows[0].published, metric=name, unit="1", condition="", same_kind=False)
        yield Row(first, *numbers, page)


INDEX_NOTE = (
    "index: the geometric mean of the scores, 10 times the result over UnixBench's reference, of the ten rows with UnixBench's work. Its "
    "ratio is the mean of these rows' ratios, and the second index is the first one times that ratio. Dhrystone and Whetstone are other "
    "programs here, so their results have no score; the mean over all rows has their ratios, too."
)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    lacking = [row.published.metric for row in rows if row.ratio is None]
    texts = (
        (
            True,
            f"Medians over the blocks. ratio and page: candidate / baseline, measured here and published. {SOURCE_NOTE}",
        ),
        (
            lacking,
            f"Unavailable, because a workload of the row has no value or the time to leave out is larger: {', '.join(lacking)}.",
        ),
        (
            any(row.published.less for row in rows),
            "As lmbench does, ctxsw leaves out the time in which one process passes the token to itself, sig hndl the time of kill() "
            "without a signal, Prot Fault the time of sig hndl, and Page Fault the time of mapping and unmapping. Their ratios are "
            "computed from those of their workloads.",
        ),
        (
            any(row.published.unit == "MB/s" for row in rows),
            "Rows in MB/s depend on caches and memory. On the virtual clock, on which each instruction takes the same time, they count "
            "instructions only: measure them with --clock wall or on hardware. Where CPU time is measured, they have its ratio alone.",
        ),
        (
            any(row.published.same_kind for row in rows),
            "*: other work of the same kind. Ratios can be compared with the page's, values can't.",
        ),
    )
    return (text for holds, text in texts if holds)


SERVICE_TABLES = Topic("service-tables", 50, sections)
