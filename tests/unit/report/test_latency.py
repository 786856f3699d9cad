# SPDX-License-Identifier: MIT OR Apache-2.0
"""The exhibits of latencies: every number of every table against one computed by hand, and each flag on both sides of its limits."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
from tests.golden import latency as golden
from tests.golden import reports, synthetic
from tests.unit import builders

from swapstone.core.model import Analysis, Comparison, Copy, FactorLevels, Latency, NullResult, Verdict
from swapstone.core.report import record_report
from swapstone.core.report.context import ReportContext
from swapstone.parts.vm.report import latency
from swapstone.parts.vm.report.latency_data import groups, percentile, ratios, us

GENERIC, RT = "kernel=generic", "kernel=rt"


def _latency(
    load: str, variant: str, *maxima_us: float, blocks: tuple[int, ...] = (), wake_ups: int = 40_000
) -> Latency:
    """Return latencies of 3 us, but for the maxima."""
    counts = {3: wake_ups - len(maxima_us)}
    for value in maxima_us:
        counts[int(value)] = counts.get(int(value), 0) + 1
    return Latency(
        suite="latency",
        workload="cyclictest",
        load=load,
        variant=builders.variant(variant),
        blocks=blocks or tuple(range(1, len(maxima_us) + 1)),
        maxima=tuple(value * 1000 for value in maxima_us),
        averages=tuple(3000.0 + 100 * i for i in range(len(maxima_us))),
        histogram=tuple(sorted(counts.items())),
        percentiles=((50.0, 3000.0), (99.0, 3000.0), (99.9, 4000.0), (99.99, 5000.0), (99.999, 6000.0)),
    )


def _analysis(*found: Latency) -> Analysis:
    """Return an analysis whose comparisons of maxima have the median over the replicates as effect."""
    first = found[0].variant if found else None
    bases = {each.load: each for each in found if each.variant == first}
    pairs = [
        (bases.get(each.load), each) for each in found if each.variant != first and each.variant.copy is Copy.FIRST
    ]
    compared = tuple(_compared(base, each) for base, each in pairs if base and ratios(base, each))
    return msgspec.structs.replace(
        synthetic.analysis(), comparisons=compared, indices=(), nulls=(), failures=(), latencies=found
    )


def _compared(base: Latency, other: Latency) -> Comparison:
    known = ratios(base, other)
    assert known is not None
    decided = known.low > 1 or known.high < 1
    (row,) = (c for c in golden.analysis().comparisons if (c.metric.name, c.load) == ("max", "idle"))
    return msgspec.structs.replace(
        row,
        load=base.load,
        baseline=base.variant,
        candidate=other.variant,
        baseline_values=base.maxima,
        candidate_values=other.maxima,
        effect=1 / known.median,
        low=1 / known.median,
        high=1 / known.median,
        exact=True,
        verdict=Verdict.CHANGED if decided else Verdict.INCONCLUSIVE,
    )


def _context(*loads: str, published: str = "preempt-rt", clock: str = "virtual") -> ReportContext:
    context = golden.context(published=published)
    experiment = msgspec.structs.replace(golden.experiment(published=published, clock=clock), loads=loads)
    return msgspec.structs.replace(context, experiment=experiment)


def _made(context: ReportContext, *found: Latency) -> dict[str, reports.Texts]:
    return {each.name: each for each in map(reports.texts, latency.sections(context, _analysis(*found)))}


FOUND = (
    _latency("idle", GENERIC, 60, 40, 50, 80),
    _latency("idle", RT, 6, 5, 5, 8),
    _latency("io", GENERIC, 300, 500, 100, 200),
    _latency("io", RT, 12, 10, 20, 16),
)


def test_an_analysis_without_latencies_has_no_exhibits() -> None:
    assert record_report.sections_of(synthetic.context(), synthetic.analysis()) == ()


def test_the_table_gives_the_distribution_over_replicates() -> None:
    made = _made(_context("idle", "io"), *FOUND)
    table = made["latency"]
    assert table.title == "Wake-up latency of cyclictest by load, in microseconds, over 4 replicates"
    assert table.head == ("load", "variant", "maximum", "average", "p99", "p99.9", "p99.99", "replicates", "wake-ups")
    assert table.rows == (
        ("idle", "generic", "55 [40 .. 80]", "3.15", "3", "4", "5", "4", "40000"),
        ("idle", "rt", "5.5 [5 .. 8]", "3.15", "3", "4", "5", "4", "40000"),
        ("io", "generic", "250 [100 .. 500]", "3.15", "3", "4", "5", "4", "40000"),
        ("io", "rt", "14 [10 .. 20]", "3.15", "3", "4", "5", "4", "40000"),
    )
    assert table.data[2] == {
        "load": "io",
        "variant": GENERIC,
        "draws": 4.0,
        "wake_ups": 40_000.0,
        "max_median_us": 250.0,
        "max_low_us": 100.0,
        "max_high_us": 500.0,
        "average_us": 3.15,
        "p99_us": 3.0,
        "p99.9_us": 4.0,
        "p99.99_us": 5.0,
    }
    assert table.flags == ()
    assert any("in its table 6, as an image" in note for note in table.notes)


def test_ratios_of_maxima_are_computed_replicate_by_replicate_and_beside_the_published_ones() -> None:
    table = _made(_context("idle", "io"), *FOUND)["latency-ratio"]
    # idle: 60/6, 40/5, 50/5, 80/8; io: 300/12, 500/10, 100/20, 200/16.
    assert (
        table.title == "Maximum of rt over that of generic, by load, over 4 replicates (the published page's table 7)"
    )
    assert table.head == (
        "load",
        "ratio",
        "Phytium D2000",
        "Raspberry Pi 4B",
        "Phytium 2000/4",
        "same sign",
        "factor apart",
    )
    assert table.rows == (
        ("idle", "0.100 [0.100 .. 0.125]", "0.0441", "0.278", "0.185", "3 of 3", "1.852 to 2.778"),
        ("io", "0.0533 [0.0200 .. 0.200]", "0.00542", "1.250", "0.0288", "2 of 3", "1.851 to 23.44"),
        ("isolated CPU", "unavailable", "", "", "", "", ""),
    )
    assert table.data[1] == {
        "load": "io",
        "baseline": GENERIC,
        "candidate": RT,
        "draws": 4.0,
        "ratio": 18.75,
        "ratio_low": 18.75,
        "ratio_high": 18.75,
        "ratio_bounds": "exact",
        "replicates": 18.75,
        "replicates_low": 5.0,
        "replicates_high": 50.0,
        "replicates_bounds": "range",
        "page_phytium_d2000": 184.6,
        "page_raspberry_pi_4b": 0.8,
        "page_phytium_2000_4": 34.7,
        "boards_agreeing": 2,
        "boards": 3.0,
        "factor_apart_low": pytest.approx(34.7 / 18.75),
        "factor_apart_high": pytest.approx(18.75 / 0.8),
        "unavailable": None,
    }
    assert "one processor, so none can be isolated" in str(table.data[2]["unavailable"])
    assert {tuple(datum) for datum in table.data} == {tuple(table.data[0])}


def test_the_ratio_and_its_interval_are_those_of_the_comparison() -> None:
    context, analysis = golden.context(), golden.analysis()
    maxima = [c for c in analysis.comparisons if c.metric.name == "max"]
    given = {c.load: msgspec.structs.replace(c, effect=0.5, low=0.4, high=0.6) for c in maxima}
    kept = tuple(given.get(c.load, c) if c.metric.name == "max" else c for c in analysis.comparisons)
    found = {each.name: each for each in latency.sections(context, msgspec.structs.replace(analysis, comparisons=kept))}
    rows = reports.texts(found["latency-ratio"]).rows
    assert len(given) == 4
    assert [row[1].partition(" [")[0] for row in rows[:4]] == ["0.50 (0.40–0.60)"] * 4  # noqa: RUF001 - a dash between numbers


def test_the_other_way_round_the_page_is_turned_too() -> None:
    table = _made(_context("idle"), FOUND[1], FOUND[0])["latency-ratio"]
    assert table.rows[0] == ("idle", "10.00 [8.000 .. 10.00]", "22.7", "3.6", "5.4", "3 of 3", "1.852 to 2.778")


def test_loads_are_set_against_idle_for_each_kernel() -> None:
    table = _made(_context("idle", "io"), *FOUND)["latency-loaded"]
    # generic: 300/60, 500/40, 100/50, 200/80; rt: 12/6, 10/5, 20/5, 16/8.
    assert table.title == "Maximum under load over the idle one, over 4 replicates (the published page's table 8)"
    assert table.rows == (
        ("io", "generic", "3.750 [2.000 .. 12.50]", "212.8", "1.0", "26.8", "2 of 3", "3.750 to 56.75"),
        ("io", "rt", "2.000 [2.000 .. 4.000]", "26.2", "4.2", "4.5", "3 of 3", "2.100 to 13.10"),
    )


def test_without_idle_there_is_nothing_to_set_loads_against() -> None:
    assert set(_made(_context("io"), *FOUND[2:])) == {"latency", "latency-histogram", "latency-ratio"}


def test_the_longest_published_run_is_beside_the_measured_maximum() -> None:
    table = _made(_context("idle", "io"), *FOUND)["latency-longest"]
    assert table.rows == (
        ("here", "idle, 4 replicates of 40000 wake-ups in all", "5.5 [5 .. 8]"),
        ("page, Phytium 2000/4 (4 cores)", "idle, 2 days", "58"),
    )
    assert [datum["max_us"] for datum in table.data] == [8.0, 58.0]


def test_without_the_study_no_published_figure_is_shown() -> None:
    made = _made(_context("idle", "io", published=""), *FOUND)
    assert set(made) == {"latency", "latency-histogram", "latency-ratio", "latency-loaded"}
    assert made["latency-ratio"].head == ("load", "ratio")
    assert made["latency-loaded"].rows[0] == ("io", "generic", "3.750 [2.000 .. 12.50]")
    assert not any("page" in note for each in made.values() for note in each.notes)


def test_a_replicate_with_one_side_only_is_left_out_of_ratios() -> None:
    some = _latency("idle", RT, 5, 8, blocks=(2, 4))
    found = ratios(FOUND[0], some)
    assert found is not None
    assert (found.replicates, found.low, found.median, found.high) == (2, 8.0, 9.0, 10.0)
    assert ratios(FOUND[0], _latency("idle", RT, 5, blocks=(9,))) is None
    assert ratios(FOUND[0], _latency("idle", RT, 0, 0, 0, 0)) is None
    made = _made(_context("idle"), FOUND[0], some)
    assert made["latency"].title.endswith("over 2 to 4 replicates")
    assert "over 2 replicates" in made["latency-ratio"].title


def test_replicates_that_disagree_have_no_sign() -> None:
    table = _made(_context("idle"), _latency("idle", GENERIC, 5, 20), _latency("idle", RT, 10, 10))["latency-ratio"]
    assert table.rows[0] == (
        "idle",
        "0.800 [0.500 .. 2.000]",
        "0.0441",
        "0.278",
        "0.185",
        "undecided",
        "2.880 to 18.16",
    )
    assert table.data[0]["boards_agreeing"] is None


def test_maxima_that_can_not_be_compared_have_the_verdict_and_no_ratio() -> None:
    made = _analysis(*FOUND)
    rows = tuple(
        msgspec.structs.replace(c, verdict=Verdict.DISTURBED) if c.load == "io" else c for c in made.comparisons
    )
    disturbed = msgspec.structs.replace(made, comparisons=rows)
    tables = {each.name: reports.texts(each) for each in latency.sections(_context("idle", "io"), disturbed)}
    assert [row[1] for row in tables["latency"].rows] == ["generic", "rt", "generic", "rt (disturbed)"]
    assert [row[1] for row in tables["latency-ratio"].rows] == ["0.100 [0.100 .. 0.125]", "disturbed", "unavailable"]
    assert [row[2] for row in tables["latency-loaded"].rows] == ["3.750 [2.000 .. 12.50]", "disturbed"]


def test_a_ratio_within_the_margin_agrees_with_one_of_the_page_that_is() -> None:
    same = _made(_context("idle", "network"), _latency("idle", RT, 10), _latency("network", RT, 10))
    # The page, rt, network: 20.6, 1.0, 1.7.
    assert same["latency-loaded"].rows == (
        ("network", "rt", "1.000", "20.6", "1.0", "1.7", "1 of 3", "1.000 to 20.60"),
    )


def test_several_kernels_are_compared_with_the_first() -> None:
    names = ("kernel=none", "kernel=voluntary", "kernel=/k/bzImage", RT)
    found = [_latency("idle", name, 10 * 2**i) for i, name in enumerate(names)]
    table = _made(_context("idle"), *found)["latency-ratio"]
    assert table.title == "Maximum of the others over that of none, by load, over 1 replicate"
    assert table.head == ("load", "maxima", "ratio")  # the page has none of these ratios
    assert list(table.rows) == [
        ("idle", "voluntary / none", "2.000"),
        ("idle", "/k/bzImage / none", "4.000"),
        ("idle", "rt / none", "8.000"),
        ("isolated CPU", "", "unavailable"),
    ]


def test_crossed_variants_have_published_ratios_only_where_the_kernel_alone_differs() -> None:
    names = ("kernel=generic,swap=none", "kernel=generic,swap=zram", "kernel=rt,swap=none", "kernel=rt,swap=zram")
    made = _made(_context("idle", "io"), *(_latency(load, name, 10) for load in ("idle", "io") for name in names))
    assert [bool(row[3]) for row in made["latency-ratio"].rows[:3]] == [False, True, False]
    assert [bool(row[3]) for row in made["latency-loaded"].rows] == [True, False, True, False]


def test_copies_of_the_baseline_are_left_out() -> None:
    copy = f"{GENERIC} (again)"
    null = NullResult(copy=builders.variant(copy), compared=1, different=0, rows=(), index=())
    subject = msgspec.structs.replace(_analysis(FOUND[0], _latency("idle", copy, 9000)), nulls=(null,))
    (group,) = groups(_context("idle"), subject)
    assert [variant.label for variant in group.variants] == [GENERIC]


def test_two_workloads_have_exhibits_of_their_own() -> None:
    other = msgspec.structs.replace(FOUND[0], workload="other one")
    assert set(_made(_context("idle", published=""), FOUND[0], other)) == {
        "latency-cyclictest",
        "latency-histogram-cyclictest",
        "latency-other-one",
        "latency-histogram-other-one",
    }


def test_a_percentile_that_would_be_the_maximum_is_left_empty() -> None:
    few = _latency("idle", GENERIC, 60, wake_ups=9_999)
    assert percentile(few, 99.99) is None
    assert percentile(_latency("idle", GENERIC, 60, wake_ups=10_000), 99.99) == 5000.0
    table = _made(_context("idle"), few)["latency"]
    assert table.rows == (("idle", "generic", "60", "3.00", "3", "4", "", "1", "9999"),)
    assert table.data[0]["p99.99_us"] is None
    assert any("p99.99 needs 10000" in note for note in table.notes)


def test_a_hole_in_the_table_is_named() -> None:
    table = _made(_context("idle", "io"), *FOUND[:3])["latency"]
    assert len(table.rows) == 3
    assert "No latencies were measured of rt under io." in table.notes


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (3_738_000.0, "3738"),
        (3_738_400.0, "3738.4"),
        (5_500.0, "5.5"),
        (58_123.0, "58.123"),
        (0.0, "0"),
        (300.0, "0.3"),
    ],
)
def test_no_digit_of_a_worst_case_is_rounded_away(nanoseconds: float, shown: str) -> None:
    assert us(nanoseconds) == shown


# Flags.


def _flags(*found: Latency, loads: tuple[str, ...] = ("idle", "x"), exact: bool = True) -> tuple[str, ...]:
    (group,) = groups(_context(*loads), _analysis(*found))
    return latency.warnings_of(group, exact=exact)


@pytest.mark.parametrize(
    ("idle", "loaded", "flagged"),
    [
        (9.9, 100.1, True),  # above both limits
        (9.9, 100.0, False),  # not above 100 us
        (10.1, 101.0, False),  # ten times idle, and not more
        (10.1, 101.1, True),
        (5.0, 60.0, False),  # many times idle, but short
        (200.0, 999.9, False),  # long, but idle is too
        (200.0, 1000.0, True),  # no code of such a kernel may take 1 ms, whatever idle is
    ],
)
def test_preempt_rt_gets_a_warning_beyond_ten_times_idle_and_100_us(idle: float, loaded: float, flagged: bool) -> None:
    found = _flags(_latency("idle", RT, idle), _latency("x", RT, loaded))
    assert len(found) == flagged
    for text_of in found:
        assert text_of == (
            f"rt under load x was delayed by {us(loaded * 1000)} us (worst of 1 replicate; idle: {us(idle * 1000)} us): "
            "the kernel has a section that PREEMPT_RT can't preempt."
        )


def test_an_idle_real_time_kernel_gets_a_warning_from_1_ms() -> None:
    assert _flags(_latency("idle", RT, 999.9)) == ()
    assert _flags(_latency("idle", RT, 1000.0)) == (
        "rt on the idle machine was delayed by 1000 us (worst of 1 replicate): the kernel has a section that PREEMPT_RT can't preempt.",
    )


def test_the_worst_replicate_counts_and_not_the_median() -> None:
    assert len(_flags(_latency("idle", RT, 5, 5, 5), _latency("x", RT, 5, 5, 2004))) == 1


def test_without_idle_only_1_ms_is_beyond_doubt() -> None:
    assert _flags(_latency("x", RT, 999.0)) == ()
    assert len(_flags(_latency("x", RT, 1000.0))) == 1


@pytest.mark.parametrize(("generic", "flagged"), [(1059.9, False), (1060.0, True), (2060.0, True)])
def test_another_kernel_gets_a_warning_too_where_its_maximum_rose_by_half_as_much(
    generic: float, flagged: bool
) -> None:
    # rt rose by 2000 us, from 5; generic has 60 when idle. With few wake-ups no percentile shows that it is rare.
    found = _flags(
        _latency("idle", GENERIC, 60, wake_ups=100),
        _latency("idle", RT, 5),
        _latency("x", GENERIC, generic, wake_ups=100),
        _latency("x", RT, 2005),
    )
    assert len(found) == 1 + flagged
    assert found[-1].startswith("rt under load x was delayed by 2005 us")
    if flagged:
        assert found[0] == (
            f"generic under load x was delayed too, by {us(generic * 1000)} us (worst of 1 replicate; idle: 60 us): the section that "
            "PREEMPT_RT can't preempt "
            "delays every kernel."
        )


@pytest.mark.parametrize(
    ("worst", "p9999", "wake_ups", "flagged"),
    [
        (1000.0, 100_000.0, 10_000, True),  # 1 ms, ten times p99.99
        (999.9, 50_000.0, 10_000, False),  # shorter
        (1000.0, 100_001.0, 10_000, False),  # less than ten times
        (1000.0, 100_000.0, 9_999, False),  # too few to have a p99.99
        (3738.0, 3_551_000.0, 40_000, False),  # long, and often so: what this kernel is like
        (1000.0, 0.0, 10_000, True),
    ],
)
def test_any_kernel_gets_a_warning_for_a_long_and_rare_case(
    worst: float, p9999: float, wake_ups: int, flagged: bool
) -> None:
    subject = _latency("x", GENERIC, worst, wake_ups=wake_ups)
    subject = msgspec.structs.replace(subject, percentiles=((99.99, p9999),))
    found = _flags(subject)
    assert len(found) == flagged
    for text_of in found:
        assert text_of == (
            f"generic under load x was delayed by {us(worst * 1000)} us (worst of 1 replicate), with a p99.99 of {us(p9999)} us: a rare "
            "event, not the usual latency."
        )


def test_on_a_wall_clock_a_warning_names_what_is_outside_the_kernel() -> None:
    (found,) = _flags(_latency("x", RT, 1000.0), exact=False)
    assert found.endswith(
        "by a section that PREEMPT_RT can't preempt, or by something outside this kernel: firmware, a hypervisor, an emulator, or other "
        "load on their host."
    )
    context = _context("x", clock="wall")
    (again,) = _made(context, _latency("x", RT, 1000.0))["latency"].flags
    assert again == found
    (_, too) = _flags(_latency("x", RT, 1000.0), _latency("x", GENERIC, 1000.0), exact=False)
    assert too.startswith("generic under load x was delayed too")
    assert too.endswith(": what delays the kernel with PREEMPT_RT, in it or outside, delays every kernel.")
    rare = msgspec.structs.replace(_latency("x", GENERIC, 1000.0, wake_ups=10_000), percentiles=((99.99, 0.0),))
    (found,) = _flags(rare, exact=False)
    assert found.endswith("On the wall clock, other load on the host may be the cause.")


def test_the_planted_load_gets_a_warning_for_both_kernels_and_nothing_else_is() -> None:
    made = record_report.sections_of(golden.context(), golden.analysis())
    flags = tuple(dict.fromkeys(flag for each in made for flag in each.warnings))
    assert [flag.partition(" was delayed")[0] for flag in flags] == [
        "generic under load planted",
        "rt under load planted",
    ]
    shown = reports.as_whole_text(golden.context(), golden.analysis(), width=100)
    assert shown.count("! rt under load planted was delayed by 2006 us") == 2


# Drawings.


def _evil() -> tuple[ReportContext, Analysis]:
    name = "kernel=</svg><script>&\x1b"
    context = _context("idle", "<i>")
    factors = (FactorLevels(factor="kernel", levels=("generic", name)),)
    context = msgspec.structs.replace(context, experiment=msgspec.structs.replace(context.experiment, factors=factors))
    return context, _analysis(_latency("<i>", GENERIC, 100), _latency("<i>", name, 4000))


def test_the_drawing_for_a_page_is_well_formed_and_complete() -> None:
    (group,) = groups(_context("idle", "io"), _analysis(*FOUND))
    root = ET.fromstring(latency.drawing(group, "Histogram & more").svg)
    assert root.tag == "svg"
    assert root.findtext("title") == "Histogram & more"
    assert "rt under io: worst case 20 us" in (root.findtext("desc") or "")
    texts = ["".join(each.itertext()) for each in root.iter("text")]
    assert [each for each in texts if each.startswith("worst")] == [
        "worst 80 us",
        "worst 8 us",
        "worst 500 us",
        "worst 20 us",
    ]
    assert {"idle", "io", "generic", "rt", "latency, us (logarithm of 1 us + latency)"} <= set(texts)
    assert "wake-ups" in texts
    whole = ET.tostring(root, encoding="unicode")
    assert "var(--s1)" in whole
    assert "var(--s2)" in whole
    assert not re.search(r"href|url\(|<script|<style|<image", whole)


def test_text_from_outside_is_escaped_in_a_drawing() -> None:
    context, analysis = _evil()
    (group,) = groups(context, analysis)
    drawing = latency.drawing(group, "T").svg
    root = ET.fromstring(drawing)
    assert "<script>" not in drawing
    assert "\x1b" not in drawing
    assert any("</svg><script>&\\x1b" in "".join(each.itertext()) for each in root.iter("text"))


def test_bins_are_where_they_belong_on_both_axes() -> None:
    (group,) = groups(_context("idle"), _analysis(_latency("idle", RT, 9, wake_ups=1001)))
    assert latency.top(group) == 10
    root = ET.fromstring(latency.drawing(group, "T").svg)
    bars = [each.attrib["d"] for each in root.iter("path") if each.attrib.get("fill-opacity")]
    points = [[tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+", each)] for each in bars]
    # The axis goes from 70 to 664: 70 + 594 * log(1 + x) / log(11).
    assert [part[0][0] for part in points] == [413.4, 640.4]
    floor = points[0][-1][1]
    heights = [floor - part[0][1] for part in points]
    # Counts from 0.5 to 1000, 127 points high; the whole height is log10(1000) - log10(0.5) = 3.301, and 1 stands at 0.301 of that.
    assert heights == [pytest.approx(127, abs=0.1), pytest.approx(127 * 0.30103 / 3.30103, abs=0.1)]


def test_the_title_of_a_histogram_has_the_number_of_replicates() -> None:
    title = "Histogram of wake-up latency of cyclictest, over "
    assert _made(_context("idle"), FOUND[0])["latency-histogram"].title == f"{title}4 replicates together"
    assert _made(_context("idle"), _latency("idle", RT, 5))["latency-histogram"].title == f"{title}1 replicate"


@pytest.mark.parametrize("most", [3, 10, 11, 99, 100, 4999, 5000, 1_000_000])
def test_every_latency_fits_on_the_axis(most: int) -> None:
    (group,) = groups(_context("idle"), _analysis(_latency("idle", RT, most)))
    end = latency.top(group)
    assert most < end or most == end
    assert end < 5 * max(most + 1, 10)


def test_long_names_leave_room_for_the_drawing() -> None:
    names = ["kernel=/a/very/long/path/to/some/kernel/bzImage-" + str(i) for i in range(9)]
    context = _context("a-load-with-a-long-name")
    (group,) = groups(context, _analysis(*(_latency("a-load-with-a-long-name", name, 4000) for name in names)))
    root = ET.fromstring(latency.drawing(group, "T").svg)
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    panels = ["".join(each.itertext()) for each in root.iter("text")].count("a-load-with-a-long-name")
    assert panels == 3  # four variants in each
    for each in root.iter("text"):
        if "x" in each.attrib:
            assert 0 <= float(each.attrib["x"]) <= width
            assert 0 <= float(each.attrib["y"]) <= height


def test_each_processor_has_a_row_and_a_histogram() -> None:
    several = tuple(
        msgspec.structs.replace(each, by_processor=((0, ((3, 9_999), (9, 1))), (1, ((3, 50), (5, 50)))))
        for each in FOUND
        if each.load == "io"
    )
    context = _context("io")
    experiment = msgspec.structs.replace(context.experiment, processors=2)
    made = _made(msgspec.structs.replace(context, experiment=experiment), *several)
    table = made["latency-processors"]
    assert [row[:5] for row in table.rows] == [
        ("io", variant, processor, maximum, average)
        for variant in ("generic", "rt")
        for processor, maximum, average in (("0", "9", "3.001"), ("1", "5", "4"))
    ]
    assert [row[5:] for row in table.rows][:2] == [("3", "3", "3", "10000"), ("5", "", "", "100")]
    assert "each runs at 1/2 of the speed" in " ".join(table.notes)
    assert "latency-histogram-processors" in made
    assert "latency-processors" not in _made(_context("io"), *FOUND)
