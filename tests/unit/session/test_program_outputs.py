# SPDX-License-Identifier: MIT OR Apache-2.0
"""The first line in which two outputs differ, whatever they contain."""

from __future__ import annotations

import pytest

from swapstone.core.session.program_outputs import first_difference
from swapstone.core.session.varied_outputs import literal_of


@pytest.mark.parametrize(
    ("baseline", "candidate", "found"),
    [
        ([b"a\nb\n"], [b"a\nc\n"], (b"b", b"c")),
        ([b"a\nat 1\nsum 5\n", b"a\nat 2\nsum 5\n"], [b"a\nat 7\nsum 6\n"] * 2, (b"sum 5", b"sum 6")),
        ([b"a\n"], [b"a\nb\n"], (b"", b"b")),
        ([b"x 1\n", b"x 2\n"], [b"y 3\n", b"y 4\n"], (b"x #", b"y #")),
        ([b"red\n", b"blue\n"], [b"red\n", b"blue\n"], None),
        ([b""], [b""], None),
        ([b"\xff\x00\n"], [b"\xfe\x00\n"], (b"\xff\x00", b"\xfe\x00")),
    ],
)
def test_the_first_line_that_differs_in_all_runs(
    baseline: list[bytes], candidate: list[bytes], found: tuple[bytes, bytes] | None
) -> None:
    assert first_difference(baseline, candidate) == found


def test_a_line_is_shown_as_a_literal_around_the_difference() -> None:
    assert literal_of(b"\x1b[31mred\x07\xff", 0) == "'\\x1b[31mred\\x07\ufffd'"
    assert literal_of("a\u202eb".encode(), 0) == "'a\\u202eb'"  # a change of direction
    assert literal_of(b"x" * 200, 100) == "'..." + "x" * 60 + "...'"
