# SPDX-License-Identifier: MIT OR Apache-2.0
"""Durations, shares and confidences as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import UserError
from swapstone.core.session.option_values import (
    format_compared,
    format_duration,
    parse_age_s,
    parse_confidence,
    parse_duration_ns,
    parse_ratio,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2m", 120), ("1.5h", 5400), ("250ms", 0.25), ("45", 45), (" 2 m ", 120)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_ns(text) == round(seconds * 1e9)


@pytest.mark.parametrize(
    "text", ["", "soon", "-1s", "0", "0s", "1e3s", "nan", "inf", "2 minutes", "9999999h", "1,5h", "\u0661m"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UserError, match="is not a duration"):
        parse_duration_ns(text)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_above_zero_or_a_user_error(text: str) -> None:
    try:
        assert parse_duration_ns(text) > 0
    except UserError as error:
        assert error.hint


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.02", 0.02), ("12.5 %", 0.125), ("0.5", 0.5)])
def test_shares(text: str, share: float) -> None:
    assert parse_ratio(text, "--margin", 0, 1) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0", "0%", "1", "100%", "2", "-1%", "two", "nan", "%", ""])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UserError, match="no value for --margin"):
        parse_ratio(text, "--margin", 0, 1)


@pytest.mark.parametrize(("text", "share"), [("95", 0.95), ("95%", 0.95), ("0.95", 0.95), ("99.9", 0.999)])
def test_confidences(text: str, share: float) -> None:
    assert parse_confidence(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["100", "50", "1", "0.4", "-95", "high"])
def test_what_is_no_confidence(text: str) -> None:
    with pytest.raises(UserError, match="no value for --confidence"):
        parse_confidence(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (42, "42 s"), (99.4, "99 s"), (125, "2 min 05 s"), (3599, "59 min 59 s"), (4200, "1 h 10 min")],
)
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(round(seconds * 1e9)) == text


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        ((1, 3), ("1 s", "3 s")),
        ((1, 1.02), ("1.00 s", "1.02 s")),
        ((0.01, 1.4), ("0.01 s", "1.40 s")),
        ((1, 1, 0), ("1 s", "1 s", "0 s")),
        ((120, 120.25), ("2 min 00.0 s", "2 min 00.2 s")),
        ((3600, 3605.5), ("1 h 00 min 00.0 s", "1 h 00 min 05.5 s")),
        ((1, 1 + 1e-9), ("1.000000000 s", "1.000000001 s")),
    ],
)
def test_durations_that_are_compared_differ_in_a_text(seconds: tuple[float, ...], texts: tuple[str, ...]) -> None:
    assert format_compared(*(round(each * 1e9) for each in seconds)) == texts


@pytest.mark.parametrize("text", ["9" * 400 + "s", "0." + "1" * 400, "1" + " " * 100_000 + "x", "9" * 5000 + "d"])
def test_numbers_of_many_digits_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a duration"):
        parse_duration_ns(text)
    with pytest.raises(UserError, match="is not a length of time"):
        parse_age_s(text)
    with pytest.raises(UserError, match="is no value for --margin"):
        parse_ratio(text, "--margin", 0.0, 1.0)
    with pytest.raises(UserError, match="is no value for --confidence"):
        parse_confidence(text)
