# SPDX-License-Identifier: MIT OR Apache-2.0
"""Throughput under PREEMPT_RT: the published page's tables 12 (one task) and 13 (several tasks), measured here and published."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.core.model import IDLE, Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer.means import name_of
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.ratios import LOADS_NOTE, Column, Ratio, Ratios, mean_of, measured_field, ratio_fields
from swapstone.core.report.tables import Field, known, section_of, unit
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.published.data import MeasuredRow, joined

SUITE = "throughput"
KERNEL = "kernel"
GENERIC, RT, LOAD = "generic", "rt", "cyclictest"
STUDY, SINGLE, SEVERAL = "preempt-rt", "throughput-single", "throughput-several"
SIDES = ((IDLE.name, GENERIC), (IDLE.name, RT), (LOAD, RT))
"""The page's three columns: (load, kernel)."""
COLUMNS = (GENERIC, RT, "rt + cyclictest")
INDEX = "index"
"""The work of the row of geometric means, and the page's row."""

Three = tuple[float | None, ...]
"""A value for each of the page's columns; None where one is missing."""

TABLES = (
    (
        SINGLE,
        "Throughput under PREEMPT_RT in per cent of the generic kernel's, one task (table 12 of the published page)",
        "",
    ),
    (
        SEVERAL,
        "Throughput under PREEMPT_RT in per cent of the generic kernel's, eight tasks at once (table 13 of the published page)",
        " (8 tasks)",
    ),
)
"""The page's tables: name of the section and of its joins with the published figures, title, end of the workloads' names."""


class Row(NamedTuple):
    """A row of one of the page's tables.

    Attributes:
        name: as readers see it.
        workload: its name.
        values: of the page's columns, measured here.
        here, page: over generic's value on an idle machine, measured here and published: of rt, and of rt under the load cyclictest.
        metric: what was measured; empty without values.
        published: the row of lmbench or UnixBench; None of an index, and of the suite `throughput`.
    """

    name: str
    workload: str
    values: Three
    here: tuple[Ratio | None, ...]
    page: Three
    metric: str = ""
    published: MeasuredRow | None = None


@functools.cache
def page_rows() -> tuple[tuple[str, str], ...]:
    """Return pairs (workload, the page's row), in the page's order."""
    return tuple(
        dict.fromkeys(
            (each.place.workload, each.figure.metric) for each in joined(SINGLE, STUDY) if not each.place.index
        )
    )


def compares_kernels(context: ReportContext) -> bool:
    """Return whether an experiment compares a generic kernel with one that has PREEMPT_RT."""
    levels = next((choice.levels for choice in context.experiment.factors if choice.factor == KERNEL), ())
    return GENERIC in levels and RT in levels


def columns_of(context: ReportContext) -> Iterator[tuple[str, str, tuple[Column, ...]]]:
    """Yield for each combination of the other factors' levels: end of names, end of titles, and the page's columns.

    Args:
        context: gives the factors.
    """
    if not compares_kernels(context):
        return
    factors = context.experiment.factors
    others = [choice for choice in factors if choice.factor != KERNEL]
    for number, held in enumerate(itertools.product(*(choice.levels for choice in others)), start=1):
        fixed = {choice.factor: level for choice, level in zip(others, held, strict=True)}
        variants = {
            kernel: Variant(levels=tuple((each.factor, {**fixed, KERNEL: kernel}[each.factor]) for each in factors))
            for kernel in (GENERIC, RT)
        }
        yield (
            f"-{number}" if others else "",
            "".join(f", {factor}={level}" for factor, level in fixed.items()),
            tuple(Column(load, variants[kernel]) for load, kernel in SIDES),
        )


def on_page(section: str, workload: str) -> Three:
    """Return the published values of a row; of the index, if `workload` is empty."""
    found = {
        (each.place.side.load, dict(each.place.side.levels)[KERNEL]): each.figure.value
        for each in joined(section, STUDY)
        if each.place.workload == workload
    }
    return tuple(found.get(side) for side in SIDES)


def shares(values: Three) -> Three:
    """Return the second and the third published value over the first; None where one is missing or 0."""
    return tuple(value / values[0] if value and values[0] else None for value in values[1:])


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suite.

    Args:
        context: gives the factors, the margin and the machine's facts.
        analysis: holds the comparisons.
    """
    ratios = Ratios(analysis)
    return tuple(
        section_of(
            name + suffix,
            title + where,
            _fields(rows),
            (*rows, (index := _index(rows, name))),
            notes=_notes(context, name, rows, index),
        )
        for suffix, where, columns in columns_of(context)
        for name, title, tasks in TABLES
        if (rows := with_values(_rows(name, tasks, columns, ratios)))
    )


def with_values(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows; none unless one of them has a value."""
    found = tuple(rows)
    return found if any(any(row.values) for row in found) else ()


def _rows(section: str, tasks: str, columns: Sequence[Column], ratios: Ratios) -> Iterator[Row]:
    first, *others = columns
    for work, _ in page_rows():
        name = work + tasks
        place = (SUITE, name)
        measured = [ratios.side(place, column) for column in columns]
        times = [each.median if each else None for each in measured]
        here = [ratios.ratio(place, first, other) for other in others]
        metrics = listed(list(dict.fromkeys(name_of(each.metric) for each in measured if each)))
        if any(times) or any(here):
            yield Row(
                work,
                name,
                tuple(1e9 / time if time else None for time in times),
                # A rate is the inverse of a time.
                tuple(each and each.inverse for each in here),
                shares(on_page(section, name)),
                metrics,
            )


def _index(rows: Sequence[Row], section: str) -> Row:
    """Return the row of the index: geometric means over the rows that both sides have.

    The published index is the page's own where all rows were measured, else the mean over the same rows.
    """
    whole = shares(on_page(section, ""))
    both = [
        [
            (here, page)
            for row in rows
            if (here := row.here[at]) is not None and here.value and (page := row.page[at]) is not None
        ]
        for at in (0, 1)
    ]
    return Row(
        INDEX,
        INDEX,
        (None,) * len(SIDES),
        here=tuple(mean_of(here for here, _ in pairs) for pairs in both),
        page=tuple(
            whole[at]
            if len(pairs) == len(page_rows())
            else statistics.geometric_mean(page for _, page in pairs)
            if pairs
            else None
            for at, pairs in enumerate(both)
        ),
    )


def beside_fields(*keys: str) -> Iterator[Field[Row]]:
    """Yield the ratios in per cent, measured here and published. The page of a study judges them (page_tables.py).

    Args:
        keys: names of the four percentages for programs; none where these have none.
    """

    def here(at: int) -> Iterator[Field[Row]]:
        head = f"{COLUMNS[1 + at]} %"
        fields = ratio_fields(head, keys[at] if keys else "", ratio_at(at), percent=True)
        yield from fields if keys else fields[:1]

    def page(at: int) -> Field[Row]:
        return Field(
            f"page: {COLUMNS[1 + at]} %",
            keys[2 + at] if keys else "",
            lambda row: None if (value := row.page[at]) is None else value * 100,
            known(lambda value: f"{value:.1f}", "-"),
        )

    yield from (*here(0), *here(1), page(0), page(1))


def _fields(rows: Sequence[Row]) -> tuple[Field[Row], ...]:
    pages = dict(page_rows())
    names = ("rt", "rt_cyclictest")
    percentages = (f"{prefix}{name}_percent" for prefix in ("", "published_") for name in names)
    return (
        Field("work", "", lambda row: row.name, right=False),
        Field("", "work", lambda row: row.workload),
        Field("", "published_row", lambda row: pages.get(row.name, INDEX)),
        measured_field((row.metric for row in rows), lambda row: row.metric),
        *(
            Field(COLUMNS[at], f"{name}_per_second", value_at(at), unit("1/s", "-"))
            for at, name in enumerate(("generic", *names))
        ),
        *beside_fields(*percentages),
    )


def ratio_at(at: int) -> Callable[[Row], Ratio | None]:
    """Return the function from a row to its ratio in a column but the first one."""
    return lambda row: row.here[at]


def value_at(at: int) -> Callable[[Row], float | None]:
    """Return the function from a row to its value in a column."""
    return lambda row: row.values[at]


def _notes(context: ReportContext, section: str, rows: tuple[Row, ...], index: Row) -> Iterator[str]:
    measured = dict.fromkeys(f"{each.figure.condition}, on {each.figure.platform}" for each in joined(section, STUDY))
    alone = "," not in dict(context.facts).get("cpus", "")
    tasks = (
        "The eight tasks share the machine's one processor; on the page each had a processor. So here no task waits for a lock that is "
        "held on another processor."
        if alone
        else "The eight tasks share this machine's processors; on the page each had a processor."
    )
    full, every = sum(bool(row.here[0] and row.here[0].value and row.page[0]) for row in rows), len(page_rows())
    page = "its own index" if full == every else f"the same mean over those rows (its index has {every})"
    mean = f"The index is the geometric mean of the percentages over {formatting.count(full, 'row')}; the page's is {page}."
    tmpfs = "file_copy copies within memory (tmpfs); the page's machine had an SSD, and the page does not name the file system."
    texts = (
        "Operations per second: 1 over the median time of one operation, over the blocks. Of a copied file, an operation is 1024 bytes. "
        "The percentages are of the generic kernel's rate on an idle machine; above 100 is faster. Those of rt are the inverse of the "
        "comparisons' ratios of times, with their intervals, and not the quotients of the rates. "
        f"{LOADS_NOTE}",
        f"The page's percentages are of UnixBench, {'; '.join(measured)}. The workloads here resemble UnixBench's, in the "
        "same order, so percentages can be compared and rates can't. integer and floating_point are beside Dhrystone and Whetstone, and "
        "are other programs.",
        tmpfs if any(row.name.startswith("file_copy") for row in rows) else "",
        tasks if section == SEVERAL else "",
        mean if index.here[0] is not None else "",
    )
    return filter(None, texts)


THROUGHPUT = Topic("throughput", 30, sections)
