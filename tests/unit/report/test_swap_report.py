# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exhibits of swapping, from runs whose numbers can be computed by hand."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

import msgspec
import pytest
from tests.golden import reports
from tests.unit import builders

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.model import Analysis, Experiment, FactorLevels, Run, Sample, Trial
from swapstone.core.report.context import ReportContext
from swapstone.core.report.plot import Point, Series
from swapstone.core.report.record_report import sections_of
from swapstone.core.report.topics import all_topics
from swapstone.core.workloads import find_suite
from swapstone.parts.vm.report.swap import COLUMNS, SWAP, drawing, page_mean, page_seconds, sections


def made(context: ReportContext, analysis: Analysis) -> tuple[reports.Texts, ...]:
    """Return the texts of the topic's sections."""
    return tuple(map(reports.texts, sections(context, analysis)))


KIB, MIB, SECOND = 1024, 1 << 20, 1_000_000_000
WORKLOADS = ("fill (50 % random)", "fill (100 % random)", "touch (random, 1.5)")
# level: steady KiB/s, mean KiB/s, compression, bytes written to the flash, ns of a touch
LEVELS = {"flash": (20_000, 10_000, 1.0, 256 * MIB, 400_000.0), "zram:lz4": (50_000, 40_000, 1.5, 0, 10_000.0)}
SERIES = {
    # at, so: the flash swaps in its second and third row, zram in its second, which has half a second
    "flash": ((1.0, 2.0, 3.0), (0, 100, 300)),
    "zram:lz4": ((1.0, 1.5), (0, 400)),
}


def _run(trial: Trial, sets: dict[str, int]) -> Run:
    level = trial.variant.removeprefix("swap=")
    steady, mean, compression, written, touch = LEVELS[level]
    draw = trial.block * KIB  # the median over blocks 1 to 3 is block 2's
    if trial.workload.startswith("touch"):
        named = {
            "touch_time": touch,
            "swap_ins": 900.0,
            "majflt": 800.0,
            "in_rate": 5.0 * MIB,
            "working_set": float(sets[level]),
        }
        return builders.run(trial, samples=_samples(named), observed=(("swap", level),))
    named = {
        "out_steady": float(steady * KIB + draw - 2 * KIB),
        "out_mean": float(mean * KIB),
        "reached": float(300 * MIB),
        "until_kill": 2.5 * SECOND,
        "swapped_out": float(200 * MIB),
        "compression": compression,
        "flash_written": float(written),
    }
    at, so = SERIES[level]
    other = {name: tuple(float(number) for number in range(len(at))) for name in COLUMNS}
    columns = other | {"at_ns": tuple(second * SECOND for second in at), "so": tuple(map(float, so))}
    series = tuple(Sample(metric=name, values=values) for name, values in columns.items())
    return builders.run(trial, samples=_samples(named), observed=(("swap", level),), series=series)


def _samples(named: dict[str, float]) -> tuple[Sample, ...]:
    return tuple(Sample(metric=name, values=(value,)) for name, value in named.items())


def _experiment() -> Experiment:
    return builders.experiment(
        factors=(FactorLevels(factor="swap", levels=tuple(LEVELS)),),
        workloads=tuple(("swap", name) for name in WORKLOADS),
        target="vm",
        clock="virtual",
    )


def _runs(subject: Experiment, sets: dict[str, int]) -> Iterator[Run]:
    for block in range(4):
        for trial in plan.block(subject, block, plan.groups(subject)):
            yield _run(trial, sets)


def _made(sets: dict[str, int] | None = None) -> tuple[ReportContext, Analysis]:
    subject = _experiment()
    works = {work.name: work for work in find_suite("swap").workloads}
    found = analyse(
        subject, plan.variants(subject), works, list(_runs(subject, sets or dict.fromkeys(LEVELS, 8 * MIB)))
    )
    workloads = tuple(("swap", work) for work in works.values())
    return ReportContext(experiment=subject, record_id="r", record_path="r", workloads=workloads), found


CONTEXT, ANALYSIS = _made()
FOUND = {exhibit.name: exhibit for exhibit in map(reports.texts, sections_of(CONTEXT, ANALYSIS))}


def test_the_kind_is_registered_and_another_kind_has_none_of_it() -> None:
    assert SWAP in all_topics()
    assert list(FOUND) == ["swap-summary", "swap-compressibility", "swap-back", "swap-seconds-50", "swap-seconds-100"]
    other = builders.experiment()
    works = {work.name: work for work in find_suite("libc").workloads}
    analysis = analyse(other, plan.variants(other), works, list(builders.runs(other, 2)))
    assert made(ReportContext(experiment=other, record_id="r", record_path="r"), analysis) == ()


@pytest.mark.parametrize("exhibit", FOUND.values(), ids=list(FOUND))
def test_tables_are_even(exhibit: reports.Texts) -> None:
    assert {len(row) for row in exhibit.rows} == {len(exhibit.head)} == {len(exhibit.right)}
    assert len(exhibit.data) == len(exhibit.rows)
    assert len({tuple(row) for row in exhibit.data}) == 1
    assert exhibit.notes


def test_published_figures_are_read_from_the_tables() -> None:
    assert page_seconds("flash") == (139600, 5232, 41196, 12568, 0, 0, 0, 40884, 8280, 11800, 2632)
    assert page_seconds("zram") == (4020, 57072, 58300, 58364, 58972)
    assert sum(page_seconds("flash")) == 262192  # an eleventh of it is 23836; the page prints 23830
    assert sum(page_seconds("zram")) == 236728
    assert (page_mean("flash"), page_mean("zram"), page_seconds(""), page_mean("")) == (23830, 47325, (), None)


def test_the_summary_has_medians_ratios_and_published_figures() -> None:
    flash, zram = FOUND["swap-summary"].rows[:2]
    assert flash == (
        "50 % random",
        "flash",
        "10000",
        "1",
        "23830",
        "1.000",
        "20000",
        "1",
        "300 MiB",
        "2.50 s",
        "200 MiB",
        "1.000",
        "256 MiB",
    )
    assert zram == (
        "50 % random",
        "zram:lz4",
        "40000",
        "4.000 (no interval)",
        "47325",
        "1.986",
        "50000",
        "2.500 (no interval)",
        "300 MiB",
        "2.50 s",
        "200 MiB",
        "1.500",
        "0 B",
    )
    data = FOUND["swap-summary"].data[1]
    assert data["steady_over_baseline"] == pytest.approx(2.5)
    assert data["mean_over_baseline"] == pytest.approx(4.0)
    assert data["flash_written_bytes"] == 0
    assert data["page_mean_over_baseline"] == 47325 / 23830


def test_the_page_of_seconds_begins_with_the_first_swap_out_of_both() -> None:
    exhibit = FOUND["swap-seconds-50"]
    flash = [row for row in exhibit.data if row["variant"] == "swap=flash"]
    zram = [row for row in exhibit.data if row["variant"] == "swap=zram:lz4"]
    assert [row["page_so"] for row in flash] == [None, 139600, 5232, 41196, 12568, 0, 0, 0, 40884, 8280, 11800, 2632]
    assert [row["so"] for row in flash] == [0, 100, 300, *[None] * 9]
    assert [(row["at_s"], row["so"], row["page_so"]) for row in zram] == [
        (1.0, 0, None),
        (1.5, 400, 4020),
        (None, None, 57072),
        (None, None, 58300),
        (None, None, 58364),
        (None, None, 58972),
    ]
    assert exhibit.head == ("level", "s", *COLUMNS, "page so")
    assert exhibit.rows[1] == ("flash", "2", *["1"] * 7, "100", *["1"] * 8, "139600")


def test_reading_back_has_a_row_for_each_order_and_level() -> None:
    assert FOUND["swap-back"].rows == (
        ("random", "1.5", "flash", "400 us", "1", "800", "900", "5 MiB/s", "8 MiB"),
        ("random", "1.5", "zram:lz4", "10 us", "0.0250 (no interval)", "800", "900", "5 MiB/s", "8 MiB"),
    )
    assert FOUND["swap-back"].flags == ()


def test_unequal_working_sets_get_a_warning() -> None:
    found = {exhibit.name: exhibit for exhibit in made(*_made({"flash": 8 * MIB, "zram:lz4": 4 * MIB}))}
    assert found["swap-back"].flags == (
        "touch (random, 1.5): the levels had different amounts of memory, so their working sets differ.",
    )


def test_compressibility_has_a_row_for_each_level() -> None:
    assert FOUND["swap-compressibility"].rows == (
        ("flash", "19.5 MiB/s", "1.000", "300 MiB", "19.5 MiB/s", "1.000", "300 MiB"),
        ("zram:lz4", "48.8 MiB/s", "1.500", "300 MiB", "48.8 MiB/s", "1.500", "300 MiB"),
    )


def test_that_the_clock_is_no_hardware_is_said_wherever_levels_are_compared() -> None:
    for name in ("swap-summary", "swap-compressibility", "swap-back"):
        assert any("need not hold on hardware" in note for note in FOUND[name].notes)


def test_the_drawings_have_every_level_and_the_page() -> None:
    exhibit = FOUND["swap-seconds-50"]
    tree = ET.fromstring(exhibit.svg)
    texts = [element.text for element in tree.iter("text")]
    assert {"flash", "zram:lz4", "page, flash", "page, zram"} <= set(texts)
    assert sum(path.get("stroke-linejoin") == "round" for path in tree.iter("path")) == 4


def test_without_points_there_is_no_drawing() -> None:
    assert drawing("Swapping", []) is None


def test_a_name_from_outside_is_no_markup() -> None:
    drawn = drawing("<b>", [Series("<script>&\x1b", 0, (Point(1.0, 1.0),))])
    assert drawn is not None and "<script>" not in drawn.svg and "<b>" not in drawn.svg
    assert "<script>&\\x1b" in [element.text for element in ET.fromstring(drawn.svg).iter("text")]


def test_a_board_has_notes_of_its_own() -> None:
    experiment = msgspec.structs.replace(CONTEXT.experiment, target="ssh:board", clock="")
    context = msgspec.structs.replace(CONTEXT, experiment=experiment)
    shown = {exhibit.name: " ".join(exhibit.notes) for exhibit in map(reports.texts, sections_of(context, ANALYSIS))}
    for name in ("swap-summary", "swap-compressibility", "swap-back"):
        assert "outside of that limit" in shown[name]
        for text in ("virtual clock", "kills the program early", "takes memory from the working set"):
            assert text not in shown[name]
