# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--ns-per-instruction`: how its value is read."""

from __future__ import annotations

import pytest

from swapstone.core.model import CLOCK_SCALES, UserError
from swapstone.core.session.compare_options import parse_scales


def test_one_or_several_times_are_read() -> None:
    assert parse_scales(None) == ()
    assert parse_scales("4") == (4,)
    assert parse_scales("4, 1,2") == (4, 1, 2)
    assert parse_scales(",".join(map(str, CLOCK_SCALES))) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no whole number"),  # e.g. an unset variable of a shell
        ("x", "'x' is no whole number"),
        ("1,", "'' is no whole number"),
        ("0", "can't count 0 ns"),
        ("3", "can't count 3 ns"),
        ("-1", "'-1' is no whole number"),
        ("1.5", "'1.5' is no whole number"),
        ("２", "is no whole number"),  # noqa: RUF001 - a digit that int() accepts
        ("1000000", "can't count 1000000 ns"),
        ("9" * 41, "is no whole number"),
        ("2,1,2", "names 2 twice"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_scales(text)


def test_the_hint_for_a_repeated_time_leaves_the_repetition_out() -> None:
    with pytest.raises(UserError) as caught:
        parse_scales("2,1,2")
    assert caught.value.hint == "Write: --ns-per-instruction 2,1"
