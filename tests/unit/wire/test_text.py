# SPDX-License-Identifier: MIT OR Apache-2.0
"""Texts and numbers of the protocols at their limits, with the messages of their errors."""

from __future__ import annotations

import pytest

from swapstone.core.model import WireError
from swapstone.core.wire.protocol_text import MAX_NUMBER, Place, encode_bytes, show


@pytest.mark.parametrize(
    ("token", "value"),
    [
        (b"0", 0),
        (b"10", 10),
        (b"999999999999999999", 10**18 - 1),
        (b"1000000000000000000", 10**18),
        (b"9223372036854775807", MAX_NUMBER),
    ],
)
def test_numbers_that_are_read(token: bytes, value: int) -> None:
    assert Place("x").decode_number(token, "n") == value
    assert Place("x").decode_number(token, "n", value, value) == value


def test_negative_numbers_are_read_where_they_may_be() -> None:
    assert Place("x").decode_number(b"-20", "n", -20, 19) == -20
    with pytest.raises(WireError, match="n is -21, outside -20 to 19"):
        Place("x").decode_number(b"-21", "n", -20, 19)
    with pytest.raises(WireError, match="n is written '-0', not 0"):
        Place("x").decode_number(b"-0", "n", -20, 19)


@pytest.mark.parametrize(
    ("token", "low", "high", "text"),
    [
        (b"", 0, 9, "n is '', not a whole number."),
        (b"x", 0, 9, "n is 'x', not a whole number."),
        (b"1.0", 0, 9, "n is '1.0', not a whole number."),
        (b"+1", 0, 9, "n is '+1', not a whole number."),
        (b"01", 0, 9, "n is written '01', not 1."),
        (b"00", 0, 9, "n is written '00', not 0."),
        (b"10", 0, 9, "n is 10, outside 0 to 9."),
        (b"0", 1, 9, "n is 0, outside 1 to 9."),
        (b"-1", 0, 9, "n is negative: -1."),
        (b"9223372036854775808", 0, MAX_NUMBER, "n is 9223372036854775808, outside 0 to 9223372036854775807."),
        (b"1" * 20, 0, 9, f"n is '{'1' * 20}', out of range."),
        (b"-" + b"1" * 20, 0, 9, f"n is '-{'1' * 20}', out of range."),
    ],
)
def test_numbers_that_are_refused(token: bytes, low: int, high: int, text: str) -> None:
    with pytest.raises(WireError) as caught:
        Place("x", 7).decode_number(token, "n", low, high)
    assert caught.value.message == f"Line 7 of x: {text}"


@pytest.mark.parametrize(
    ("data", "token"),
    [(b"", b"%"), (b"!~", b"!~"), (b" \x7f%", b"%20%7F%25"), (b"\x00\xff", b"%00%FF"), (b"a\nb", b"a%0Ab")],
)
def test_bytes_are_encoded_in_one_way(data: bytes, token: bytes) -> None:
    assert encode_bytes(data) == token
    assert Place("x").decode_bytes(token) == data


@pytest.mark.parametrize("token", [b"", b"%2", b"%zz", b"%41", b"%7f", b"a b", b"\xff", b"%%", b"a%", b"%5F"])
def test_other_encodings_are_refused(token: bytes) -> None:
    with pytest.raises(WireError, match="is not percent-encoded as it should be"):
        Place("x").decode_bytes(token)


def test_untrusted_bytes_are_shown_quoted_and_at_most_60_characters_long() -> None:
    assert show(b"x" * 60) == f"'{'x' * 60}'"
    assert show(b"x" * 61) == f"'{'x' * 60}'..."
    assert show(b"\xff") == "'\\xff'"
