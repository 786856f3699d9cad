# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rows of lmbench's summary, UnixBench's scores and index, and CoreMark's row: their values, measured here and published.

Under PREEMPT_RT lmbench's rows and UnixBench's scores have the columns of the published page's tables 14 and 12.
"""

from __future__ import annotations

import functools
import operator
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.model import IDLE, Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import name_of
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import (
    LOADS_NOTE,
    SOURCE_NOTE,
    WALL,
    Column,
    Ratio,
    Ratios,
    mean_of,
    measured_field,
    ratio_fields,
    weighted,
)
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import without_copies
from swapstone.parts.published.data import MeasuredRow, baselines, figures, measured_rows
from swapstone.parts.published.report.throughput import (
    COLUMNS,
    Row,
    Three,
    beside_fields,
    columns_of,
    compares_kernels,
    on_page,
    ratio_at,
    shares,
    value_at,
    with_values,
)

_BANDWIDTH = "bandwidth"
_PER_MINUTE = 60.0
RATES = {"lps": 1.0, "KBps": 1.0, "lpm": _PER_MINUTE, "MWIPS": 1.0, "1/s": 1.0}
"""Units of rates: how many seconds they count in."""


_WEIGHTS = (1.0, -1.0, 1.0)
"""Of a row's workloads: the second one's time is subtracted, that of the third was subtracted from it before."""


class Values(NamedTuple):
    """The medians of a row's workloads in one column, in the metric's unit.

    Attributes:
        metric: the metric's name in a sentence: ``elapsed time``, or ``CPU time`` where the machine was busy.
        terms: of the workload, of that whose time is subtracted, and of that whose time is added; without one that the row lacks.
        value: of the row, in its unit.
    """

    metric: str
    terms: tuple[float, ...]
    value: float


def values_of(row: MeasuredRow, known: Ratios, column: Column) -> Values | None:
    """Return a row's values; None if a workload of the row has none, or a difference is not above 0.

    Bandwidths are of elapsed time: there is none where CPU time is the time to read first.
    """
    metric = _metric(row, known, column.load)
    found = [known.side((row.own_suite, work), column, metric) for work in _works(row)]
    terms = [each for each in found if each is not None]
    medians = tuple(each.median for each in terms)
    total = sum(map(operator.mul, _WEIGHTS, medians))
    if len(terms) < len(found) or len({each.metric.name for each in terms}) > 1 or total <= 0:
        return None
    if row.unit == "MB/s":
        return Values("elapsed time", medians, total) if metric == _BANDWIDTH else None
    value = total / 1e3 if row.unit == "us" else RATES[row.unit] * 1e9 / total
    return Values(name_of(terms[0].metric), medians, value)


def ratio_of(row: MeasuredRow, known: Ratios, over: Column, side: Column) -> Ratio | None:
    """Return a row's ratio from the comparisons of its workloads; None if one is missing, or a difference is not above 0."""
    metric = _metric(row, known, over.load)
    if metric != _metric(row, known, side.load):
        return None
    found = [known.ratio((row.own_suite, work), over, side, metric) for work in _works(row)]
    if len(found) > 1:
        base = values_of(row, known, over)
        return weighted(found, list(map(operator.mul, _WEIGHTS, base.terms))) if base else None
    (ratio,) = found
    return ratio if ratio is None or row.unit == "us" or metric == _BANDWIDTH else ratio.inverse


def _works(row: MeasuredRow) -> tuple[str, ...]:
    return tuple(filter(None, (row.workload, row.less, row.plus)))


def _metric(row: MeasuredRow, known: Ratios, load: str) -> str:
    wall = known.metric((row.own_suite, row.workload), load) == WALL
    return _BANDWIDTH if row.unit == "MB/s" and wall else WALL


def rows_of(
    which: Iterable[MeasuredRow],
    columns: Sequence[Column],
    known: Ratios,
    page: Callable[[MeasuredRow], tuple[float | None, ...]],
) -> tuple[Row, ...]:
    """Return the rows that were measured; none where none has a value.

    Args:
        which: the page's rows.
        columns: of the values; the ratios are those of the others to the first one.
        known: of the analysis.
        page: the published ratios of a row.
    """
    found = []
    for row in which:
        values = [values_of(row, known, column) for column in columns]
        here = tuple(ratio_of(row, known, columns[0], other) for other in columns[1:])
        metrics = listed(list(dict.fromkeys(each.metric for each in values if each)))
        numbers = tuple(each and each.value for each in values)
        found.append(Row(row.metric, row.workload, numbers, here, page(row), metrics, row))
    return with_values(found)


def means_of(rows: Sequence[Row], page: tuple[float | None, ...] = ()) -> Iterator[Row]:
    """Yield UnixBench's index over the rows with its work, and the means of the ratios of all twelve.

    The index is the geometric mean of the scores in the first column, and in another one that times the mean of the ratios.

    Args:
        rows: of UnixBench.
        page: the published means over all rows; empty for those of the published ratios.
    """
    references = {name: reference for name, reference, _ in baselines()}
    every = measured_rows("unixbench")
    for name, wanted in (("index", [row for row in every if not row.same_kind]), ("all rows", every)):
        those = [row for row in rows if row.published in wanted]
        whole, places = len(those) == len(wanted), range(len(rows[0].here))
        here = tuple(mean_of(row.here[at] for row in those) if whole else None for at in places)
        scores = [
            10 * row.values[0] / references[row.published.metric]
            for row in those
            if row.values[0] is not None and row.published is not None and name == "index"
        ]
        first = statistics.geometric_mean(scores) if scores and len(scores) == len(wanted) else None
        others = (first * each.value if first is not None and each and each.value else None for each in here)
        pages = page if page and name != "index" else tuple(_page_mean(those, at) if whole else None for at in places)
        yield Row(name, name, (first, *others), here, pages)


def _page_mean(rows: Sequence[Row], at: int) -> float | None:
    pages = [page for row in rows if (page := row.page[at]) is not None]
    return statistics.geometric_mean(pages) if len(pages) == len(rows) else None


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
    return row.published or MeasuredRow(metric=row.name, unit="1", **nothing)


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


LATENCIES, SCORES = "kernel-lmbench", "kernel-unixbench"
_KEYS = ("generic", "rt", "rt_cyclictest")


def kernel_sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suites.

    Args:
        context: gives the factors.
        analysis: holds the comparisons.
    """
    found = []
    ratios = Ratios(analysis)
    for suffix, where, columns in columns_of(context):
        lmbench, unixbench = (
            [row for row in found_rows if any((*row.values, *row.here))]
            for found_rows in (
                rows_of(measured_rows(suite), columns, ratios, lambda row: shares(on_page(SCORES, row.workload)))
                for suite in ("lmbench", "unixbench")
            )
        )
        if lmbench:
            found.append(_latencies(lmbench, where, suffix))
        if unixbench:
            found.append(_scores((*unixbench, *means_of(unixbench, shares(on_page(SCORES, "")))), where, suffix))
    return tuple(found)


def _fields(head: str, rows: Sequence[Row]) -> tuple[Field[Row], ...]:
    """Return what both tables have."""
    tests = head == "test"
    return (
        Field(
            head,
            "",
            lambda row: row.name + "*" * bool(tests and row.published and row.published.same_kind),
            right=False,
        ),
        Field("", "row", lambda row: row.name),
        Field("unit", "unit", lambda row: row.published.unit if row.published else "1", right=False),
        Field("", "workload", lambda row: row.workload),
        Field("", "less", lambda row: row.published.less if row.published else ""),
        Field("", "plus", lambda row: row.published.plus if row.published else ""),
        measured_field((row.metric for row in rows), lambda row: row.metric),
        *(
            Field(COLUMNS[at], key, value_at(at), known(lambda value: formatting.digits(value, 4), "-"))
            for at, key in enumerate(_KEYS)
        ),
        *(
            field
            for at, key in enumerate(_KEYS[1:])
            for field in ratio_fields(
                "" if tests else f"{COLUMNS[1 + at]} / generic", f"{key}_of_generic", ratio_at(at)
            )
        ),
        *(Field("", f"published_{key}_of_generic", _page_at(at)) for at, key in enumerate(_KEYS[1:])),
    )


def _page_at(at: int) -> Callable[[Row], float | None]:
    return lambda row: row.page[at]


def _latencies(rows: Sequence[Row], where: str, suffix: str) -> Section:
    return section_of(
        LATENCIES + suffix,
        "The rows of lmbench's summary under PREEMPT_RT (table 14 of the published page, which has no figures)" + where,
        _fields("row", rows),
        rows,
        keys=2,
        notes=(
            f"Medians over the blocks. {SOURCE_NOTE} {LOADS_NOTE}",
            "The page's table 14 is a picture without figures, so there is nothing to compare with, and its "
            "caption states several tasks; here one program runs. Below 1 of a row in us, and above 1 of one in MB/s, rt is faster.",
            "Rows of memory in MB/s count instructions on the virtual clock, on which a memory access takes the time of any instruction.",
        ),
    )


def _scores(rows: Sequence[Row], where: str, suffix: str) -> Section:
    return section_of(
        SCORES + suffix,
        "UnixBench's tests and index under PREEMPT_RT, one task (table 12 of the published page)" + where,
        (*_fields("test", rows), *beside_fields()),
        rows,
        keys=2,
        notes=_score_notes(rows[-2].values),
    )


def _score_notes(index: Three) -> Iterator[str]:
    page, tests = on_page(SCORES, "")[0], len(measured_rows("unixbench"))
    texts = (
        "Medians over the blocks. The percentages are of the generic kernel's rate on an idle machine; above 100 is faster. The page's are "
        "of a board with eight processors; its files are on an SSD, here on a tmpfs.",
        f"{SOURCE_NOTE} {LOADS_NOTE}",
        INDEX_NOTE
        + (
            f" The page's index of generic, {page:g}, is of that board: only percentages can be compared."
            if page
            else ""
        ),
        f"The index is unavailable where one of its ten tests has no value, and the mean where one of all {tests} has none."
        if None in index
        else "",
        "*: other work of the same kind as Dhrystone and Whetstone, so these results have no score.",
    )
    return filter(None, texts)


KERNEL_SERVICES = Topic("kernel-services", 40, kernel_sections)
