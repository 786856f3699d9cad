# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of benchmarks/float-abi."""

from __future__ import annotations

from benchmarks.float_abi import time_table


def test_the_smallest_time_counts() -> None:
    times = {name: {"soft": [3.2, 3.0], "softfp": [2.0, 1.5], "hard": [1.0, 4.0]} for name in ("exact", "inexact")}
    lines = time_table(times, 10)
    assert lines[0] == "User time of the emulator for 1000000 loops, the smallest of 2 runs"
    assert lines[2].split() == ["exact", "3.000", "s", "1.500", "s", "1.000", "s", "2.00", "3.00"]
