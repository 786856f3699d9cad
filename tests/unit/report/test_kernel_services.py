# SPDX-License-Identifier: MIT OR Apache-2.0
"""lmbench's rows and UnixBench's index under PREEMPT_RT: numbers that were worked out by hand."""

from __future__ import annotations

import pytest
from tests.golden import reports
from tests.unit.builders import analysis
from tests.unit.report.test_service_tables import BANDWIDTH, row_of
from tests.unit.report.test_throughput import comparison, context

from swapstone.core.model import Comparison
from swapstone.core.report.record_report import sections_of
from swapstone.parts.published.data import baselines, measured_rows
from swapstone.parts.published.report.kernel_services import kernel_sections as sections

KERNELS = {"baseline": "kernel=generic", "candidate": "kernel=rt"}


def made(*comparisons: Comparison) -> tuple[reports.Texts, ...]:
    return tuple(map(reports.texts, sections(context(), analysis(*comparisons))))


def pair(suite: str, work: str, times: tuple[float, float, float], **changes: object) -> tuple[Comparison, Comparison]:
    """Return the comparisons of a workload with times of generic, of rt, and of rt under the load cyclictest."""
    generic, rt, loaded = times
    beside = comparison(work, (7.0,) * 3, (loaded,) * 3, suite=suite, load="cyclictest", **KERNELS, **changes)
    return row_of(suite, work, generic, rt, **KERNELS, **changes), beside


def test_the_columns_are_generic_rt_and_rt_under_the_load() -> None:
    (found,) = made(
        *pair("os", "lat_ctx(2,0)", (6000.0, 8000.0, 10000.0)),
        *pair("os", "lat_ctx(1,0)", (2000.0, 2000.0, 4000.0)),
        *pair("os", "bw_pipe", (1.0, 1.0, 1.0)),
        *pair("os", "bw_pipe", (300.0, 150.0, 75.0), metric=BANDWIDTH),
    )
    assert found.name == "kernel-lmbench"
    assert "has no figures" in found.title
    assert [row[:2] for row in found.rows] == [("2p/0K ctxsw", "us"), ("Pipe", "MB/s")]
    switch, pipe = found.data
    assert (switch["generic"], switch["rt"], switch["rt_cyclictest"]) == (4.0, 6.0, 6.0)
    assert (switch["rt_of_generic"], switch["rt_cyclictest_of_generic"]) == (1.5, 1.5)
    assert (pipe["rt_of_generic"], pipe["rt_cyclictest_of_generic"]) == (0.5, 0.25)
    assert switch["published_rt_of_generic"] is None


def test_the_index_is_that_of_the_ten_tests_and_its_share_the_mean_of_all_twelve() -> None:
    """Each test takes a time for which its score is 10 with generic, 5 with rt and 2.5 under the load; the two others are equal."""
    references = {name: value for name, value, _ in baselines()}
    rows = []
    for row in measured_rows("unixbench"):
        time = {"lpm": 60.0}.get(row.unit, 1.0) * 1e9 / references[row.metric]
        factors = (1, 1, 1) if row.same_kind else (1, 2, 4)
        rows.append(pair("unix", row.workload, (time * factors[0], time * factors[1], time * factors[2])))
    (found,) = made(*(each for both in rows for each in both))
    assert found.name == "kernel-unixbench"
    assert found.rows[-2][:5] == ("index", "1", "10.00", "5.000", "2.500")
    assert (found.data[-2]["rt_of_generic"], found.data[-2]["rt_cyclictest_of_generic"]) == pytest.approx((0.5, 0.25))
    index = found.data[-1]
    assert index["rt_of_generic"] == pytest.approx(2 ** (-10 / 12))
    assert index["rt_cyclictest_of_generic"] == pytest.approx(4 ** (-10 / 12))
    # The page: 626.4 and 618.5 of 773.4.
    assert index["published_rt_of_generic"] == pytest.approx(0.8099, abs=1e-4)
    assert index["published_rt_cyclictest_of_generic"] == pytest.approx(0.7997, abs=1e-4)
    pipe = next(row for row in found.data if row["row"] == "Pipe Throughput")
    assert pipe["published_rt_of_generic"] == pytest.approx(0.79611, abs=1e-5)


def test_without_a_test_there_is_no_index() -> None:
    (found,) = made(*pair("unix", "pipe (1 copy)", (1000.0, 1250.0, 1250.0)))
    pipe, index, every = found.data
    assert pipe["rt_of_generic"] == pytest.approx(0.8)
    assert [index[key] for key in ("generic", "rt", "rt_cyclictest", "rt_of_generic")] == [None] * 4
    assert every["rt_of_generic"] is None
    assert any(note.startswith("The index is unavailable") for note in found.notes)


def test_other_factors_have_the_tables_of_pairs_and_kernels_these_alone() -> None:
    libraries = context(("libc", ("glibc", "musl")))
    assert sections(libraries, analysis(row_of("os", "lat_pipe", 2.0, 1.0))) == ()
    both = sections_of(context(), analysis(*pair("os", "lat_pipe", (2.0, 1.0, 1.0))))
    assert [each.name for each in both if each.name.endswith(("-rows", "-lmbench"))] == ["kernel-lmbench"]


def test_each_level_of_another_factor_has_its_table() -> None:
    found = sections(
        context(("kernel", ("generic", "rt")), ("libc", ("glibc", "musl"))),
        analysis(
            row_of("os", "lat_pipe", 2.0, 1.0, baseline="kernel=generic,libc=glibc", candidate="kernel=rt,libc=glibc")
        ),
    )
    assert [each.name for each in found] == ["kernel-lmbench-1"]
    assert found[0].title.endswith(", libc=glibc")
