# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of lmbench's, UnixBench's and CoreMark's rows: numbers that were worked out by hand."""

from __future__ import annotations

import msgspec
import pytest
from tests.golden import reports
from tests.unit.builders import analysis
from tests.unit.report.test_throughput import WALL, comparison, context

from swapstone.core.model import Comparison, Verdict
from swapstone.parts.published.data import baselines, figures, measured_rows
from swapstone.parts.published.report.kernel_services import sections

BANDWIDTH = msgspec.structs.replace(WALL, name="bandwidth", unit="MB/s")


def row_of(suite: str, work: str, glibc: float, musl: float, **changes: object) -> Comparison:
    sides = {"baseline": "libc=glibc", "candidate": "libc=musl", "suite": suite, **changes}
    return comparison(work, (glibc,) * 3, (musl,) * 3, **sides)


def made(*comparisons: Comparison, rate: tuple[float, float] | None = None) -> tuple[reports.Texts, ...]:
    subject = msgspec.structs.replace(context(("libc", ("glibc", "musl"))), pieces={"clock-rate": rate})
    return tuple(map(reports.texts, sections(subject, analysis(*comparisons))))


def test_a_row_less_another_and_a_row_in_mb_per_s() -> None:
    (found,) = made(
        row_of("os", "lat_ctx(2,0)", 6000.0, 5000.0),
        row_of("os", "lat_ctx(1,0)", 2000.0, 2000.0),
        row_of("os", "lat_pipe", 8000.0, 4000.0),
        row_of("os", "bw_pipe", 1.0, 1.0),
        row_of("os", "bw_pipe", 300.0, 600.0, metric=BANDWIDTH),
    )
    assert found.name == "lmbench-rows"
    rows = {(row["row"], row["unit"]): row for row in found.data if row["ratio"] is not None}
    assert set(rows) == {("2p/0K ctxsw", "us"), ("Pipe", "us"), ("Pipe", "MB/s")}
    switch = rows["2p/0K ctxsw", "us"]
    assert (switch["baseline"], switch["candidate"], switch["ratio"]) == (4.0, 3.0, 0.75)
    assert switch["published_ratio"] == pytest.approx(23.3 / 24.9)
    assert rows["Pipe", "us"]["ratio"] == 0.5
    assert rows["Pipe", "us"]["published_ratio"] == pytest.approx(81.2 / 84.3)
    assert rows["Pipe", "MB/s"]["ratio"] == 2.0
    assert rows["Pipe", "MB/s"]["published_ratio"] == pytest.approx(306 / 303)


def test_a_protection_fault_is_less_a_handled_signal_which_is_less_its_sending() -> None:
    (found,) = made(
        row_of("os", "lat_sig(prot)", 3000.0, 3300.0),
        row_of("os", "lat_sig(catch)", 2500.0, 2600.0),
        row_of("os", "lat_sig(send)", 500.0, 400.0),
    )
    rows = {row["row"]: row for row in found.data if row["baseline"] is not None}
    assert {name: (row["baseline"], row["candidate"]) for name, row in rows.items()} == {
        "sig hndl": (2.0, 2.2),
        "Prot Fault": (1.0, 1.1),
    }
    assert (rows["Prot Fault"]["less"], rows["Prot Fault"]["plus"]) == ("lat_sig(catch)", "lat_sig(send)")
    assert any("Prot Fault the time of sig hndl" in note for note in found.notes)


def test_a_difference_that_is_not_above_zero_is_unavailable() -> None:
    (found,) = made(
        row_of("os", "lat_sig(prot)", 3000.0, 3000.0),
        row_of("os", "lat_sig(catch)", 4000.0, 4000.0),
        row_of("os", "lat_sig(send)", 500.0, 500.0),
        row_of("os", "lat_pagefault", 5.0, 5.0),
    )
    rows = {row["row"]: row for row in found.data if row["baseline"] is not None}
    assert set(rows) == {"sig hndl"}
    (note,) = (each for each in found.notes if each.startswith("Unavailable"))
    assert "Prot Fault" in note
    assert "Page Fault" in note  # lat_pagefault(mmap) has no value


def test_the_index_is_the_mean_of_the_scores_of_the_same_work() -> None:
    """Each test takes a time for which UnixBench's score is 10 with glibc and 20 with musl; the two other works don't count."""
    seconds = {"lpm": 60.0}
    references = {name: value for name, value, _ in baselines()}
    rows = []
    for row in measured_rows("unixbench"):
        time = seconds.get(row.unit, 1.0) * 1e9 / references[row.metric]
        rows.append(row_of("unix", row.workload, time, time if row.same_kind else time / 2))
    (found,) = made(*rows)
    index, every = found.rows[-2:]
    assert index[:5] == ("index", "1", "10.00", "20.00", "2.000")
    assert every[0] == "all rows"
    assert every[2:5] == ("unavailable", "unavailable", f"{2 ** (10 / 12):.3f}")
    (partial,) = made(*rows[:-1])
    assert [row[2:5] for row in partial.rows[-2:]] == [("unavailable",) * 3] * 2


def test_rows_of_coremark_are_marked_as_other_work() -> None:
    (found,) = made(row_of("core", "core_all (1 thread)", 100.0, 200.0))
    assert found.rows[0][0] == "iterations*, 1 thread"
    assert found.rows[0][4] == "0.500"
    assert any("other work of the same kind" in note for note in found.notes)


def test_a_clock_rate_that_stays_divides_the_iterations() -> None:
    """An iteration takes 1 ms and 2 ms: 1000 and 500 a second, at 500 MHz 2 and 1 for each MHz."""
    work = row_of("core", "core_all (1 thread)", 1e6, 2e6)
    (found,) = made(work, rate=(498.0, 502.0))
    assert [row[:5] for row in found.rows] == [
        ("iterations*, 1 thread", "1/s", "1000", "500.0", "0.500"),
        ("iterations*, 1 thread", "1/(s MHz)", "2.000", "1.000", "0.500"),
    ]
    (per_mhz,) = (row for row in found.data if row["unit"] == "1/(s MHz)")
    assert (per_mhz["baseline"], per_mhz["candidate"], per_mhz["ratio"]) == (2.0, 1.0, 0.5)
    assert any(note.startswith("Per MHz: of 500 MHz") for note in found.notes)


@pytest.mark.parametrize(
    ("rate", "reason"),
    [
        (None, "the clock rate was not read"),
        ((500.0, 511.0), "changed between 500 and 511 MHz"),
    ],
)
def test_without_one_clock_rate_nothing_is_divided(rate: tuple[float, float] | None, reason: str) -> None:
    (found,) = made(row_of("core", "core_all (1 thread)", 1e6, 2e6), rate=rate)
    assert {row[1] for row in found.rows} == {"1/s"}
    (note,) = (each for each in found.notes if each.startswith("Per MHz"))
    assert "unavailable" in note
    assert reason in note


def test_only_the_suite_core_has_rates_per_mhz() -> None:
    (found,) = made(row_of("os", "lat_pipe", 2.0, 1.0), rate=(500.0, 500.0))
    assert not any("MHz" in text for text in (*found.notes, *(row[1] for row in found.rows)))


def test_other_levels_have_no_published_ratio_and_other_suites_no_table() -> None:
    (found,) = made(row_of("os", "lat_pipe", 2.0, 1.0, baseline="kernel=rt", candidate="kernel=generic"))
    assert [row["published_ratio"] for row in found.data if row["ratio"] is not None] == [None]
    assert made(row_of("throughput", "pipe", 2.0, 1.0)) == ()
    assert made(row_of("os", "lat_pipe", 2.0, 1.0, verdict=Verdict.INVALID)) == ()


def test_every_row_of_the_page_is_measured() -> None:
    page = {
        (figure.suite, figure.metric, figure.unit, figure.condition)
        for figure in figures("musl-vs-glibc")
        if figure.suite in {"lmbench", "unixbench", "coremark"} and figure.metric != "index"
    }
    rows = [(row.suite, row.metric, row.unit, row.condition) for row in measured_rows()]
    assert len(rows) == len(set(rows)) == 53
    assert set(rows) == page
