# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ratios in plain words: a case for each rule of the module."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.report.answer import wording


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.0, "is less than 0.001 % faster than glibc"),
        (1.0004, "is 0.04 % slower than glibc"),
        (1.005, "is 0.5 % slower than glibc"),
        (1.03, "is 3 % slower than glibc"),
        (0.97, "is 3 % faster than glibc"),
        (1.0949, "is 9 % slower than glibc"),
        (1.1, "takes 1.1 times as long as glibc"),
        (1.5, "takes 1.5 times as long as glibc"),
        (1.949, "takes 1.9 times as long as glibc"),
        (2.0, "takes twice as long as glibc"),
        (2.07, "takes 2.1 times as long as glibc"),
        (2.47, "takes 2.5 times as long as glibc"),
        (12.4, "takes 12 times as long as glibc"),
        (131.7, "takes 130 times as long as glibc"),
        (0.85, "takes 15 % less time than glibc"),
        (0.75, "takes 25 % less time than glibc"),
        (0.66, "is 1.5 times as fast as glibc"),
        (0.51, "is twice as fast as glibc"),
        (0.41, "is 2.4 times as fast as glibc"),
        (0.34, "is 2.9 times as fast as glibc"),
        (0.25, "is 4 times as fast as glibc"),
        (0.2, "is 5 times as fast as glibc"),
        (0.1, "is 10 times as fast as glibc"),
        (0.0123, "is 81 times as fast as glibc"),
    ],
)
def test_durations(ratio: float, words: str) -> None:
    assert wording.duration(ratio, "glibc") == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.03, "3 % more memory than glibc"),
        (0.97, "3 % less memory than glibc"),
        (1.5, "1.5 times the memory of glibc"),
        (2.0, "twice the memory of glibc"),
        (0.5, "half the memory of glibc"),
        (0.33, "a third of the memory of glibc"),
        (0.268, "27 % of the memory of glibc"),
    ],
)
def test_amounts(ratio: float, words: str) -> None:
    assert wording.amount(ratio, "memory", "glibc") == words


def test_counted_things_are_fewer_and_the_other_side_may_be_left_out() -> None:
    assert wording.amount(0.95, "requests", counted=True) == "5 % fewer requests"
    assert wording.amount(0.33, "memory") == "a third of the memory"
    assert wording.duration(1.5) == "takes 1.5 times as long"
    assert wording.duration(0.5) == "is twice as fast"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.99, 1.03, "between 1 % faster and 3 % slower"),
        (1.005, 1.05, "between 0.5 % slower and 5 % slower"),
        (0.8, 1.3, "between 0.8 and 1.3 times as long"),
    ],
)
def test_intervals(low: float, high: float, words: str) -> None:
    assert wording.between(low, high) == words


def test_lists_and_the_first_letter() -> None:
    assert wording.listed([]) == ""
    assert wording.listed(["regex"]) == "regex"
    assert wording.listed(["regex", "strings", "threads"]) == "regex, strings and threads"
    assert wording.sentence_case("no difference") == "No difference"
    assert wording.sentence_case("musl takes") == "musl takes"
    assert wording.sentence_case("nosuchlibc takes") == "nosuchlibc takes"


@given(st.floats(1e-9, 1e9))
def test_no_ratio_gives_an_exponent_or_the_wrong_direction(ratio: float) -> None:
    words = wording.duration(ratio)
    assert "e-" not in words and "e+" not in words and "?" not in words
    if ratio >= wording.NEAR:
        assert "as long" in words and "%" not in words and "half" not in words
    elif ratio > 1.0005:
        assert words.endswith("slower")
    elif 1 / wording.NEAR < ratio < 0.9995:
        assert words.endswith("faster")
    elif ratio <= 1 / wording.NEAR:
        assert words.endswith((" less time", " as fast"))
