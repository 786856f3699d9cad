# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of lmbench's summary, UnixBench's scores and index, and CoreMark's row, measured here and published."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import msgspec

from swapstone.core.model import IDLE, Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import SOURCE_NOTE, Column, Ratios, measured_field, ratio_fields
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import without_copies
from swapstone.parts.published.data import MeasuredRow, figures, measured_rows
from swapstone.parts.published.report.service_values import means_of, rows_of
from swapstone.parts.published.report.throughput import Row, compares_kernels, ratio_at, value_at

STUDY = "musl-vs-glibc"
_TABLES = (
    ("lmbench", "The rows of lmbench's summary", "lmbench"),
    ("unixbench", "UnixBench's tests and index, one copy", "unixbench"),
    ("core", "Iterations of the suite core, which are no CoreMark scores", "coremark"),
)
"""Names of sections, their titles, and the page's suites."""
_SAME_FREQUENCY = 0.02
"""Clock rates that differ by at most this share are one: it is the default margin of a comparison."""


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
        columns = Column(IDLE.name, baseline), Column(IDLE.name, candidate)
        page = functools.partial(_on_page, baseline=baseline, candidate=candidate)
        rows = {each[0]: rows_of(measured_rows(each[2]), columns, ratios, page) for each in _TABLES}
        shown = [
            each for each in _TABLES if any((ratio := row.here[0]) is not None and ratio.value for row in rows[each[0]])
        ]
        number += bool(shown)
        for name, title, _ in shown:
            section, these, note = f"{name}-rows-{number}" if number > 1 else f"{name}-rows", rows[name], ""
            if name == "core":
                mhz, note = _clock_rate(context.piece("clock-rate", tuple))
                these += tuple(_per_mhz(row, mhz) for row in these if mhz is not None and row.here[0] is not None)
            found.append(_section(section, title, these, (baseline, candidate), note))
    return tuple(found)


def _per_mhz(row: Row, mhz: float) -> Row:
    values = tuple(each and each / mhz for each in row.values)
    return row._replace(published=msgspec.structs.replace(published(row), unit="1/(s MHz)"), values=values)


def published(row: Row) -> MeasuredRow:
    """Return the page's row; of a mean, one with its name."""
    nothing = dict.fromkeys(("suite", "condition", "own_suite", "workload", "less", "plus"), "")
    return row.published or MeasuredRow(metric=row.name, unit="1", same_kind=False, **nothing)


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


def _on_page(row: MeasuredRow, baseline: Variant, candidate: Variant) -> tuple[float | None]:
    """Return the published ratio; None if the variants differ in more than the page's factor."""
    if len(baseline.levels) != 1 or len(candidate.levels) != 1:
        return (None,)
    level = {
        figure.level: figure.value
        for figure in figures(STUDY, row.suite)
        if (figure.metric, figure.unit, figure.condition) == (row.metric, row.unit, row.condition)
    }
    base, other = level.get(baseline.levels[0][1]), level.get(candidate.levels[0][1])
    return (other / base if base and other else None,)


def _section(name: str, title: str, rows: tuple[Row, ...], pair: tuple[Variant, Variant], note: str) -> Section:
    baseline, candidate = pair
    shown = [row for row in rows if row.here[0] is not None]
    notes = [*_notes(rows), *((note,) if note else ())]
    if published(rows[0]).suite == "unixbench":
        shown += means_of(rows)
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
            Field("", "same_work", lambda row: "no" if published(row).same_kind else "yes"),
            measured_field((row.metric for row in rows), lambda row: row.metric),
            Field(baseline.label, "baseline", value_at(0), number),
            Field(candidate.label, "candidate", value_at(1), number),
            *ratio_fields("ratio", "ratio", ratio_at(0), "unavailable"),
            Field("page", "published_ratio", lambda row: row.page[0], known(formatting.ratio, "-")),
        ),
        shown,
        data=rows,
        notes=notes,
    )


def _of(name: str) -> Callable[[Row], str]:
    return lambda row: str(getattr(published(row), name))


def _name(row: Row) -> str:
    page = published(row)
    return page.metric + "*" * page.same_kind + (f", {page.condition}" if page.condition else "")


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


INDEX_NOTE = (
    "index: the geometric mean of the scores, 10 times the result over UnixBench's reference, of the ten rows with UnixBench's work. Its "
    "ratio is the mean of these rows' ratios, and the second index is the first one times that ratio. Dhrystone and Whetstone are other "
    "programs here, so their results have no score; the mean over all rows has their ratios, too."
)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    lacking = [row.name for row in rows if row.here[0] is None]
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
            any(published(row).less for row in rows),
            "As lmbench does, ctxsw leaves out the time in which one process passes the token to itself, sig hndl the time of kill() "
            "without a signal, Prot Fault the time of sig hndl, and Page Fault the time of mapping and unmapping. Their ratios are "
            "computed from those of their workloads.",
        ),
        (
            any(published(row).unit == "MB/s" for row in rows),
            "Rows in MB/s depend on caches and memory. On the virtual clock, on which each instruction takes the same time, they count "
            "instructions only: measure them with --clock wall or on hardware. Where CPU time is measured, they have its ratio alone.",
        ),
        (
            any(published(row).same_kind for row in rows),
            "*: other work of the same kind. Ratios can be compared with the page's, values can't.",
        ),
    )
    return (text for holds, text in texts if holds)


SERVICE_TABLES = Topic("service-tables", 50, sections)
