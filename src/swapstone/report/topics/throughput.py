# SPDX-License-Identifier: MIT OR Apache-2.0
"""Throughput under PREEMPT_RT: the published page's tables 12 (one task) and 13 (several tasks), measured here and published."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swapstone import published
from swapstone.model import IDLE, Analysis, FrozenStruct, Variant
from swapstone.report import formatting
from swapstone.report.context import ReportContext
from swapstone.report.document import Section, data_section
from swapstone.report.topics.page_sizes import SAME_SIZE, same_size, size_note
from swapstone.report.topics.topic import Topic
from swapstone.report.verdict_groups import NO_NUMBERS

SUITE = "throughput"
KERNEL = "kernel"
GENERIC, RT, LOAD = "generic", "rt", "cyclictest"
STUDY, SINGLE, SEVERAL = "preempt-rt", "throughput-single", "throughput-several"
INDEX = "index"
"""The work of the row of geometric means, and the page's row."""


HEAD = (
    "work",
    "generic",
    "rt",
    "rt + cyclictest",
    "rt %",
    "rt + cyclictest %",
    "page: rt %",
    "page: rt + cyclictest %",
    "as on the page",
)

Place = tuple[str, str, Variant]
"""(load, workload, variant)"""


class Table(FrozenStruct, frozen=True, kw_only=True):
    """One of the page's tables.

    Attributes:
        name: of the section, and of its joins with the published figures.
        title: of the section.
        suffix: of the workloads' names.
    """

    name: str
    title: str
    suffix: str


TABLES = (
    Table(
        name=SINGLE,
        title="Throughput under PREEMPT_RT in per cent of the generic kernel's, one task (table 12 of the published page)",
        suffix="",
    ),
    Table(
        name=SEVERAL,
        title="Throughput under PREEMPT_RT in per cent of the generic kernel's, eight tasks at once (table 13 of the published page)",
        suffix=" (8 tasks)",
    ),
)


class Shares(FrozenStruct, frozen=True, kw_only=True):
    """Throughput as a share of the generic kernel's on an idle machine: of rt, and of rt under the load cyclictest. None if unknown."""

    rt: float | None
    loaded: float | None

    def both(self) -> tuple[float | None, float | None]:
        """Return both shares."""
        return self.rt, self.loaded


class Row(FrozenStruct, frozen=True, kw_only=True):
    """One workload.

    Attributes:
        work: its name without the number of tasks.
        workload: its name.
        page: the page's row.
        rates: operations per second of generic, rt, and rt under the load cyclictest; None without a value.
        measured, on_page: shares of generic, measured here and published.
    """

    work: str
    workload: str
    page: str
    rates: tuple[float | None, float | None, float | None]
    measured: Shares
    on_page: Shares


@functools.cache
def page_rows() -> tuple[tuple[str, str], ...]:
    """Return pairs (workload, the page's row), in the page's order."""
    joined = published.joined(SINGLE, STUDY)
    return tuple(dict.fromkeys((each.place.workload, each.figure.metric) for each in joined if not each.place.index))


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return both tables for each combination of the other factors' levels; none unless generic and rt kernels ran the suite.

    Args:
        context: gives the factors, the margin and the machine's facts.
        analysis: holds the comparisons of elapsed time.
    """
    levels = next((choice.levels for choice in context.experiment.factors if choice.factor == KERNEL), ())
    if GENERIC not in levels or RT not in levels:
        return ()
    times = _medians(analysis)
    others = [choice for choice in context.experiment.factors if choice.factor != KERNEL]
    found = []
    for number, held in enumerate(itertools.product(*(choice.levels for choice in others))):
        fixed = {choice.factor: level for choice, level in zip(others, held, strict=True)}
        variants = {level: _variant(context, {**fixed, KERNEL: level}) for level in (GENERIC, RT)}
        for table in TABLES:
            rows = tuple(_rows(table, variants, times))
            if rows:
                found.append(_section(context, table, rows, fixed, f"-{number + 1}" if others else ""))
    return tuple(found)


def _variant(context: ReportContext, levels: Mapping[str, str]) -> Variant:
    return Variant(levels=tuple((choice.factor, levels[choice.factor]) for choice in context.experiment.factors))


def _medians(analysis: Analysis) -> dict[Place, float]:
    """Return the median over blocks of the elapsed time of one operation, in ns, by (load, workload, variant)."""
    values: dict[Place, Sequence[float]] = {}
    for each in analysis.comparisons:
        if each.suite != SUITE or each.metric.name != "wall" or each.verdict in NO_NUMBERS:
            continue
        for variant, side in ((each.baseline, each.baseline_values), (each.candidate, each.candidate_values)):
            key = (each.load, each.workload, variant)
            # A variant is in several comparisons, in each with the blocks of its partner. Take the longest list.
            if len(side) > len(values.get(key, ())):
                values[key] = side
    return {key: statistics.median(side) for key, side in values.items()}


def _rows(table: Table, variants: Mapping[str, Variant], times: Mapping[Place, float]) -> Iterator[Row]:
    for work, page in page_rows():
        name = work + table.suffix
        places = ((IDLE.name, GENERIC), (IDLE.name, RT), (LOAD, RT))
        rates = [_rate(times.get((load, name, variants[level]))) for load, level in places]
        if any(rate is not None for rate in rates):
            yield Row(
                work=work,
                workload=name,
                page=page,
                rates=(rates[0], rates[1], rates[2]),
                measured=Shares(rt=_share(rates[1], rates[0]), loaded=_share(rates[2], rates[0])),
                on_page=_published(table, name),
            )


def _rate(nanoseconds: float | None) -> float | None:
    return 1e9 / nanoseconds if nanoseconds else None


def _share(rate: float | None, generic: float | None) -> float | None:
    return rate / generic if rate is not None and generic is not None else None


def _published(table: Table, workload: str) -> Shares:
    """Return the published shares of a workload; of the index, if `workload` is empty."""
    found = {
        (dict(each.place.side.levels)[KERNEL], each.place.side.load): each.figure.value
        for each in published.joined(table.name, STUDY)
        if each.place.workload == workload
    }
    generic = found.get((GENERIC, IDLE.name))
    return Shares(
        rt=_share(found.get((RT, IDLE.name)), generic),
        loaded=_share(found.get((RT, LOAD)), generic),
    )


def _mean(shares: Iterable[float]) -> float | None:
    """Return the geometric mean; None without values."""
    logs = [math.log(share) for share in shares]
    return math.exp(statistics.fmean(logs)) if logs else None


def _index(rows: Sequence[Row], table: Table) -> Row:
    """Return the row of the index: geometric means over the rows that both sides have.

    The published index is the page's own where all rows were measured, else the mean over the same rows.
    """
    whole = _published(table, "").both()
    measured: list[float | None] = []
    on_page: list[float | None] = []
    for which in (0, 1):
        pairs = [(row.measured.both()[which], row.on_page.both()[which]) for row in rows]
        both = [(here, page) for here, page in pairs if here is not None and page is not None]
        measured.append(_mean(here for here, _ in both))
        on_page.append(whole[which] if len(both) == len(page_rows()) else _mean(page for _, page in both))
    return Row(
        work=INDEX,
        workload=INDEX,
        page=INDEX,
        rates=(None, None, None),
        measured=Shares(rt=measured[0], loaded=measured[1]),
        on_page=Shares(rt=on_page[0], loaded=on_page[1]),
    )


def same_direction(measured: float | None, on_page: float | None, margin: float) -> bool | None:
    """Return whether two shares have the same direction: both slower than generic, both faster, or both within the margin.

    Args:
        measured: share of generic's throughput; None without one.
        on_page: the published one.
        margin: shares from 1 / (1 + margin) to 1 + margin are neither.

    Returns:
        None where one of them is missing.
    """
    if measured is None or on_page is None:
        return None
    return _direction(measured, margin) == _direction(on_page, margin)


def beside_page(measured: float | None, on_page: float | None, margin: float) -> str:
    """Return how a share compares with the published one: ``yes``, ``size x 8.2``, ``other direction``, or ``-`` where one is missing.

    Args:
        measured: share of generic's throughput; None without one.
        on_page: the published one.
        margin: as of `same_direction`.
    """
    same = same_direction(measured, on_page, margin)
    if same is None or measured is None or on_page is None:
        return "-"
    if not same:
        return "other direction"
    return "yes" if same_size(measured, on_page) else size_note(measured, on_page)


def _direction(share: float, margin: float) -> int:
    return 0 if abs(math.log(share)) <= math.log1p(margin) else 1 if share > 1 else -1


def _section(
    context: ReportContext, table: Table, rows: tuple[Row, ...], fixed: Mapping[str, str], number: str
) -> Section:
    margin = context.experiment.margin
    index = _index(rows, table)
    shown = (*rows, index)
    where = "".join(f", {factor}={level}" for factor, level in fixed.items())
    return data_section(
        name=f"{table.name}{number}",
        title=table.title + where,
        head=HEAD,
        rows=tuple(_cells(row, margin) for row in shown),
        right=(False, *(True,) * (len(HEAD) - 2), False),
        data=tuple(_data(row, margin) for row in shown),
        notes=tuple(_notes(context, table, rows, index)),
    )


def _cells(row: Row, margin: float) -> tuple[str, ...]:
    answers = [
        beside_page(here, page, margin) for here, page in zip(row.measured.both(), row.on_page.both(), strict=True)
    ]
    return (
        row.work,
        *("-" if rate is None else formatting.quantity(rate, "1/s") for rate in row.rates),
        *("-" if share is None else f"{share * 100:.1f}" for share in (*row.measured.both(), *row.on_page.both())),
        ", ".join(answers),
    )


def _data(row: Row, margin: float) -> dict[str, str | float | None]:
    def in_percent(share: float | None) -> float | None:
        return None if share is None else share * 100

    def answer(here: float | None, page: float | None) -> str | None:
        verdict = same_direction(here, page, margin)
        if verdict is None or here is None or page is None:
            return None
        return "no" if not verdict else "yes" if same_size(here, page) else "another size"

    return {
        "work": row.workload,
        "published_row": row.page,
        "generic_per_second": row.rates[0],
        "rt_per_second": row.rates[1],
        "rt_cyclictest_per_second": row.rates[2],
        "rt_percent": in_percent(row.measured.rt),
        "rt_cyclictest_percent": in_percent(row.measured.loaded),
        "published_rt_percent": in_percent(row.on_page.rt),
        "published_rt_cyclictest_percent": in_percent(row.on_page.loaded),
        "rt_same_way": answer(row.measured.rt, row.on_page.rt),
        "rt_cyclictest_same_way": answer(row.measured.loaded, row.on_page.loaded),
        "rt_of_page": _share(row.measured.rt, row.on_page.rt),
        "rt_cyclictest_of_page": _share(row.measured.loaded, row.on_page.loaded),
    }


def _notes(context: ReportContext, table: Table, rows: tuple[Row, ...], index: Row) -> Iterator[str]:
    margin = context.experiment.margin
    yield (
        "Operations per second: 1 over the median elapsed time of one operation, over the blocks. Of a copied file, an operation is 1024 "
        "bytes. The percentages are candidate / baseline of these rates, where the baseline is the generic kernel on an idle machine; "
        "above 100 is faster. Ratios of times, as in the comparisons, are their inverse."
    )
    yield (
        f"The page's percentages are of UnixBench, {_measured_on(table)}. The workloads here resemble UnixBench's, in the "
        "same order, so percentages can be compared and rates can't. integer and floating_point are beside Dhrystone and Whetstone, and "
        "are other programs."
    )
    if any(row.work.startswith("file_copy") for row in rows):
        yield "file_copy copies within memory (tmpfs); the page's machine had an SSD, and the page does not name the file system."
    if table.suffix:
        one = "," not in dict(context.facts).get("cpus", "")
        yield (
            "The eight tasks share the machine's one processor; on the page each had a processor. So here no task waits for a lock that is "
            "held on another processor."
            if one
            else "The eight tasks share this machine's processors; on the page each had a processor."
        )
    yield (
        f"As on the page, yes: both slower than generic, both faster, or both within {formatting.percent(margin)} of it, and of the same "
        f"size: within a factor of {SAME_SIZE}. size x 8.2: the same direction, but the percentage is 8.2 times the page's."
    )
    for what, which in (("rt", 0), ("rt + cyclictest", 1)):
        yield _agreement(what, [(row, row.measured.both()[which], row.on_page.both()[which]) for row in rows], margin)
    if index.measured.rt is not None:
        full = sum(row.measured.rt is not None and row.on_page.rt is not None for row in rows)
        page = (
            "its own index"
            if full == len(page_rows())
            else f"the same mean over those rows (its index has {len(page_rows())})"
        )
        yield f"The index is the geometric mean of the percentages over {formatting.count(full, 'row')}; the page's is {page}."


def _measured_on(table: Table) -> str:
    """Return the condition and the machine of a table of the page."""
    found = dict.fromkeys(
        f"{each.figure.condition}, on {each.figure.platform}" for each in published.joined(table.name, STUDY)
    )
    return "; ".join(found)


def _agreement(what: str, rows: Sequence[tuple[Row, float | None, float | None]], margin: float) -> str:
    """Return the sentence that counts the rows of a column with the same direction as the published ones, and with the same size."""
    judged = [(row, same_direction(here, page, margin)) for row, here, page in rows]
    known = [(row, verdict) for row, verdict in judged if verdict is not None]
    if not known:
        return f"{what}: not measured here together with generic, so it can't be compared with the page."
    against = [row.workload for row, verdict in known if not verdict]
    tail = f"; another direction: {', '.join(against)}" if against else ""
    sizes = [here / page for row, here, page in rows if here and page and same_direction(here, page, margin)]
    alike = sum(same_size(size, 1.0) for size in sizes)
    farthest = max(sizes, key=lambda size: abs(math.log(size)), default=1.0)
    size = f", {alike} of them of the same size" if sizes else ""
    size += f" (the farthest is {formatting.ratio(farthest)} times the page's)" if alike < len(sizes) else ""
    count = formatting.count(len(known), "row")
    return f"{what}: {len(known) - len(against)} of {count} in the same direction as the page{size}{tail}."


THROUGHPUT = Topic("throughput", sections)
