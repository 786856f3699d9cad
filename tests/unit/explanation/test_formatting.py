# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times and shares of an explanation, as text."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.explanation.by_function import duration, percent, signed, span


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [(-3.17e-08, "0 ns"), (0.0, "0 ns"), (0.25, "0.250 ns"), (-44_400, "-44.4 us"), (4.03e6, "4.03 ms"), (2e9, "2 s")],
)
def test_a_time_has_three_digits_and_no_rounding_error(value_ns: float, text: str) -> None:
    assert duration(value_ns) == text


@pytest.mark.parametrize(("share", "text"), [(-0.004, "0 %"), (0.45, "45 %"), (-0.18, "-18 %")])
def test_a_share_that_rounds_to_zero_has_no_sign(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_difference_has_a_sign_and_an_interval_of_shares_has_one_unit() -> None:
    assert [signed(value) for value in (4.03e6, -4.03e6, 1e-8, 0.0)] == ["+4.03 ms", "-4.03 ms", "0 ns", "0 ns"]
    assert span((-0.004, 1.056)) == "0 to 106 %"
