# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of benchmarks/float-abi."""

from __future__ import annotations

import pytest
from benchmarks.float_abi import FUNCTIONS, LEVELS, Line, functions_of, kind_table, side_by_side, time_table

from swapstone.model import UserError

OBJDUMP = """
prog:     file format elf32-littlearm

00010564 <sum>:
   10564:\te52db004 \tpush\t{fp}\t\t@ (str fp, [sp, #-4]!)
   10580:\tee777a27 \tvadd.f32\ts15, s14, s15
   10594:\te12fff1e \tbx\tlr

00010600 <other>:
   10600:\te12fff1e \tbx\tlr
"""


def test_a_function_is_read_from_objdump() -> None:
    text = OBJDUMP + "".join(f"\n00010700 <{name}>:\n   10700:\te12fff1e \tbx\tlr\n" for name in FUNCTIONS[1:])
    found = functions_of(text, "softfp")
    assert list(found) == list(FUNCTIONS)
    assert found["sum"] == [
        Line(0xE52DB004, "push {fp}"),
        Line(0xEE777A27, "vadd.f32 s15, s14, s15"),
        Line(0xE12FFF1E, "bx lr"),
    ]
    with pytest.raises(UserError, match="no function difference of hard"):
        functions_of(OBJDUMP, "hard")


def test_the_tables_have_a_column_for_each_level() -> None:
    lines = [Line(0xEE777A27, "vadd.f32 s15, s14, s15"), Line(0xE12FFF1E, "bx lr")]
    code = {level: dict.fromkeys(FUNCTIONS, lines if level != "soft" else lines[1:]) for level in LEVELS}
    shown = side_by_side(code)
    assert shown[0].split() == list(LEVELS)
    assert shown[3].split() == ["bx", "lr", *2 * ["vadd.f32", "s15,", "s14,", "s15"]]
    assert shown[4].split() == ["bx", "lr", "bx", "lr"]
    assert [row.split()[-3:] for row in kind_table(code)] == [
        list(LEVELS),
        ["0", "4", "4"],
        ["4", "4", "4"],
        ["4", "8", "8"],
    ]


def test_the_smallest_time_counts() -> None:
    times = {name: {"soft": [3.2, 3.0], "softfp": [2.0, 1.5], "hard": [1.0, 4.0]} for name in ("exact", "inexact")}
    lines = time_table(times, 10)
    assert lines[0] == "User time of the emulator for 1000000 loops, the smallest of 2 runs"
    assert lines[2].split() == ["exact", "3.000", "s", "1.500", "s", "1.000", "s", "2.00", "3.00"]
