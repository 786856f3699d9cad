# SPDX-License-Identifier: MIT OR Apache-2.0
"""Limits of the files of the emulator's plugin."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.parts.explain.instruments.plugin_file import decode_numbers

FILE = b"swapstone-test 1\nblocks 7\n\n"


def test_a_file_is_at_most_as_large_as_its_kind_allows() -> None:
    values, at = decode_numbers(FILE, b"swapstone-test 1", ["blocks"], most_bytes=len(FILE), bits=64)
    assert (values, at) == ({"blocks": 7}, len(FILE))
    with pytest.raises(UserError, match="has more than 0 MiB"):
        decode_numbers(FILE, b"swapstone-test 1", ["blocks"], most_bytes=len(FILE) - 1, bits=64)


@pytest.mark.parametrize("bits", [63, 64])
def test_a_number_is_below_the_power_of_two_of_its_kind(bits: int) -> None:
    for number, refused in (((1 << bits) - 1, False), (1 << bits, True)):
        data = FILE.replace(b"7", str(number).encode())
        if refused:
            with pytest.raises(UserError, match="and not the number of blocks"):
                decode_numbers(data, b"swapstone-test 1", ["blocks"], most_bytes=99, bits=bits)
        else:
            values, _ = decode_numbers(data, b"swapstone-test 1", ["blocks"], most_bytes=99, bits=bits)
            assert values == {"blocks": number}
