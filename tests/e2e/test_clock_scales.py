# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--ns-per-instruction` from the command line to the table: arithmetic does not depend on the clock, a flash device does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.cli import runs_of, swapstone
from tests.programs import require


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_two_clocks_make_two_records_and_one_table(tmp_path: Path) -> None:
    require("qemu-system-x86_64")
    asked = ("libc=glibc,musl", "--target", "vm", "--only", "b_string_strlen", "--blocks", "1")
    folder = tmp_path / "r"
    made = swapstone(tmp_path, "compare", *asked, "--ns-per-instruction", "4,1", "--out", str(folder))
    first = made.stdout.partition("\n\n")[0].replace("\n", " ")  # one block has no results
    assert first.startswith("No effect of the ") and "rows can be compared at 1 and 4 ns for each instruction" in first
    experiments = [json.loads((folder / name / "experiment.json").read_text()) for name in ("1ns", "4ns")]
    assert [each.get("ns_per_instruction", 1) for each in experiments] == [1, 4]
    assert len({each["seed"] for each in experiments}) == 1

    def cpu_ns(name: str) -> dict[str, float]:
        return {
            run["trial"]["variant"]: sample["values"][0]
            for run in runs_of(folder / name)
            for sample in run["samples"]
            if sample["metric"] == "cpu" and run["trial"]["block"] == 1
        }

    one, four = cpu_ns("1ns"), cpu_ns("4ns")
    assert one.keys() == four.keys() == {"libc=glibc", "libc=musl"}
    for variant, value in one.items():
        assert four[variant] / value == pytest.approx(4, rel=0.1)  # timer interrupts are a part of both
    found = json.loads(swapstone(tmp_path, "agree", str(folder / "4ns"), str(folder / "1ns"), "--json").stdout)
    (row,) = [each for each in found["tables"][0]["table"]["rows"] if each["metric"]["name"] == "cpu"]
    ratios = [side["effect"] for side in row["sides"]]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.05)
    refused = swapstone(tmp_path, "agree", str(folder / "4ns"), str(folder / "1ns"), str(folder / "1ns"), expect=2)
    assert "Two records are of 1 ns" in refused.stderr
