# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of benchmarks/copy-offsets, and its program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from benchmarks.copy_offsets import NEAR, SOURCE, read, report


def test_the_answer_names_the_slowest_offset_and_its_ratios() -> None:
    times = read(["64 cached 20000", "64 memory 100000", "4080 cached 300000", "4080 memory 250000"] * 2)
    lines = report(times).splitlines()
    assert lines[0] == (
        "A copy to a page takes 15.0 times as long in the cache, and 2.5 times in memory, if its source lies 16 bytes before "
        "the destination in the lower 12 bits of the address, instead of 64 bytes behind it."
    )
    assert [cell.strip() for cell in lines[-1].strip("|").split("|")] == [
        "16 bytes before",
        "300 (300 to 300)",
        "15.00",
        "250 (250 to 250)",
        "2.50",
    ]


def test_another_line_is_refused() -> None:
    with pytest.raises(ValueError, match="another form"):
        read(["64 disk 1"])


def test_the_program_measures_each_offset_in_each_pass(tmp_path: Path) -> None:
    program = tmp_path / "copy_offsets"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Werror", str(SOURCE), "-o", str(program)], check=True)
    done = subprocess.run([program, "2", str(NEAR), "4080"], capture_output=True, text=True, check=True)
    times = read(done.stdout.splitlines())
    assert sorted(times) == [(64, "cached"), (64, "memory"), (4080, "cached"), (4080, "memory")]
    assert all(len(passes) == 2 and min(passes) > 0 for passes in times.values())
    assert subprocess.run([program, "1", "4096"], capture_output=True, check=False).returncode == 2
