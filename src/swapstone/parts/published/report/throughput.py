# SPDX-License-Identifier: MIT OR Apache-2.0
"""Throughput under PREEMPT_RT: the published page's tables 12 (one task) and 13 (several tasks), measured here and published."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from swapstone.core.model import IDLE, Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Field, known, section_of, unit
from swapstone.core.report.topics.comparison_groups import SAME_SIZE, same_size, size_note
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides
from swapstone.core.report.verdict_groups import NO_NUMBERS
from swapstone.parts.published.data import MeasuredRow
from swapstone.parts.published.joins import joined
from swapstone.parts.published.report.measured import sign_of

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
Medians = dict[tuple[str, str], float]
"""Median over the blocks by (workload, metric)."""


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
        here, page: shares of generic's value on an idle machine, measured here and published: of rt, and of rt under the load cyclictest.
        published: the row of lmbench or UnixBench; None of an index, and of the suite `throughput`.
    """

    name: str
    workload: str
    values: Three
    here: Three
    page: Three
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


def columns_of(
    context: ReportContext, analysis: Analysis, suites: Collection[str]
) -> Iterator[tuple[str, str, list[Medians]]]:
    """Yield for each combination of the other factors' levels: end of names, end of titles, and the medians of the page's columns.

    Args:
        context: gives the factors.
        analysis: holds the comparisons.
        suites: whose elapsed times and bandwidths to read.
    """
    if not compares_kernels(context):
        return
    found: dict[tuple[str, Variant], Medians] = {}
    for each in sides(
        analysis,
        lambda c: c.suite in suites and c.metric.name in {"wall", "bandwidth"} and c.verdict not in NO_NUMBERS,
    ):
        found.setdefault((each.load, each.variant), {})[each.workload, each.metric.name] = each.median
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
            [found.get((load, variants[kernel]), {}) for load, kernel in SIDES],
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
    """Return the second and the third value over the first; None where one is missing or 0."""
    return tuple(value / values[0] if value and values[0] else None for value in values[1:])


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suite.

    Args:
        context: gives the factors, the margin and the machine's facts.
        analysis: holds the comparisons of elapsed time.
    """
    return tuple(
        section_of(
            name + suffix,
            title + where,
            _fields(context.experiment.margin),
            (*rows, (index := _index(rows, name))),
            notes=_notes(context, name, rows, index),
        )
        for suffix, where, columns in columns_of(context, analysis, {SUITE})
        for name, title, tasks in TABLES
        if (rows := tuple(_rows(name, tasks, columns)))
    )


def _rows(section: str, tasks: str, columns: Sequence[Medians]) -> Iterator[Row]:
    for work, _ in page_rows():
        name = work + tasks
        rates = tuple(1e9 / time if (time := column.get((name, "wall"))) else None for column in columns)
        if any(rate is not None for rate in rates):
            yield Row(work, name, rates, shares(rates), shares(on_page(section, name)))


def _index(rows: Sequence[Row], section: str) -> Row:
    """Return the row of the index: geometric means over the rows that both sides have.

    The published index is the page's own where all rows were measured, else the mean over the same rows.
    """
    whole = shares(on_page(section, ""))
    both = [
        [(here, page) for row in rows if (here := row.here[at]) is not None and (page := row.page[at]) is not None]
        for at in (0, 1)
    ]
    return Row(
        INDEX,
        INDEX,
        (None,) * len(SIDES),
        here=tuple(statistics.geometric_mean(here for here, _ in pairs) if pairs else None for pairs in both),
        page=tuple(
            whole[at]
            if len(pairs) == len(page_rows())
            else statistics.geometric_mean(page for _, page in pairs)
            if pairs
            else None
            for at, pairs in enumerate(both)
        ),
    )


def same_direction(measured: float, on_page: float, margin: float) -> bool:
    """Return whether two shares have the same direction: both slower than generic, both faster, or both within the margin.

    Args:
        measured: share of generic's throughput.
        on_page: the published one.
        margin: shares from 1 / (1 + margin) to 1 + margin are neither.
    """
    return sign_of(measured, margin) == sign_of(on_page, margin)


def beside_page(measured: float | None, on_page: float | None, margin: float) -> str:
    """Return how a share compares with the published one: ``yes``, ``size x 8.2``, ``other direction``, or ``-`` where one is missing.

    Args:
        measured: share of generic's throughput; None without one.
        on_page: the published one.
        margin: as of `same_direction`.
    """
    if measured is None or on_page is None:
        return "-"
    if not same_direction(measured, on_page, margin):
        return "other direction"
    return "yes" if same_size(measured, on_page) else size_note(measured, on_page)


def beside_fields(margin: float, *keys: str) -> Iterator[Field[Row]]:
    """Yield the shares in per cent, measured here and published, and how they compare.

    Args:
        margin: as of `same_direction`.
        keys: names of the four percentages for programs; none where these have none.
    """

    def percent(at: int) -> Field[Row]:
        return Field(
            f"{'page: ' * (at > 1)}{COLUMNS[1 + at % 2]} %",
            keys[at] if keys else "",
            lambda row: None if (value := (*row.here, *row.page)[at]) is None else value * 100,
            known(lambda value: f"{value:.1f}", "-"),
        )

    yield from map(percent, range(4))
    yield Field(
        "as on the page",
        "",
        lambda row: ", ".join(beside_page(here, page, margin) for here, page in zip(row.here, row.page, strict=True)),
        right=False,
    )


def _fields(margin: float) -> tuple[Field[Row], ...]:
    pages = dict(page_rows())
    names = ("rt", "rt_cyclictest")
    words = {"-": None, "yes": "yes", "other direction": "no"}

    def same_way(at: int, name: str) -> Field[Row]:
        return Field(
            "",
            f"{name}_same_way",
            lambda row: words.get(beside_page(row.here[at], row.page[at], margin), "another size"),
        )

    def of_page(at: int, name: str) -> Field[Row]:
        return Field("", f"{name}_of_page", lambda row: shares((row.page[at], row.here[at]))[0])

    percentages = (f"{prefix}{name}_percent" for prefix in ("", "published_") for name in names)
    return (
        Field("work", "", lambda row: row.name, right=False),
        Field("", "work", lambda row: row.workload),
        Field("", "published_row", lambda row: pages.get(row.name, INDEX)),
        *(
            Field(COLUMNS[at], f"{name}_per_second", entry("values", at), unit("1/s", "-"))
            for at, name in enumerate(("generic", *names))
        ),
        *beside_fields(margin, *percentages),
        *map(same_way, (0, 1), names),
        *map(of_page, (0, 1), names),
    )


def entry(name: Literal["values", "here", "page"], at: int) -> Callable[[Row], float | None]:
    """Return the function from a row to the number at a place of one of its tuples."""
    return lambda row: {"values": row.values, "here": row.here, "page": row.page}[name][at]


def _notes(context: ReportContext, section: str, rows: tuple[Row, ...], index: Row) -> Iterator[str]:
    margin = context.experiment.margin
    measured = dict.fromkeys(f"{each.figure.condition}, on {each.figure.platform}" for each in joined(section, STUDY))
    alone = "," not in dict(context.facts).get("cpus", "")
    tasks = (
        "The eight tasks share the machine's one processor; on the page each had a processor. So here no task waits for a lock that is "
        "held on another processor."
        if alone
        else "The eight tasks share this machine's processors; on the page each had a processor."
    )
    full, every = sum(None not in {row.here[0], row.page[0]} for row in rows), len(page_rows())
    page = "its own index" if full == every else f"the same mean over those rows (its index has {every})"
    mean = f"The index is the geometric mean of the percentages over {formatting.count(full, 'row')}; the page's is {page}."
    tmpfs = "file_copy copies within memory (tmpfs); the page's machine had an SSD, and the page does not name the file system."
    texts = (
        "Operations per second: 1 over the median elapsed time of one operation, over the blocks. Of a copied file, an operation is 1024 "
        "bytes. The percentages are candidate / baseline of these rates, where the baseline is the generic kernel on an idle machine; "
        "above 100 is faster. Ratios of times, as in the comparisons, are their inverse.",
        f"The page's percentages are of UnixBench, {'; '.join(measured)}. The workloads here resemble UnixBench's, in the "
        "same order, so percentages can be compared and rates can't. integer and floating_point are beside Dhrystone and Whetstone, and "
        "are other programs.",
        tmpfs if any(row.name.startswith("file_copy") for row in rows) else "",
        tasks if section == SEVERAL else "",
        f"As on the page, yes: both slower than generic, both faster, or both within {formatting.percent(margin)} of it, and of the same "
        f"size: within a factor of {SAME_SIZE}. size x 8.2: the same direction, but the percentage is 8.2 times the page's.",
        *(
            _agreement(what, [(row, row.here[at], row.page[at]) for row in rows], margin)
            for at, what in enumerate(COLUMNS[1:])
        ),
        mean if index.here[0] is not None else "",
    )
    return filter(None, texts)


def _agreement(what: str, rows: Sequence[tuple[Row, float | None, float | None]], margin: float) -> str:
    """Return the sentence that counts the rows of a column with the same direction as the published ones, and with the same size."""
    known = [(row, here, page) for row, here, page in rows if here is not None and page is not None]
    if not known:
        return f"{what}: not measured here together with generic, so it can't be compared with the page."
    against = [row.workload for row, here, page in known if not same_direction(here, page, margin)]
    tail = f"; another direction: {', '.join(against)}" if against else ""
    sizes = [here / page for row, here, page in known if here and page and row.workload not in against]
    alike = sum(same_size(size, 1.0) for size in sizes)
    farthest = max(sizes, key=lambda size: abs(math.log(size)), default=1.0)
    size = f", {alike} of them of the same size" if sizes else ""
    size += f" (the farthest is {formatting.ratio(farthest)} times the page's)" if alike < len(sizes) else ""
    count = formatting.count(len(known), "row")
    return f"{what}: {len(known) - len(against)} of {count} in the same direction as the page{size}{tail}."


THROUGHPUT = Topic("throughput", 30, sections)
