# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios of two sides in exhibits: each is that of the comparison of the time to read first, whatever elapsed time was."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.golden import reports
from tests.unit import builders
from tests.unit.builders import analysis
from tests.unit.report.test_service_tables import BANDWIDTH
from tests.unit.report.test_throughput import CPU, WALL, comparison, context

from swapstone.core.model import Comparison, Verdict
from swapstone.core.report.context import ReportContext
from swapstone.core.report.ratios import Column, Ratios, mean_of, weighted
from swapstone.core.report.record_report import sections_of
from swapstone.parts.published.data import measured_rows, page_claims
from swapstone.parts.published.report.claim_verdicts import judge
from swapstone.parts.published.report.measured import Analysed
from swapstone.parts.published.report.published_differences import differences
from swapstone.parts.published.report.throughput import page_rows

CPU_TIMES = 1.0107
"""What CPU time, which is read first, has in every row."""

ELAPSED = 1.9137
"""What elapsed time has beside other programs that compute."""

FACTORS = {"libc": ("glibc", "musl"), "kernel": ("generic", "rt")}


def works(factor: str) -> Iterator[tuple[str, str]]:
    """Yield the workloads of the suites whose tables compare levels of a factor."""
    for row in measured_rows():
        yield from ((row.own_suite, name) for name in (row.workload, row.less, row.plus) if name)
    if factor == "kernel":
        yield from (("throughput", name + tasks) for name, _ in page_rows() for tasks in ("", " (8 tasks)"))
    else:
        yield from (("libc", name) for name in ("b_malloc_sparse", "b_malloc_tiny1", "b_string_strchr"))


def rows(factor: str) -> Iterator[Comparison]:
    """Yield comparisons made beside other programs: of CPU time, which is read first, elapsed time and bandwidth."""
    for place, (suite, work) in enumerate(dict.fromkeys(works(factor))):
        # A workload whose time is subtracted takes less than the one from which it is.
        subtracted = work.startswith(("lat_ctx(1", "lat_sig(send", "lat_pagefault(mmap"))
        time = 3e3 if subtracted else 12e3 if "prot" in work else 7e3
        found = [(WALL, time * (1.37 + place / 1e3), ELAPSED), (CPU, time, CPU_TIMES)]
        found += [(BANDWIDTH, 311.0, 1 / ELAPSED)] if work.startswith("bw_") else []
        for metric, value, ratio in found:
            before = tuple(value * noise for noise in (0.97, 1.0, 1.04))
            yield comparison(
                work,
                before,
                # The quotient of the medians is another one than that of the pairs.
                tuple(each * ratio * 1.003 for each in before),
                suite=suite,
                metric=metric,
                baseline=f"{factor}={FACTORS[factor][0]}",
                candidate=f"{factor}={FACTORS[factor][1]}",
                effect=ratio,
                low=ratio * 0.99,
                high=ratio * 1.01,
                preferred=metric is CPU,
                verdict=Verdict.EQUIVALENT,
            )


def subject(factor: str) -> ReportContext:
    published = {"libc": "musl-vs-glibc", "kernel": "preempt-rt"}[factor]
    return msgspec.structs.replace(context((factor, FACTORS[factor])), published=published)


def exhibits(factor: str, *found: Comparison) -> list[reports.Texts]:
    return [reports.texts(each) for each in sections_of(subject(factor), analysis(*found))]


@pytest.mark.parametrize("factor", FACTORS)
def test_both_indices_and_their_ratio_agree(factor: str) -> None:
    found = exhibits(factor, *rows(factor))
    (table,) = (each for each in found if "unixbench" in each.name)
    place = table.head.index("rt" if factor == "kernel" else "libc=musl")
    (index,) = (row for row in table.rows if row[0] == "index")
    quotient = float(index[place]) / float(index[place - 1])
    # An index is a rate.
    assert quotient == pytest.approx(1 / CPU_TIMES, abs=2e-3)
    (words,) = (cell for cell in index if cell.startswith(("0.989 (", "98.9 (")))
    assert words


def test_pages_are_set_against_the_time_to_read_first() -> None:
    record = Analysed(name="r", experiment=subject("libc").experiment, analysis=analysis(*rows("libc")))
    times = [each for each in differences([record]).rows if each.place.metric == "wall"]
    assert times
    assert {round(each.here.value, 4) for each in times} <= {CPU_TIMES, round(1 / CPU_TIMES, 4)}
    texts = [found.text for each in judge(page_claims(), [record]) for found in each.evidence if "/" in found.text]
    assert texts
    assert not [text for text in texts if "1.914" in text or "0.523" in text]


def test_sides_without_a_comparison_have_bounds_from_both() -> None:
    """Over glibc, musl takes 2 times (1.8 to 2.2) and static 4 times (3.6 to 4.8): over musl 2 times, 3.6 / 2.2 to 4.8 / 1.8."""
    found = Ratios(
        analysis(
            comparison("w", (1.0,), (9.0,), suite="s", candidate="kernel=a", effect=2.0, low=1.8, high=2.2),
            comparison("w", (1.0,), (9.0,), suite="s", candidate="kernel=b", effect=4.0, low=3.6, high=4.8),
        )
    )
    first, second = (Column("idle", builders.variant(f"kernel={name}")) for name in "ab")
    ratio = found.ratio(("s", "w"), first, second)
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 3.6 / 2.2, 4.8 / 1.8))
    turned = found.ratio(("s", "w"), second, first)
    assert turned is not None and turned.inverse.bounds == pytest.approx(ratio.bounds)
    assert found.ratio(("s", "other"), first, second) is None
    less = weighted([ratio, ratio], [3.0, -1.0])
    assert less is not None and less.value == pytest.approx(2.0)
    assert less.low == pytest.approx((3 * 3.6 / 2.2 - 4.8 / 1.8) / 2)
    assert mean_of([]) is None and mean_of([ratio, None]) is None


def test_a_ratio_says_what_its_bounds_are() -> None:
    def text(**changes: object) -> str:
        found = Ratios(analysis(comparison("w", (1.0, 2.0), (3.0, 4.0), suite="s", **changes)))
        generic, rt = (Column("idle", builders.variant(f"kernel={each}")) for each in ("generic", "rt"))
        ratio = found.ratio(("s", "w"), generic, rt)
        return f"{ratio.text()}, {ratio.kind}" if ratio else ""

    assert text() == "2.333, exact"
    assert text(effect=2.0, low=1.9, high=2.1) == "2.00 (1.90–2.10), interval"  # noqa: RUF001 - a dash between numbers
    assert text(effect=2.0, low=1.9, high=2.1, bounded=True) == "2.00 [1.90 .. 2.10], range"
    assert text(effect=2.0) == "2.000 (no interval), none"
    assert text(verdict=Verdict.DISTURBED) == "disturbed, disturbed"
