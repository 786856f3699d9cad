# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of servers, from runs whose numbers can be computed by hand."""

from __future__ import annotations

import pytest
from tests.golden import crossed, reports, servers

from swapstone.core.model import Analysis
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.record_report import sections_of
from swapstone.core.report.topics import all_topics
from swapstone.parts.own.report.servers import SERVERS, sections


def made(context: ReportContext, analysis: Analysis) -> tuple[reports.Texts, ...]:
    """Return the texts of the topic's sections."""
    return tuple(map(reports.texts, sections(context, analysis)))


CONTEXT, ANALYSIS = servers.context(), servers.analysis()
FOUND = {exhibit.name: exhibit for exhibit in map(reports.texts, sections_of(CONTEXT, ANALYSIS))}


def test_the_kind_is_registered_and_another_kind_has_none_of_it() -> None:
    assert SERVERS in all_topics()
    assert list(FOUND) == ["servers", "servers-published"]
    assert made(crossed.context(), crossed.analysis()) == ()


def test_a_table_without_the_page() -> None:
    (exhibit,) = made(servers.context(published=""), ANALYSIS)
    assert exhibit.head[-2:] == ("x", "x of musl")


def test_each_variant_of_each_server_has_a_row_but_those_that_can_not_be_had() -> None:
    table = FOUND["servers"]
    assert {len(row) for row in table.rows} == {len(table.head)} == {len(table.right)}
    assert len(table.rows) == len(table.data) == len(servers.WORKLOADS) * len(servers.LEVELS)
    assert [row[1] for row in table.rows[:2]] == ["glibc, default", "glibc, mimalloc"]
    assert not [row for row in table.rows if row[1] == "musl, tcmalloc"]


def test_ratios_are_of_the_baseline_and_of_musl() -> None:
    rows = {(row["server"], row["variant"]): row for row in FOUND["servers"].data}
    own, other = (rows["http(c=10,t=1)", f"libc=musl,allocator={name}"] for name in ("default", "mimalloc"))
    assert own["requests_against_first"] == pytest.approx(20 / 240, rel=0.03)
    assert own["requests_against_musl_default"] == 1.0
    assert other["requests_against_musl_default"] == pytest.approx(240 / 21.5, rel=0.03)
    assert own["minflt_per_request"] == 64.0
    assert other["cpu_per_request"] == pytest.approx(21.5 * 900, rel=0.03)


def test_a_row_has_the_same_number_in_every_table() -> None:
    """The column x is the estimate of the comparison with its interval, and not the quotient of the medians."""
    table = FOUND["servers"]
    place = table.head.index("x")
    shown = {(row["server"], row["variant"]): cells[place] for row, cells in zip(table.data, table.rows, strict=True)}
    compared = [c for c in ANALYSIS.comparisons if c.metric.name == "requests" and c.metric.leads and c.effect]
    assert len(compared) == 12
    assert {shown[c.workload, c.candidate.label] for c in compared} == {formatting.estimate(c) for c in compared}
    assert all(shown[c.workload, c.candidate.label] == formatting.estimate(c) for c in compared)
    assert {shown[c.workload, c.baseline.label] for c in compared} == {"1"}


def test_at_a_constant_rate_requests_are_the_schedules_and_have_no_ratio() -> None:
    paced = [row for row in FOUND["servers"].data if row["server"] == "http(paced)"]
    assert len(paced) == len(servers.LEVELS)
    assert {(row["requests_against_first"], row["requests_against_musl_default"]) for row in paced} == {(None, None)}
    assert all(row["requests"] and row["cpu_per_request"] for row in paced)


def test_published_ratios_are_beside_mimalloc_on_musl_with_as_many_connections_only() -> None:
    pages = {
        (row["server"], row["variant"]): row["published_against_musl_default"]
        for row in FOUND["servers"].data
        if row["published_against_musl_default"] is not None
    }
    assert pages == {
        ("http(c=10,t=1)", "libc=musl,allocator=mimalloc"): 16432.60 / 435.13,
        ("http(c=250,t=cores)", "libc=musl,allocator=mimalloc"): 169815.19 / 14009.94,
    }


def test_the_pages_figures_are_its_own() -> None:
    assert FOUND["servers-published"].rows[0] == (
        "Pentium T4500",
        "wrk -c10 -t1 -d10s",
        "musl",
        "435 /s",
        "22.7 ms",
        "22.9 ms",
        "23.3 ms",
        "29.3 ms",
        "51.0 ms",
    )
    assert len(FOUND["servers-published"].rows) == 4
