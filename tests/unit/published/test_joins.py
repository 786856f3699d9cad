# SPDX-License-Identifier: MIT OR Apache-2.0
"""The joins of published figures with rows here, and the coverage that follows from them."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone import published
from swapstone.model import UserError
from swapstone.published.coverage import Catalog, coverage, problem
from swapstone.published.data import Figure, further
from swapstone.published.joins import CLAIMS, COMPARISONS, Joined, Place, Side, decode_joins, joined
from swapstone.report import topics
from swapstone.report.published_coverage import SECTIONS
from swapstone.session.published_catalog import catalog

TEXT = resources.files("swapstone.published").joinpath("joins.toml").read_text()
EVERY = (*published.figures(), *further())
CATALOG = catalog()


def decoded(text: str) -> tuple[Joined, ...]:
    return decode_joins(text.encode(), EVERY)


def join_of(suite: str, text: str = TEXT) -> str:
    """Return the table [[join]] of the musl page's suite."""
    return next(part for part in text.split("[[join]]") if f'suite = "{suite}"' in part)


def test_every_figure_is_joined_or_has_a_reason() -> None:
    found = coverage(CATALOG)
    assert len(found.figures) == 489
    assert all(bool(each.reason) != bool(each.places) for each in (*found.figures, *found.further))
    named = {each.encoded() for each in (other.figure for other in joined())}
    assert all(each.encoded() in named for each in published.figures())


def test_a_table_of_the_same_rows_names_the_same_workloads() -> None:
    """Versions with the suites os, unix and core have a second table of these rows."""
    table = pytest.importorskip("swapstone.published.measured_rows")
    names = {
        (each.figure.suite, each.figure.metric, each.figure.unit, each.figure.condition): each.place.workload
        for each in joined()
        if each.place.suite in {"os", "unix", "core"} and not each.place.index and each.figure.study == "musl-vs-glibc"
    }
    other = {(row.suite, row.metric, row.unit, row.condition): row.workload for row in table.MEASURED_ROWS}
    assert names == other


def test_a_figure_is_missing_only_for_a_suite_or_factor_that_does_not_exist() -> None:
    """The joins name no workload, metric, load or level that a suite of this version lacks."""
    suites = {suite for suite, _ in CATALOG.metrics}
    for each in coverage(CATALOG).missing:
        (name,) = {other.place.suite for other in joined() if other.figure == each.figure}
        assert name not in suites, each.reason


def test_the_pages_of_kernels_servers_stacks_and_swap_are_whole() -> None:
    """What has been compared so far stays so."""
    covered = Counter(each.figure.study for each in coverage(CATALOG).figures if not each.reason)
    assert covered["preempt-rt"] == 118
    assert covered["musl-malloc"] == 12
    assert covered["lwip-vs-smoltcp"] == 14
    assert covered["zram-vs-flash"] == 28
    assert covered["musl-vs-glibc"] >= 208


def test_a_join_of_a_suite_that_comes_later_covers_its_figures() -> None:
    metrics = {
        (each.place.suite, each.place.workload): frozenset({each.place.metric})
        for each in joined()
        if each.figure.suite == "lmbench"
    }
    found = coverage(msgspec.structs.replace(CATALOG, metrics={**CATALOG.metrics, **metrics}))
    assert not [each for each in found.missing if each.figure.suite == "lmbench"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ({"suite": "lib"}, "there is no suite lib"),
        ({"workload": "b_malloc"}, "suite libc has no workload b_malloc"),
        ({"metric": "walls"}, "b_malloc_tiny1 has no metric walls"),
        ({"section": "lines"}, "no report has the section lines"),
        ({"side": Side(levels=(("libc", "dietlibc"),), load="idle")}, "the factor libc has no level dietlibc"),
        ({"side": Side(levels=(("clib", "musl"),), load="idle")}, "there is no factor clib"),
        ({"side": Side(levels=(("libc", "musl"),), load="rain")}, "there is no load rain"),
        (
            {"section": "claims", "over": Side(levels=(("libc", "dietlibc"),), load="idle")},
            "the factor libc has no level dietlibc",
        ),
        (
            {"over": Side(levels=(("libc", "glibc"),), load="idle")},
            "a row of comparisons has one level on each side",
        ),
        ({"derived": True}, "a row of comparisons has one level on each side"),
        ({"series": True, "metric": "sx"}, "no run has the time series sx"),
        ({}, ""),
    ],
)
def test_a_wrong_place_is_named(place: dict[str, object], reason: str) -> None:
    fields: dict[str, object] = {
        "section": "comparisons",
        "suite": "libc",
        "workload": "b_malloc_tiny1",
        "metric": "wall",
        "side": Side(levels=(("libc", "musl"),), load="idle"),
    }
    assert problem(Place(**{**fields, **place}), CATALOG) == reason  # type: ignore[arg-type] # one of its fields at a time


def test_every_section_is_one_of_a_report_or_of_a_suite_that_is_to_come() -> None:
    folder = Path(topics.__file__).parent
    text = "".join(path.read_text() for path in sorted(folder.glob("*.py")))
    suites = {suite for suite, _ in CATALOG.metrics}
    for section in SECTIONS - {CLAIMS, COMPARISONS}:
        printed = f'"{section}"' in text or f'"{section.removesuffix("-rows")}"' in text
        assert printed or not {each.place.suite for each in joined(section)} & suites, section
        assert joined(section), section


def test_an_index_needs_every_row() -> None:
    lacking = {key: value for key, value in CATALOG.metrics.items() if key != ("throughput", "pipe (8 tasks)")}
    found = coverage(msgspec.structs.replace(CATALOG, metrics=lacking))
    reasons = {(each.figure.metric, each.figure.condition): each.reason for each in found.missing}
    assert reasons["Pipe Throughput", "multi task"] == "suite throughput has no workload pipe (8 tasks)"
    assert "its index needs every row" in reasons["index", "multi task"]
    assert ("index", "single task") not in reasons


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rows = "same"', 'rows = "some"', "there is no table rows.some"),
        ('suite = "coremark"', 'suite = "coremarks"', "no published figure matches"),
        ('glibc = "libc=glibc"', 'glibc = "glibc"', "is not FACTOR=LEVEL"),
        ('glibc = "libc=glibc"', 'glibc = "load=io"', "names no level"),
        ('to = "libc"', 'into = "libc"', "unknown field"),
        ("inverse = true", 'inverse = "yes"', "Expected `bool`"),
        ("[[join]]", "[[join", "joins.toml"),
    ],
)
def test_a_broken_join_is_an_error(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(UserError) as caught:
        decoded(TEXT.replace(old, new))
    assert message in caught.value.message


def test_a_time_and_a_rate_of_one_name_are_not_joined_with_one_row() -> None:
    """Without its unit, a join of lmbench would put the latency and the bandwidth of a pipe beside one row."""
    wrong = join_of("lmbench").replace('unit = "us"\n', "")
    rows = TEXT[: TEXT.index("# musl against glibc, on a Raspberry Pi 4B.")]
    with pytest.raises(UserError, match="has two figures of the level") as caught:
        decoded(f"{rows}[[join]]{wrong}")
    assert "84.3 us" in caught.value.message and "303 MB/s" in caught.value.message


def test_figures_of_two_conditions_are_not_joined_with_one_row() -> None:
    wrong = join_of("coremark").replace('condition = "1 thread"\n', "")
    rows = TEXT[: TEXT.index("# musl against glibc, on a Raspberry Pi 4B.")]
    with pytest.raises(UserError, match="has two figures of the level"):
        decoded(f"{rows}[[join]]{wrong}")


def test_rows_have_their_pairs() -> None:
    pair = published.beside("musl-vs-glibc", "libc", "b_string_strstr(abcd)", "res")
    assert pair is not None
    assert (pair.figure, pair.baseline_level, pair.candidate_level) == ("b_string_strstr(abc):res", "glibc", "musl")
    assert published.beside("musl-vs-glibc", "libc", "b_string_strstr(abcd)", "res", "cpu") is None
    rate = published.beside("musl-vs-glibc", "os", "bw_pipe", "wall")
    assert rate is not None
    assert rate.unit == "MB/s" and rate.ratio == pytest.approx(303 / 306)
    turned = rate.oriented("musl", "glibc")
    assert turned is not None and turned.ratio == pytest.approx(306 / 303)
    time = published.beside("musl-vs-glibc", "os", "lat_pipe", "wall")
    assert time is not None and time.unit == "us"
    assert time.ratio == pytest.approx(81.2 / 84.3)
    with pytest.raises(UserError):
        published.beside("no-such-study", "libc", "b_malloc_sparse", "wall")


def test_only_studies_that_measure_a_row_are_named() -> None:
    found = {each.figure: each for each in coverage(CATALOG).figures}
    table = next(each for figure, each in found.items() if figure.suite == "unixbench" and figure.study == "preempt-rt")
    assert table.parts == ("preempt-rt/throughput", "preempt-rt/services")
    times = next(each for figure, each in found.items() if figure.metric == "b_malloc_sparse")
    assert set(times.parts) >= {"musl-vs-glibc/libc", "musl-vs-glibc-arm64/libc"}


def test_without_a_catalog_nothing_is_covered() -> None:
    nothing = Catalog(
        metrics={}, loads=frozenset(), levels=frozenset(), sections=frozenset(), series=frozenset(), parts=()
    )
    assert len(coverage(nothing).missing) == 489
    assert len(coverage(CATALOG, ()).missing) == 489


@given(st.binary(max_size=200), st.integers(0, len(TEXT)))
def test_any_content_is_decoded_or_a_user_error(junk: bytes, cut: int) -> None:
    known: tuple[Figure, ...] = EVERY[:40]
    for content in (junk, TEXT[:cut].encode() + junk):
        try:
            decode_joins(content, known)
        except UserError as error:
            assert "joins.toml" in error.message
