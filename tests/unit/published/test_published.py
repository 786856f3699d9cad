# SPDX-License-Identifier: MIT OR Apache-2.0
"""The published figures, and what can be checked about them."""

import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from swapstone.core.model import UserError
from swapstone.parts.published import data as published
from swapstone.parts.published.data import shipped


def test_there_are_489_figures_each_of_a_known_page_and_study() -> None:
    figures = published.figures()
    assert len(figures) == 489
    assert {f.source for f in figures} == set(published.sources())
    assert all(published.source_of(f.study) == published.sources()[f.source] for f in figures)


def test_figures_narrow_by_study_and_suite() -> None:
    libc = published.figures("musl-vs-glibc", "libc")
    assert len(libc) == 2 * (23 + 3 * 27)
    assert {f.suite for f in published.figures("preempt-rt")} == {"cyclictest", "unixbench"}


def test_an_unknown_study_is_the_users_error() -> None:
    with pytest.raises(UserError, match="There is no published study"):
        published.source_of("musl-vs-glib")


def test_numbers_keep_the_words_of_the_page() -> None:
    by = {f.printed: f.value for f in published.figures()}
    assert (by["21.8K"], by["about 190000"], by["8000+"], by["nearly 1.6"]) == (21800, 190000, 8000, 1.6)


def test_each_figure_stands_once_and_is_printable() -> None:
    every = (*published.figures(), *published.further())
    names = {(f.study, f.source, f.platform, f.condition, f.suite, f.metric, f.unit, f.level) for f in every}
    assert len(names) == len(every)
    assert all(text.strip() and text.isprintable() for name in names for text in (*name[:3], *name[4:]))


def test_what_the_pages_do_not_state_is_not_stated() -> None:
    assert {f.platform for f in published.figures("lwip-vs-smoltcp")} == {"not stated"}
    assert {f.platform for f in published.figures("zram-vs-flash")} == {"BeagleBone Black"}
    (longest,) = (f for f in published.figures("preempt-rt") if f.metric == "max latency")
    assert (longest.value, longest.level) == (58, "not stated")
    assert {f.level for f in published.figures("lwip-vs-smoltcp", "allocations")} == {
        "lwip zero-copy rx",
        "lwip pools",
        "lwip pools + preallocated queues",
        "smoltcp",
    }


def test_further_numbers_are_of_the_same_pages_and_fit_the_figures() -> None:
    more = published.further()
    runs = {(f.platform, f.level) for f in more if f.suite == "http"}
    assert len(runs) == 4 and sum(f.suite == "http" for f in more) == 4 * 14
    assert sum(f.suite == "vmstat" for f in more) == (17 + 9) * 15
    samples = {f.metric: f.value for f in more if f.suite == "stack samples"}
    assert samples["innermost frame axnet::lwip_impl::driver::ethif_output"] == 491
    assert sum(samples.values()) == 1001
    assert not {f.encoded() for f in more} & {f.encoded() for f in published.figures()}


@pytest.mark.parametrize(
    "decode", [tomllib.loads, lambda text: text["no-such-key"], float], ids=["toml", "key", "number"]
)
def test_a_damaged_file_is_named(decode: Callable[[Any], object]) -> None:
    with (
        pytest.raises(UserError, match=r"published\.csv of the published figures is damaged"),
        shipped("published.csv") as text,
    ):
        decode(text)
    with pytest.raises(UserError, match=r"no-such-file of the published figures is damaged"), shipped("no-such-file"):
        pass
