# SPDX-License-Identifier: MIT OR Apache-2.0
"""The joins of published figures with rows here: each figure has one, and each names what exists."""

from __future__ import annotations

import tomllib
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

import swapstone
from swapstone.core.factors import all_factors
from swapstone.core.model import UserError, references
from swapstone.core.model.references import COMPARISONS, Figure, Side
from swapstone.core.workloads import LOADS, all_suites
from swapstone.parts.published import data as published
from swapstone.parts.published.data import joined, measured_rows, page_claims
from swapstone.parts.vm.report import swap

METRICS = {
    (suite.name, workload.name): {metric.name for metric in workload.metrics}
    for suite in all_suites()
    for workload in suite.workloads
}
LEVELS = {(factor.name, level.name) for factor in all_factors() for level in factor.levels}


def test_every_figure_is_joined() -> None:
    named = {each.figure.encoded() for each in joined()}
    assert all(each.encoded() in named for each in published.figures())
    assert {each.figure.study for each in joined()} == {figure.study for figure in published.figures()}


def test_every_join_has_known_keys_and_a_figure() -> None:
    text = resources.files("swapstone.parts.published").joinpath("joins.toml").read_text(encoding="utf-8")
    joins = tomllib.loads(text)["join"]
    known = {"study", "suite", "section", "to", "metric", "rows", "levels", "platform", "condition", "unit", "load"}
    known |= {"workload", "series", "derived", "index", "inverse", "differs"}
    assert [set(each) - known for each in joins if set(each) - known] == []
    assert {each.join for each in joined()} == set(range(1, len(joins) + 1))


def test_of_the_further_numbers_these_are_joined() -> None:
    found = Counter(figure.suite for figure in {each.figure for each in joined()} - set(published.figures()))
    assert found == {"http": 12, "vmstat": 390}


def check_side(side: Side) -> None:
    """Assert that the load and the levels of a side exist."""
    assert side.load in {load.name for load in LOADS}
    assert side.levels and set(side.levels) <= LEVELS


def test_every_place_exists() -> None:
    for place in {each.place for each in joined()}:
        if place.index:
            assert place.workload == "" and place.suite in {suite for suite, _ in METRICS}
        elif place.series:
            assert (place.suite, place.workload) in METRICS and place.metric in swap.COLUMNS, place
        else:
            assert place.metric in METRICS[place.suite, place.workload], place
        for side in filter(None, (place.side, place.over)):
            check_side(side)
        assert place.section != COMPARISONS or (place.over is None and not place.derived), place


def test_every_test_of_a_claim_reads_what_exists() -> None:
    for claim in page_claims():
        for test in claim.tests:
            if test.what == "seconds":
                assert (test.suite, test.workload) in METRICS and test.metric in swap.COLUMNS
            elif test.what == "index":
                assert test.workload == "" and test.suite in {suite for suite, _ in METRICS}
            else:
                assert {test.metric, test.part_of or test.metric} <= METRICS[test.suite, test.workload], claim.name
            for side in test.sides:
                check_side(side)


def test_every_section_is_one_of_a_report() -> None:
    package = Path(swapstone.__file__).parent
    files = [*package.glob("core/report/topics/*.py"), *package.glob("parts/*/report/*.py")]
    text = "".join(path.read_text() for path in sorted(files))
    for section in {each.place.section for each in joined()} - {COMPARISONS}:
        assert f'"{section}"' in text or f'"{section.removesuffix("-rows")}"' in text, section


def test_a_table_of_the_same_rows_names_the_same_workloads() -> None:
    names = {
        (each.figure.suite, each.figure.metric, each.figure.unit, each.figure.condition): each.place.workload
        for each in joined()
        if each.place.suite in {"os", "unix", "core"} and not each.place.index and each.figure.study == "musl-vs-glibc"
    }
    assert names == {(row.suite, row.metric, row.unit, row.condition): row.workload for row in measured_rows()}


def test_a_row_of_comparisons_has_one_figure_of_each_level() -> None:
    """A time and a rate of one name, or figures of two conditions, would stand beside one row."""
    seen: dict[tuple[object, ...], Figure] = {}
    for each in joined(COMPARISONS):
        place, figure = each.place, each.figure
        if not place.index:
            key = (figure.study, place.suite, place.workload, place.metric, place.side)
            assert seen.setdefault(key, figure) == figure, key


def test_rows_have_their_ratios() -> None:
    def beside(suite: str, workload: str, metric: str, *levels: str, load: str = "idle") -> float | None:
        one, two = levels or ("glibc", "musl")
        return references.beside("musl-vs-glibc", (suite, workload, metric), one, two, load)

    assert beside("libc", "b_malloc_sparse", "wall") == pytest.approx(0.155694333 / 0.133191926)
    assert beside("libc", "b_malloc_sparse", "virt") == 8480 / 38992
    assert beside("libc", "b_malloc_sparse", "virt", "musl", "glibc") == 38992 / 8480
    # The page's tables of memory have another needle.
    assert beside("libc", "b_string_strstr(abcd)", "res") is not None
    assert beside("libc", "b_string_strstr(abcd)", "res", load="cpu") is None
    assert beside("libc", "b_malloc_sparse", "wall", "glibc", "dietlibc") is None
    assert beside("libc", "b_malloc_sparse", "minflt") is None
    # The page has a rate in MB/s and a time in us under one name.
    assert beside("os", "bw_pipe", "wall") == pytest.approx(303 / 306)
    assert beside("os", "bw_pipe", "wall", "musl", "glibc") == pytest.approx(306 / 303)
    assert beside("os", "lat_pipe", "wall") == pytest.approx(81.2 / 84.3)
    with pytest.raises(UserError):
        references.beside("no-such-study", ("libc", "b_malloc_sparse", "wall"), "glibc", "musl")
