# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of copies and allocations: measured medians, and published figures divided by their requests."""

from __future__ import annotations

import msgspec
from tests.golden import reports
from tests.unit import builders
from tests.unit.builders import analysis, experiment

from swapstone.core.model import (
    Analysis,
    Comparison,
    Direction,
    FactorLevels,
    Metric,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics import all_topics
from swapstone.parts.net.report.netstack import NETSTACK, sections
from swapstone.parts.published.data import joined


def made(context: ReportContext, analysis: Analysis) -> tuple[reports.Texts, ...]:
    """Return the texts of the topic's sections."""
    return tuple(map(reports.texts, sections(context, analysis)))


def counted(
    work: str,
    metric: str,
    lwip: float,
    smoltcp: float,
    *,
    verdict: Verdict = Verdict.BETTER,
    suite: str = "netstack-counts",
) -> Comparison:
    return Comparison(
        suite=suite,
        workload=work,
        load="idle",
        metric=Metric(name=metric, unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning=metric),
        baseline=builders.variant("netstack=lwip"),
        candidate=builders.variant("netstack=smoltcp"),
        baseline_values=(lwip, lwip, 2 * lwip),
        candidate_values=(smoltcp, smoltcp / 2, smoltcp),
        scale=Scale.RATIO,
        effect=None,
        low=None,
        high=None,
        confidence=0.95,
        p_value=None,
        smallest_visible=None,
        exact=False,
        verdict=verdict,
    )


FOUND = analysis(
    counted("counts-tuned", "copies", 22.0, 15.0),
    counted("counts-tuned", "heap_calls", 0.25, 2.0),
    counted("counts-tuned", "store_calls", 9.0, 0.0),
    counted("counts-tuned", "heap_bytes", 100.0, 450.0),
    counted("counts-plain", "copies", 24.0, 16.0, verdict=Verdict.INVALID),
)
CLIENTS = analysis(
    counted("counts-client-tuned", "copies", 0.5, 7.0),
    counted("counts-client-plain", "copies", 3.0, 9.0),
    counted("counts-tuned", "copies", 22.0, 15.0),
)
CONTEXT = ReportContext(
    experiment=experiment(factors=(FactorLevels(factor="netstack", levels=("lwip", "smoltcp")),)),
    record_id="id",
    record_path="path",
)


def test_it_is_made_of_counts_alone() -> None:
    assert NETSTACK in all_topics()
    assert made(CONTEXT, analysis(counted("ab", "copies", 1.0, 2.0, suite="netstack"))) == ()


def test_ours_are_medians_and_lwips_own_store_is_apart() -> None:
    (exhibit,) = made(CONTEXT, FOUND)
    assert exhibit.rows == (
        ("here", "lwip, server, tuned", "22", "", "0.25", "100", "9", ""),
        ("here", "smoltcp, server, tuned", "15", "", "2", "450", "0", ""),
    )
    assert exhibit.data[0] == {
        "measured": "here",
        "program": "lwip, server, tuned",
        "copies": 22.0,
        "copied_bytes": None,
        "allocations": 0.25,
        "allocated_bytes": 100.0,
        "store_allocations": 9.0,
        "store_bytes": None,
    }
    assert len(exhibit.notes) == 1


def test_the_pages_figures_are_divided_by_its_requests() -> None:
    (exhibit,) = made(msgspec.structs.replace(CONTEXT, published="lwip-vs-smoltcp"), CLIENTS)
    page = {row[1]: row[2:] for row in exhibit.rows if row[0] == "the page"}
    assert page == {
        "lwip, app/c/httpclient": ("~19", "1149", "", "", "", ""),
        "smoltcp, app/c/httpclient": ("~14", "2181", "", "", "", ""),
        "lwip zero-copy rx, app/c/httpclient": ("~14", "776", "", "", "", ""),
        "lwip zero-copy rx, app/net/httpclient": ("", "", "13", "263730", "", ""),
        "smoltcp, app/net/httpclient": ("", "", "8+", "271000+", "", ""),
        "lwip pools, app/net/httpclient": ("", "", "8.01", "263489", "", ""),
        "lwip pools + preallocated queues, app/net/httpclient": ("", "", "8.01", "263473", "", ""),
    }
    assert "divided by its requests" in exhibit.notes[1]


def test_published_clients_stand_below_clients_and_beside_no_server() -> None:
    published = msgspec.structs.replace(CONTEXT, published="lwip-vs-smoltcp")
    (exhibit,) = made(published, CLIENTS)
    assert [row[:3] for row in exhibit.rows[:7]] == [
        ("here", "lwip, server, tuned", "22"),
        ("here", "smoltcp, server, tuned", "15"),
        ("here", "lwip, client, plain", "3"),
        ("here", "smoltcp, client, plain", "9"),
        ("here", "lwip, client, tuned", "0.5"),
        ("here", "smoltcp, client, tuned", "7"),
        ("the page", "lwip, app/c/httpclient", "~19"),
    ]
    assert "the server's are another quantity" in exhibit.notes[1]
    (servers,) = made(published, FOUND)
    assert {row[0] for row in servers.rows} == {"here"}
    assert servers.notes[1] == (
        "The page's figures are of HTTP clients. These rows are of servers, so no published figure stands beside them."
    )


def test_the_joins_put_published_clients_beside_clients_that_copy() -> None:
    places = {each.place.workload for each in joined("netstack-counts", "lwip-vs-smoltcp")}
    assert places == {"counts-client-plain"}
