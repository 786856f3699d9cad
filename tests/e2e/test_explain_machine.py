# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain` of records on the exact clock: the passes of a workload, and a modelled processor."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli import swapstone
from tests.e2e.explained_record import PRINTED, explained_strlen
from tests.shared import Shared

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program of this test is of x86_64"),
]


@pytest.mark.exhaustive
def test_the_passes_of_a_workload_are_counted(shared: Shared) -> None:
    found = json.loads((explained_strlen(shared) / PRINTED).read_text())
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
