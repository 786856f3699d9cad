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
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.verdict_groups import NO_NUMBERS
from swapstone.parts.published.data import MeasuredRow, figures, measured_rows
from swapstone.parts.published.report.service_values import Times, index_of, value_of
from swapstone.parts.published.report.throughput import compares_kernels

STUDY = "musl-vs-glibc"
_SAME_FREQUENCY = 0.02
"""Clock rates that differ by at most this share are one: it is the default margin of a comparison."""


class Row(NamedTuple):
    """One published row, or UnixBench's index: its values for two variants, in the row's unit, and ratios candidate / baseline.

    Attributes:
        published: the row; of the index, one with that name.
        baseline, candidate: measured here; None if a workload of the row has no value, or a difference is not above 0.
        ratio: measured here; None if one is missing.
        on_page: None where the page has no figure for these levels.
    """

    published: MeasuredRow
    baseline: float | None
    candidate: float | None
    ratio: float | None
    on_page: float | None


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the tables of the rows that were measured, for each pair of variants on an idle machine.

    Generic kernels and those with PREEMPT_RT have tables of their own (kernel_services.py).

    Args:
        context: of the report.
        analysis: holds the comparisons of elapsed time and bandwidth.
    """
    if compares_kernels(context):
        return ()
    found: list[Section] = []
    for number, ((baseline, candidate), sides) in enumerate(_pairs(analysis).items(), start=1):
        for name, title, suite in (
            ("lmbench", "The rows of lmbench's summary", "lmbench"),
            ("unixbench", "UnixBench's tests and index, one copy", "unixbench"),
            ("core", "Iterations of the suite core, which are no CoreMark scores", "coremark"),
        ):
            rows = tuple(_rows(measured_rows(suite), baseline, candidate, sides))
            if any(row.ratio is not None for row in rows):
                section = f"{name}-rows-{number}" if number > 1 else f"{name}-rows"
                mhz, note = _clock_rate(context.piece("clock-rate", tuple)) if suite == "coremark" else (None, "")
                if mhz is not None:
                    rows += tuple(
                        Row(
                            msgspec.structs.replace(row.published, unit="1/(s MHz)"),
                            row.baseline / mhz,
                            row.candidate / mhz,
                            *row[3:],
                        )
                        for row in rows
                        if row.baseline is not None and row.candidate is not None
                    )
                found.append(_section(section, title, rows, (baseline, candidate), note))
    return tuple(found)


def _pairs(analysis: Analysis) -> dict[tuple[Variant, Variant], tuple[Times, Times]]:
    """Return the medians of both variants of each pair."""
    found: dict[tuple[Variant, Variant], tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]] = {}
    suites = {row.own_suite for row in measured_rows()}
    for each in analysis.comparisons:
        if each.suite not in suites or each.load != IDLE.name or each.verdict in NO_NUMBERS:
            continue
        if each.metric.name in {"wall", "bandwidth"} and each.baseline_values and each.candidate_values:
            sides = found.setdefault((each.baseline, each.candidate), ({}, {}))
            for side, values in zip(sides, (each.baseline_values, each.candidate_values), strict=True):
                side[each.workload, each.metric.name] = statistics.median(values)
    return dict(found)


def _rows(
    which: Sequence[MeasuredRow], baseline: Variant, candidate: Variant, sides: tuple[Times, Times]
) -> Iterator[Row]:
    for row in which:
        base, value = (value_of(row, side) for side in sides)
        yield Row(row, base, value, value / base if base and value else None, _on_page(row, baseline, candidate))


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
        shown.append(_index(rows))
        notes.append(
            "index: the geometric mean of the scores, 10 times the result over UnixBench's reference, of the ten rows with UnixBench's "
            "work; its ratio is the mean over all rows. Dhrystone and Whetstone are other programs here, so their results have no score."
        )
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
            Field(baseline.label, "baseline", lambda row: row.baseline, number),
            Field(candidate.label, "candidate", lambda row: row.candidate, number),
            Field("ratio", "ratio", lambda row: row.ratio, known(formatting.ratio, "unavailable")),
            Field("page", "published_ratio", lambda row: row.on_page, known(formatting.ratio, "-")),
        ),
        shown,
        data=rows,
        notes=notes,
    )


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


def _index(rows: Sequence[Row]) -> Row:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    pages = [row.on_page for row in rows if row.on_page is not None]
    whole = len(ratios) == len(rows)
    return Row(
        msgspec.structs.replace(rows[0].published, metric="index", unit="1", condition="", same_kind=False),
        index_of({row.published.metric: row.baseline for row in rows}),
        index_of({row.published.metric: row.candidate for row in rows}),
        statistics.geometric_mean(ratios) if whole else None,
        statistics.geometric_mean(pages) if whole and len(pages) == len(rows) else None,
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    lacking = [row.published.metric for row in rows if row.ratio is None]
    texts = (
        (True, "Medians over the blocks. ratio and page: candidate / baseline, measured here and published."),
        (
            lacking,
            f"Unavailable, because a workload of the row has no value or the time to leave out is larger: {', '.join(lacking)}.",
        ),
        (
            any(row.published.less for row in rows),
            "As lmbench does, ctxsw leaves out the time in which one process passes the token to itself, sig hndl the time of kill() "
            "without a signal, Prot Fault the time of sig hndl, and Page Fault the time of mapping and unmapping.",
        ),
        (
            any(row.published.unit == "MB/s" for row in rows),
            "Rows in MB/s depend on caches and memory. On the virtual clock, on which each instruction takes the same time, they count "
            "instructions only: measure them with --clock wall or on hardware.",
        ),
        (
            any(row.published.same_kind for row in rows),
            "*: other work of the same kind. Ratios can be compared with the page's, values can't.",
        ),
    )
    return (text for holds, text in texts if holds)


SERVICE_TABLES = Topic("service-tables", 50, sections)
