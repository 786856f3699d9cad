# SPDX-License-Identifier: MIT OR Apache-2.0
"""lmbench's rows and UnixBench's scores under PREEMPT_RT: the columns of the published page's tables 14 and 12, measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import LOADS_NOTE, SOURCE_NOTE, Ratios, measured_field, ratio_fields
from swapstone.core.report.tables import Field, known, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.published.data import measured_rows
from swapstone.parts.published.report.service_tables import INDEX_NOTE, means_of, rows_of
from swapstone.parts.published.report.throughput import (
    COLUMNS,
    Row,
    Three,
    beside_fields,
    columns_of,
    on_page,
    ratio_at,
    shares,
    value_at,
)

LATENCIES, SCORES = "kernel-lmbench", "kernel-unixbench"
_KEYS = ("generic", "rt", "rt_cyclictest")


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suites.

    Args:
        context: gives the factors and the margin.
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
            found.append(
                _scores(
                    (*unixbench, *means_of(unixbench, shares(on_page(SCORES, "")))),
                    where,
                    suffix,
                    context.experiment.margin,
                )
            )
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


def _scores(rows: Sequence[Row], where: str, suffix: str, margin: float) -> Section:
    return section_of(
        SCORES + suffix,
        "UnixBench's tests and index under PREEMPT_RT, one task (table 12 of the published page)" + where,
        (*_fields("test", rows), *beside_fields(margin)),
        rows,
        keys=2,
        notes=_notes(rows[-2].values),
    )


def _notes(index: Three) -> Iterator[str]:
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


KERNEL_SERVICES = Topic("kernel-services", 40, sections)
