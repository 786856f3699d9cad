# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as text: digits from the width of an interval or from the unit's resolution, without exponents and negative zeros."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import synthetic

from swapstone.core.model import Scale
from swapstone.core.model.number_text import RESOLUTION, digits, exact_effect, fixed, percent, quantity, ratio
from swapstone.core.report import formatting

UNITS = [*RESOLUTION, "widgets"]
FACTORS = {
    "": 1.0,
    **{"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "k": 1e3, "M": 1e6, "G": 1e9, "widgets": 1.0},
    **{"/s": 1.0, "k/s": 1e3, "M/s": 1e6, "G/s": 1e9},
    **{f"{prefix}B{per}": 1024.0**power for power, prefix in enumerate(("", "Ki", "Mi", "Gi")) for per in ("", "/s")},
}
NUMBERS = st.floats(-1e18, 1e18)
WIDTHS = st.one_of(st.just(0.0), st.floats(1e-12, 1e15))


def _value(text: str) -> float:
    number, _, unit = text.partition(" ")
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", number), text
    value = float(number)
    assert not (value == 0 and number.startswith("-")), text
    return value * FACTORS[unit]


@given(NUMBERS, NUMBERS, st.sampled_from(UNITS), WIDTHS)
def test_a_quantity_has_no_exponent_and_no_negative_zero_and_keeps_the_order(
    one: float, other: float, unit: str, width: float
) -> None:
    low, high = sorted((one, other))
    assert _value(quantity(low, unit, width)) <= _value(quantity(high, unit, width))


@given(st.floats(1e-15, 1e12), st.floats(1e-15, 1e12), WIDTHS)
def test_a_ratio_has_no_exponent_and_keeps_the_order(one: float, other: float, width: float) -> None:
    low, high = sorted((one, other))
    assert _value(ratio(low, width)) <= _value(ratio(high, width))


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_percentage_has_no_negative_zero_and_keeps_the_order(one: float, other: float) -> None:
    low, high = (percent(share).removesuffix(" %") for share in sorted((one, other)))
    assert _value(low) <= _value(high)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_number_has_a_text_without_an_exponent(value: float) -> None:
    for text in (digits(value), digits(value, 2), quantity(value, "ns"), percent(value), ratio(abs(value))):
        assert "e" not in text and "inf" not in text and "nan" not in text, text


@given(st.floats(1e-9, 1e9), st.sampled_from(UNITS))
def test_no_number_has_seven_digits_that_count(value: float, unit: str) -> None:
    number = quantity(value, unit).partition(" ")[0].replace(".", "").strip("0")
    assert len(number) <= 4


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.19e-7, "ns", "0 ns"), (-4e-9, "B", "0 B"), (-0.0, "1", "0"), (12_345_678.5e9, "ns", "12300000 s")],
)
def test_less_than_the_resolution_is_zero(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.95, "95 %"), (0.995, "99.5 %"), (0.9999, "99.99 %"), (-1e-9, "0 %"), (1.0, "100 %"), (0.0051, "0.51 %")],
)
def test_a_percentage_near_100_is_not_rounded_to_it(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_fixed_number_has_no_negative_zero() -> None:
    assert [fixed(-0.4, 0), fixed(-0.04, 1), fixed(-0.06, 1)] == ["0", "0.0", "-0.1"]


@pytest.mark.parametrize(
    ("effect", "low", "high", "text"),
    [
        (1.134, 1.12, 1.15, "1.134 (1.120–1.150)"),  # noqa: RUF001 - a dash between numbers
        (6.865, 6.678, 7.061, "6.87 (6.68–7.06)"),  # noqa: RUF001 - as above
        (4.0, 1.2, 98.0, "4.0 (1.2–98.0)"),  # noqa: RUF001 - as above
        (0.00795812, 0.00790, 0.00801, "0.00796 (0.00790–0.00801)"),  # noqa: RUF001 - as above
    ],
)
def test_the_interval_decides_the_digits_of_an_effect_and_of_its_bounds(
    effect: float, low: float, high: float, text: str
) -> None:
    wall = msgspec.structs.replace(synthetic.analysis().comparisons[0], effect=effect, low=low, high=high)
    assert wall.scale is Scale.RATIO
    assert formatting.estimate(wall) == text


def test_an_effect_of_rounding_errors_is_zero() -> None:
    wall = synthetic.analysis().comparisons[0]
    difference = msgspec.structs.replace(wall, scale=Scale.DIFFERENCE, effect=1.19e-7, low=-3e-8, high=2e-7)
    assert formatting.effect(1.19e-7, difference) == "0 ns"
    assert formatting.interval(difference) == "0 ns to 0 ns"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.0009, "", "+0.09000 %"),
        (0.9957, "", "-0.4300 %"),
        (1.017, "", "+1.700 %"),
        (1.0, "", "0 %"),
        (2.0, "", "+100.0 %"),
        (0.5, "", "-50.00 %"),
        (2.97, "", "2.970 times"),
        (0.25, "", "0.2500 times"),
        (2.0, "1", "+2"),
        (-1284.4, "ns", "-1.284 us"),
        (0.0, "ns", "0 ns"),
        (0.0, "1", "0"),
    ],
)
def test_an_exact_effect_has_a_sign_and_four_digits(value: float, unit: str, text: str) -> None:
    assert exact_effect(value, unit) == text
