# SPDX-License-Identifier: MIT OR Apache-2.0
"""The published page's tables of throughput, with ours: numbers that were worked out by hand."""

from __future__ import annotations

import statistics

import msgspec
import pytest
from tests.golden import reports
from tests.unit import builders
from tests.unit.builders import analysis, experiment

from swapstone.core.model import Analysis, Comparison, Direction, FactorLevels, Metric, Quantity, Scale, Verdict
from swapstone.core.report.context import ReportContext
from swapstone.core.report.record_report import sections_of
from swapstone.parts.published.report.throughput import page_rows, sections


def made(context: ReportContext, analysis: Analysis) -> tuple[reports.Texts, ...]:
    """Return the texts of the topic's sections."""
    return tuple(map(reports.texts, sections(context, analysis)))


WALL = Metric(name="wall", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="elapsed")
CPU = msgspec.structs.replace(WALL, name="cpu")


def comparison(work: str, generic: tuple[float, ...], rt: tuple[float, ...], **changes: object) -> Comparison:
    fields: dict[str, object] = {
        "suite": "throughput",
        "workload": work,
        "load": "idle",
        "metric": WALL,
        "baseline": "kernel=generic",
        "candidate": "kernel=rt",
        "baseline_values": generic,
        "candidate_values": rt,
        "scale": Scale.RATIO,
        "effect": statistics.median(rt) / statistics.median(generic) if rt and statistics.median(generic) else None,
        "low": None,
        "high": None,
        "confidence": 0.95,
        "p_value": None,
        "smallest_visible": None,
        "exact": not changes.keys() & {"effect", "low", "high"},
        "verdict": Verdict.WORSE,
        **changes,
    }
    if fields["exact"]:
        fields["low"] = fields["high"] = fields["effect"]
    fields |= {side: builders.variant(str(fields[side])) for side in ("baseline", "candidate")}
    return Comparison(**fields)  # type: ignore[arg-type] # one of its fields at a time


def context(*factors: tuple[str, tuple[str, ...]], cpus: str = "0") -> ReportContext:
    chosen = factors or (("kernel", ("generic", "rt")),)
    subject = experiment(
        factors=tuple(FactorLevels(factor=name, levels=levels) for name, levels in chosen),
        loads=("idle", "cyclictest"),
        target="vm",
    )
    return ReportContext(experiment=subject, record_id="r", record_path="r", facts=(("cpus", cpus),))


def only(*comparisons: Comparison) -> reports.Texts:
    (found,) = made(context(), analysis(*comparisons))
    return found


PIPE = (
    comparison("pipe", (1000.0, 1200.0, 1300.0), (1500.0, 1400.0, 1600.0)),
    comparison("pipe", (1.0,), (2400.0, 2300.0, 2500.0), load="cyclictest"),
    comparison("pipe", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), metric=CPU),
)
"""Medians: 1200, 1500 and 2400 ns: 833333, 666667 and 416667 a second; 80 % and 50 %. The other load's generic is not looked at."""


def test_rates_and_percentages_are_of_medians_and_of_the_idle_generic_kernel() -> None:
    found = only(*PIPE)
    assert found.name == "throughput-single"
    row, index = found.data
    assert row["generic_per_second"] == pytest.approx(1e9 / 1200)
    assert row["rt_per_second"] == pytest.approx(1e9 / 1500)
    assert row["rt_cyclictest_per_second"] == pytest.approx(1e9 / 2400)
    assert row["rt_percent"] == pytest.approx(80.0)
    assert row["rt_cyclictest_percent"] == pytest.approx(50.0)
    # The page: 487314.9 and 482060.0 of 612119.9.
    assert row["published_rt_percent"] == pytest.approx(79.611, abs=0.001)
    assert row["published_rt_cyclictest_percent"] == pytest.approx(78.753, abs=0.001)
    assert index["work"] == "index"
    assert index["rt_percent"] == pytest.approx(80.0)
    assert index["generic_per_second"] is None


def test_cells_are_what_a_reader_sees() -> None:
    found = only(*PIPE)
    assert found.head[:6] == ("work", "generic", "rt", "rt + cyclictest", "rt %", "rt + cyclictest %")
    assert found.head[6:] == ("page: rt %", "page: rt + cyclictest %")
    assert found.rows[0] == (
        "pipe",
        "833 k/s",
        "667 k/s",
        "417 k/s",
        "80.0",
        "50.0 [40.0 .. 56.5]",
        "79.6",
        "78.8",
    )
    assert found.rows[1] == ("index", "-", "-", "-", "80.0", "50.0 [40.0 .. 56.5]", "79.6", "78.8")
    assert {len(row) for row in found.rows} == {len(found.head)} == {len(found.right)}


def test_several_tasks_have_a_table_of_their_own_with_the_page_s_other_figures() -> None:
    found = only(comparison("file_copy(256) (8 tasks)", (100.0,), (200.0,)))
    assert found.name == "throughput-several"
    # The page: 27474.4 of 253687.9.
    assert found.rows[0] == ("file_copy(256)", "10 M/s", "5 M/s", "-", "50.0", "-", "10.8", "10.3")
    assert any("share the machine's one processor" in note for note in found.notes)
    on_host = made(context(cpus="0,1"), analysis(comparison("pipe (8 tasks)", (1.0,), (2.0,))))
    assert any("share this machine's processors" in note for note in on_host[0].notes)


def test_the_index_is_the_geometric_mean_over_the_rows_that_both_have() -> None:
    found = only(comparison("pipe", (100.0,), (200.0,)), comparison("syscall", (100.0,), (800.0,)))
    *_, index = found.data
    assert index["rt_percent"] == pytest.approx(25.0)  # the root of 1/2 * 1/8
    # The root of 487314.9 / 612119.9 * 436596.3 / 478285.9.
    assert index["published_rt_percent"] == pytest.approx(85.248, abs=0.001)
    assert any("over 2 rows; the page's is the same mean over those rows (its index has 12)" in n for n in found.notes)


def test_with_all_rows_the_page_s_index_is_its_own() -> None:
    found = only(*(comparison(work, (100.0,), (125.0,)) for work, _ in page_rows()))
    assert [row["work"] for row in found.data] == [*(work for work, _ in page_rows()), "index"]
    assert found.data[-1]["rt_percent"] == pytest.approx(80.0)
    assert found.data[-1]["published_rt_percent"] == pytest.approx(100 * 626.4 / 773.4)
    assert any("over 12 rows; the page's is its own index" in note for note in found.notes)


def test_the_order_of_the_levels_does_not_matter() -> None:
    turned = comparison("pipe", (1500.0,), (1200.0,), baseline="kernel=rt", candidate="kernel=generic")
    (found,) = made(context(("kernel", ("rt", "generic"))), analysis(turned))
    assert found.data[0]["rt_percent"] == pytest.approx(80.0)


def test_of_several_comparisons_the_side_with_most_blocks_counts() -> None:
    few = comparison("pipe", (5000.0,), (1.0,), candidate="kernel=full")
    whole = comparison("pipe", (1000.0, 1000.0), (2000.0, 2000.0))
    subject = context(("kernel", ("generic", "full", "rt")))
    for order in ((few, whole), (whole, few)):
        assert made(subject, analysis(*order))[0].data[0]["generic_per_second"] == pytest.approx(1e6)


def test_another_factor_gives_a_table_for_each_of_its_levels() -> None:
    sides = [
        comparison(
            "pipe", (100.0,), (after,), baseline=f"kernel=generic,libc={libc}", candidate=f"kernel=rt,libc={libc}"
        )
        for libc, after in (("glibc", 200.0), ("musl", 400.0))
    ]
    found = made(context(("kernel", ("generic", "rt")), ("libc", ("glibc", "musl"))), analysis(*sides))
    assert [each.name for each in found] == ["throughput-single-1", "throughput-single-2"]
    assert found[1].title.endswith(", libc=musl")
    assert [each.data[0]["rt_percent"] for each in found] == [pytest.approx(50.0), pytest.approx(25.0)]


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.UNAVAILABLE])
def test_what_was_refused_gives_no_number(verdict: Verdict) -> None:
    assert made(context(), analysis(comparison("pipe", (100.0,), (200.0,), verdict=verdict))) == ()


def test_records_of_another_kind_have_no_such_table() -> None:
    pipe = comparison("pipe", (100.0,), (200.0,))
    assert made(context(("libc", ("glibc", "musl"))), analysis(pipe)) == ()
    assert made(context(("kernel", ("generic", "full"))), analysis(pipe)) == ()
    assert made(context(), analysis(msgspec.structs.replace(pipe, suite="libc"))) == ()


def test_reports_have_it() -> None:
    assert [found.name for found in sections_of(context(), analysis(*PIPE))] == ["throughput-single"]
    eight = comparison("pipe (8 tasks)", (1000.0,), (1500.0,))
    titles = [found.title for found in sections_of(context(), analysis(*PIPE, eight))]
    assert len(titles) == 2
    assert "one task (table 12" in titles[0] and "eight tasks at once (table 13" in titles[1]
