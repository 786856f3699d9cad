# SPDX-License-Identifier: MIT OR Apache-2.0
"""lmbench's rows and UnixBench's scores under PREEMPT_RT: the columns of the published page's tables 14 and 12, measured here."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from swapstone import published
from swapstone.model import IDLE, Analysis, FrozenStruct, Variant
from swapstone.published.measured_rows import LMBENCH, UNIXBENCH, MeasuredRow
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.service_values import Times, geometric_mean, index_of, value_of
from swapstone.report.topics.throughput import GENERIC, KERNEL, LOAD, RT, beside_page
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

STUDY, LATENCIES, SCORES = "preempt-rt", "kernel-lmbench", "kernel-unixbench"
_SUITES = frozenset({"os", "unix"})
_SIDES = ((IDLE.name, GENERIC), (IDLE.name, RT), (LOAD, RT))
"""The page's three columns: (load, kernel)."""
_COLUMNS = ("generic", "rt", "rt + cyclictest")
_INDEX = "index"

Three = tuple[float | None, float | None, float | None]
"""A value for each of the page's columns; None where one is missing."""


class Row(FrozenStruct, frozen=True, kw_only=True):
    """A row of lmbench or UnixBench, or UnixBench's index.

    Attributes:
        name, unit: of the row.
        published: the row; None of the index.
        values: in the row's unit.
        page: the published ones; None where the page has none.
        mean: of the index: the geometric mean of the tests' ratios, of rt and of rt under the load, which are not those of `values`.
    """

    name: str
    unit: str
    published: MeasuredRow | None
    values: Three
    page: Three
    mean: tuple[float | None, float | None] | None = None

    def ratio(self, column: int, *, page: bool = False) -> float | None:
        """Return a column over that of the generic kernel on an idle machine; None if one is missing."""
        if self.mean is not None and not page:
            return self.mean[column - 1]
        values = self.page if page else self.values
        one, base = values[column], values[0]
        return one / base if one and base else None


def compares_kernels(context: ReportContext) -> bool:
    """Return whether an experiment compares a generic kernel with one that has PREEMPT_RT."""
    levels = next((choice.levels for choice in context.experiment.factors if choice.factor == KERNEL), ())
    return GENERIC in levels and RT in levels


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suites.

    Args:
        context: gives the factors and the margin.
        analysis: holds the comparisons of elapsed time and bandwidth.
    """
    if not compares_kernels(context):
        return ()
    times = _times(analysis)
    others = [choice for choice in context.experiment.factors if choice.factor != KERNEL]
    found = []
    for number, held in enumerate(itertools.product(*(choice.levels for choice in others)), start=1):
        fixed = {choice.factor: level for choice, level in zip(others, held, strict=True)}
        sides = [times.get((load, _variant(context, {**fixed, KERNEL: level})), {}) for load, level in _SIDES]
        where = "".join(f", {factor}={level}" for factor, level in fixed.items())
        suffix = f"-{number}" if others else ""
        lmbench = [row for row in _rows(LMBENCH, sides) if _measured(row)]
        unixbench = [row for row in _rows(UNIXBENCH, sides) if _measured(row)]
        if lmbench:
            found.append(_latencies(lmbench, where, suffix))
        if unixbench:
            found.append(_scores([*unixbench, _index(unixbench)], where, suffix, context.experiment.margin))
    return tuple(found)


def _variant(context: ReportContext, levels: Mapping[str, str]) -> Variant:
    return Variant(levels=tuple((choice.factor, levels[choice.factor]) for choice in context.experiment.factors))


def _times(analysis: Analysis) -> dict[tuple[str, Variant], dict[tuple[str, str], float]]:
    """Return the medians over blocks by (load, variant), each by (workload, metric)."""
    longest: dict[tuple[str, Variant, str, str], Sequence[float]] = {}
    for each in analysis.comparisons:
        if each.suite not in _SUITES or each.metric.name not in {"wall", "bandwidth"} or each.verdict in NO_NUMBERS:
            continue
        for variant, values in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values)):
            key = (each.load, variant, each.workload, each.metric.name)
            # A variant is in several comparisons, in each with the blocks of its partner. Take the longest list.
            if len(values) > len(longest.get(key, ())):
                longest[key] = values
    found: dict[tuple[str, Variant], dict[tuple[str, str], float]] = {}
    for (load, variant, workload, metric), most in longest.items():
        found.setdefault((load, variant), {})[workload, metric] = statistics.median(most)
    return found


def _rows(which: Sequence[MeasuredRow], sides: Sequence[Times]) -> Iterator[Row]:
    for row in which:
        values = [value_of(row, side) for side in sides]
        yield Row(
            name=row.metric,
            unit=row.unit,
            published=row,
            values=(values[0], values[1], values[2]),
            page=_on_page(row.workload),
        )


def _measured(row: Row) -> bool:
    return any(value is not None for value in row.values)


def _on_page(workload: str) -> Three:
    """Return the published values of a test of UnixBench; of the index, if `workload` is empty."""
    found = {
        (each.place.side.load, dict(each.place.side.levels)[KERNEL]): each.figure.value
        for each in published.joined(SCORES, STUDY)
        if each.place.workload == workload
    }
    values = [found.get(side) for side in _SIDES]
    return values[0], values[1], values[2]


def _index(rows: Sequence[Row]) -> Row:
    """Return UnixBench's index of each column over the ten tests with its work, and the mean of the ratios of all twelve."""
    values = [index_of({row.name: row.values[column] for row in rows}) for column in range(len(_SIDES))]
    means = []
    for column in (1, 2):
        ratios = [ratio for row in rows if (ratio := row.ratio(column)) is not None]
        means.append(geometric_mean(ratios) if len(ratios) == len(UNIXBENCH) else None)
    return Row(
        name=_INDEX,
        unit="1",
        published=None,
        values=(values[0], values[1], values[2]),
        page=_on_page(""),
        mean=(means[0], means[1]),
    )


def _latencies(rows: Sequence[Row], where: str, suffix: str) -> Section:
    return data_section(
        name=LATENCIES + suffix,
        title="The rows of lmbench's summary under PREEMPT_RT (table 14 of the published page, which has no figures)"
        + where,
        head=("row", "unit", *_COLUMNS, "rt / generic", "rt + cyclictest / generic"),
        rows=tuple(
            (
                row.name,
                row.unit,
                *map(_number, row.values),
                *("-" if (ratio := row.ratio(column)) is None else formatting.ratio(ratio) for column in (1, 2)),
            )
            for row in rows
        ),
        right=(False, False, *(True,) * 5),
        keys=2,
        data=tuple(map(_data, rows)),
        notes=(
            "Medians over the blocks. The page's table 14 is a picture without figures, so there is nothing to compare with, and its "
            "caption states several tasks; here one program runs. Below 1 of a row in us, and above 1 of one in MB/s, rt is faster.",
            "Rows of memory in MB/s count instructions on the virtual clock, on which a memory access takes the time of any instruction.",
        ),
    )


def _scores(rows: Sequence[Row], where: str, suffix: str, margin: float) -> Section:
    head = (
        "test",
        "unit",
        *_COLUMNS,
        "rt %",
        "rt + cyclictest %",
        "page: rt %",
        "page: rt + cyclictest %",
        "as on the page",
    )
    return data_section(
        name=SCORES + suffix,
        title="UnixBench's tests and index under PREEMPT_RT, one task (table 12 of the published page)" + where,
        head=head,
        rows=tuple(_cells(row, margin) for row in rows),
        right=(False, False, *(True,) * 7, False),
        keys=2,
        data=tuple(map(_data, rows)),
        notes=tuple(_notes(rows)),
    )


def _cells(row: Row, margin: float) -> tuple[str, ...]:
    here = [row.ratio(column) for column in (1, 2)]
    page = [row.ratio(column, page=True) for column in (1, 2)]
    mark = "*" if row.published is not None and row.published.same_kind else ""
    return (
        row.name + mark,
        row.unit,
        *map(_number, row.values),
        *("-" if share is None else f"{share * 100:.1f}" for share in (*here, *page)),
        ", ".join(beside_page(mine, theirs, margin) for mine, theirs in zip(here, page, strict=True)),
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "Medians over the blocks. The percentages are of the generic kernel's rate on an idle machine; above 100 is faster. The page's are "
        "of a board with eight processors; its files are on an SSD, here on a tmpfs."
    )
    index = rows[-1]
    page = index.page[0]
    beside = (
        f" The page's index of generic, {page:g}, is of that board: only percentages can be compared." if page else ""
    )
    yield (
        "index: the geometric mean of the scores, 10 times the rate over UnixBench's reference, of the ten tests with UnixBench's "
        f"work; its percentages are the mean over all {len(UNIXBENCH)} tests.{beside}"
    )
    if any(value is None for value in index.values):
        yield "The index is unavailable where one of these tests has no value."
    yield "*: other work of the same kind as Dhrystone and Whetstone, so these results have no score."


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else formatting.digits(value, 4)


def _data(row: Row) -> dict[str, str | float | None]:
    return {
        "row": row.name,
        "unit": row.unit,
        "workload": row.published.workload if row.published else _INDEX,
        "less": row.published.less if row.published else "",
        "plus": row.published.plus if row.published else "",
        "generic": row.values[0],
        "rt": row.values[1],
        "rt_cyclictest": row.values[2],
        "rt_of_generic": row.ratio(1),
        "rt_cyclictest_of_generic": row.ratio(2),
        "published_rt_of_generic": row.ratio(1, page=True),
        "published_rt_cyclictest_of_generic": row.ratio(2, page=True),
    }


KERNEL_SERVICES = Topic("kernel-services", sections)
