# SPDX-License-Identifier: MIT OR Apache-2.0
"""lmbench's rows and UnixBench's scores under PREEMPT_RT: the columns of the published page's tables 14 and 12, measured here."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.published.data import MeasuredRow, measured_rows
from swapstone.parts.published.report.service_values import Times, index_of, value_of
from swapstone.parts.published.report.throughput import (
    COLUMNS,
    INDEX,
    Row,
    Three,
    beside_fields,
    columns_of,
    entry,
    on_page,
    shares,
)

LATENCIES, SCORES = "kernel-lmbench", "kernel-unixbench"
_KEYS = ("generic", "rt", "rt_cyclictest")


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suites.

    Args:
        context: gives the factors and the margin.
        analysis: holds the comparisons of elapsed time and bandwidth.
    """
    found = []
    for suffix, where, sides in columns_of(context, analysis, {"os", "unix"}):
        lmbench, unixbench = (
            tuple(_rows(measured_rows("lmbench"), sides)),
            tuple(_rows(measured_rows("unixbench"), sides)),
        )
        if lmbench:
            found.append(_latencies(lmbench, where, suffix))
        if unixbench:
            found.append(_scores((*unixbench, _index(unixbench)), where, suffix, context.experiment.margin))
    return tuple(found)


def _rows(which: Sequence[MeasuredRow], sides: Sequence[Times]) -> Iterator[Row]:
    for row in which:
        values = tuple(value_of(row, side) for side in sides)
        if any(value is not None for value in values):
            yield Row(row.metric, row.workload, values, shares(values), shares(on_page(SCORES, row.workload)), row)


def _index(rows: Sequence[Row]) -> Row:
    """Return UnixBench's index of each column over the ten tests with its work, and the mean of the ratios of all twelve."""
    ratios = [[ratio for row in rows if (ratio := row.here[at]) is not None] for at in (0, 1)]
    return Row(
        INDEX,
        INDEX,
        tuple(index_of({row.name: row.values[at] for row in rows}) for at in range(len(COLUMNS))),
        here=tuple(
            statistics.geometric_mean(each) if len(each) == len(measured_rows("unixbench")) else None for each in ratios
        ),
        page=shares(on_page(SCORES, "")),
    )


def _fields(head: str) -> tuple[Field[Row], ...]:
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
        *(
            Field(COLUMNS[at], key, entry("values", at), known(lambda value: formatting.digits(value, 4), "-"))
            for at, key in enumerate(_KEYS)
        ),
        *(
            Field(
                "" if tests else f"{COLUMNS[1 + at]} / generic",
                f"{key}_of_generic",
                entry("here", at),
                known(formatting.ratio, "-"),
            )
            for at, key in enumerate(_KEYS[1:])
        ),
        *(Field("", f"published_{key}_of_generic", entry("page", at)) for at, key in enumerate(_KEYS[1:])),
    )


def _latencies(rows: Sequence[Row], where: str, suffix: str) -> Section:
    return section_of(
        LATENCIES + suffix,
        "The rows of lmbench's summary under PREEMPT_RT (table 14 of the published page, which has no figures)" + where,
        _fields("row"),
        rows,
        keys=2,
        notes=(
            "Medians over the blocks. The page's table 14 is a picture without figures, so there is nothing to compare with, and its "
            "caption states several tasks; here one program runs. Below 1 of a row in us, and above 1 of one in MB/s, rt is faster.",
            "Rows of memory in MB/s count instructions on the virtual clock, on which a memory access takes the time of any instruction.",
        ),
    )


def _scores(rows: Sequence[Row], where: str, suffix: str, margin: float) -> Section:
    return section_of(
        SCORES + suffix,
        "UnixBench's tests and index under PREEMPT_RT, one task (table 12 of the published page)" + where,
        (*_fields("test"), *beside_fields(margin)),
        rows,
        keys=2,
        notes=_notes(rows[-1].values),
    )


def _notes(index: Three) -> Iterator[str]:
    page, tests = on_page(SCORES, "")[0], len(measured_rows("unixbench"))
    beside = f" The page's index of generic, {page:g}, is of that board: only percentages can be compared."
    texts = (
        "Medians over the blocks. The percentages are of the generic kernel's rate on an idle machine; above 100 is faster. The page's are "
        "of a board with eight processors; its files are on an SSD, here on a tmpfs.",
        "index: the geometric mean of the scores, 10 times the rate over UnixBench's reference, of the ten tests with UnixBench's "
        f"work; its percentages are the mean over all {tests} tests.{beside if page else ''}",
        "The index is unavailable where one of these tests has no value." if None in index else "",
        "*: other work of the same kind as Dhrystone and Whetstone, so these results have no score.",
    )
    return filter(None, texts)


KERNEL_SERVICES = Topic("kernel-services", 40, sections)
