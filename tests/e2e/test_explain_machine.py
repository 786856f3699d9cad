# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain` of records on the exact clock: instructions by function."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli import swapstone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program of this test is of x86_64"),
]

SPIN = """\
#include <stdlib.h>
#include <sys/times.h>
__attribute__((noinline)) static void spin(long count) {
    __asm__ volatile("nop\\n 1: sub $1, %0\\n jnz 1b" : "+r"(count));
}
static char pages[300 * 4096];
__attribute__((noinline)) static void touch(char *page, long count) {
    __asm__ volatile("nop\\n 1: movb $1, (%0)\\n add $4096, %0\\n sub $1, %1\\n jnz 1b" : "+r"(page), "+r"(count));
}
int main(int count, char **arguments) {
    touch(pages, 300);
    for (int i = 0; i < 7; i++) times(NULL);
    spin(count > 1 ? atol(arguments[1]) : 1);
}
"""
FEW, MANY, IN_A_TURN = 1_000_000, 1_500_000, 2


def _functions(explained: str) -> dict[str, tuple[int, int, list[int]]]:
    found = json.loads(explained)["functions"]
    return {one["name"]: (one.get("baseline", 0), one.get("candidate", 0), one["entries"]) for one in found}


def test_a_loop_of_a_known_length_has_exactly_its_instructions(tmp_path: Path) -> None:
    assert shutil.which("qemu-system-x86_64"), "install it: apt-get install qemu-system-x86"
    (tmp_path / "spin.c").write_text(SPIN)
    subprocess.run(["cc", "-O1", "-static", "spin.c", "-o", "spin"], check=True, cwd=tmp_path)
    record = tmp_path / "r"
    pair = (f"./spin {FEW}", f"./spin {MANY}")
    swapstone(tmp_path, "compare", *pair, "--target", "vm", "--blocks", "2", "--out", str(record))
    explained = swapstone(tmp_path, "explain", str(record), "wall", "--only", "*", "--json")
    functions = _functions(explained.stdout)
    before, after, entries = functions["spin"]
    rest = before - FEW * IN_A_TURN
    assert (after - MANY * IN_A_TURN, entries) == (rest, [1, 1])
    assert 2 <= rest < 8  # nop and return
    assert functions["__x64_sys_times"][2] == [7, 7]
    assert 1200 + 2 <= functions["touch"][0] < 1200 + 8  # each page faults: the instruction counts once, not once more
    shown = swapstone(tmp_path, "explain", str(record), "wall", "--only", "*").stdout  # stored: runs nothing
    assert "of the difference is in the program (spin)" in " ".join(shown.split())
    assert "running" not in shown and "modelled processor" not in shown
    summary = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert "in the program (spin)" in " ".join(summary.split())
    found = json.loads(explained.stdout)
    for number, side in enumerate(("baseline", "candidate")):
        total = sum(one.get(side, 0) for one in found["functions"])
        assert total == found["sides"][number]["instructions"] and not found["sides"][number]["lost"]


def test_the_passes_of_a_workload_are_counted(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2", "--target", "vm", "--seed", "4")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    explained = swapstone(tmp_path, "explain", str(record), "wall", "--only", "*", "--json").stdout
    found = json.loads(explained)
    assert found["region"] == "passes"
    strlen = next(one for one in found["functions"] if one["name"] == "strlen" and one["file"].startswith("ld-musl"))
    assert strlen["kind"] == "C library" and strlen["entries"][1] == 100 * found["sides"][1]["operations"]
    internal = {one["name"] for one in found["functions"] if one["file"] == "libc.so.6"}
    named = any(note.startswith("Names of glibc's internal functions are from libc6-dbg ") for note in found["notes"])
    unnamed = any(note.startswith("Internal functions of libc.so.6 have no names: ") for note in found["notes"])
    assert named != unnamed and ("__strlen_sse2" in internal) == named
    for side in found["sides"]:
        beyond = side["instructions"] - side["clock_ns"]
        assert 0 < beyond < 20_000 * side["operations"], "a pass and the reading of the clocks around it"
        assert side["repeated"] == 0


@pytest.mark.exhaustive
def test_a_modelled_processor_shows_what_equal_instructions_hide(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "benchmarks" / "model_programs.c"
    subprocess.run(["cc", "-O2", "-static", source, "-o", "programs"], check=True, cwd=tmp_path)
    record = tmp_path / "r"
    pair = ("./programs l2-list 0", "./programs l2-list 1")
    swapstone(tmp_path, "compare", *pair, "--target", "vm", "--blocks", "1", "--output", "null", "--out", str(record))
    row = ("explain", str(record), "wall", "--only", "*")
    found = json.loads(swapstone(tmp_path, *row, "--modelled-cycles", "--json").stdout)
    before, after = found["model"]["sides"]
    for side, events in zip(found["sides"], (before, after), strict=True):
        assert (
            events["instructions"] == side["instructions"]
        )  # as the mode that counts by function has it, in another run
    hops = 2 * (1 << 20)  # a pass runs twice; the lists are of 8 KiB and of 256 KiB, in caches of 32 KiB and of 1 MiB
    beside = 0.05 * hops  # what else a machine does from its snapshot to its end
    assert (
        before["l1d_misses"] < after["l1d_misses"] and abs(after["l1d_misses"] - before["l1d_misses"] - hops) < beside
    )
    assert abs(after["l2_data_misses"] - before["l2_data_misses"]) < beside
    shown = " ".join(swapstone(tmp_path, *row).stdout.split())  # stored: runs nothing
    assert "Same instructions, different memory behaviour: a modelled processor takes" in shown
    assert "running" not in shown
    assert "different memory behaviour" in " ".join(swapstone(tmp_path, "show", str(record), "--all").stdout.split())
