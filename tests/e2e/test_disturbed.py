# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that needs several processors, on a machine where other processes use some of them: from the command line to the report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli import swapstone

BUSY = """
seed = 3
[[behaviour]]
wall_ns = 50_000_000
noise = 0.01
others = 0.6
[[behaviour]]
variant = "libc=musl*"
wall_ns = 70_000_000
"""
REASON = "in 12 of 12 blocks other processes used 0.6 of the 2 processors"


def analysed(folder: Path, text: str, *choices: str) -> Any:
    """Compare one work of two threads and one of one thread, and return the analysis."""
    (folder / "fake.toml").write_text(text)
    only = ("--suite", "libc", "--only", "b_malloc_thread_local", "--only", "b_malloc_tiny1")
    target = ("--target", f"fake:{folder / 'fake.toml'}", "--blocks", "12", "--out", str(folder / "r"))
    swapstone(folder, "compare", *choices, *only, *target)
    exported = swapstone(folder, "export", str(folder / "r"), "--format", "json")
    return json.loads(exported.stdout)["analysis"]


def verdicts(analysis: Any, metric: str) -> dict[str, str]:
    return {row["workload"]: row["verdict"] for row in analysis["comparisons"] if row["metric"]["name"] == metric}


def test_a_disturbed_row_has_no_verdict_and_the_others_have(tmp_path: Path) -> None:
    found = analysed(tmp_path, BUSY, "libc=glibc,musl")
    assert verdicts(found, "wall") == {"b_malloc_tiny1": "worse", "b_malloc_thread_local": "disturbed"}
    assert verdicts(found, "cpu") == {"b_malloc_tiny1": "worse", "b_malloc_thread_local": "disturbed"}
    (row,) = [
        row
        for row in found["comparisons"]
        if (row["workload"], row["metric"]["name"]) == ("b_malloc_thread_local", "wall")
    ]
    assert (row["reason"], row["effect"], row["low"]) == (REASON, None, None)
    assert len(row["baseline_values"]) == len(row["candidate_values"]) == 12
    assert {index["workloads"] for index in found["indices"]} <= {1}
    shown = swapstone(tmp_path, "show", str(tmp_path / "r"), "--all").stdout
    assert f"b_malloc_thread_local, elapsed time: disturbed: {REASON}" in " ".join(shown.split())


@pytest.mark.parametrize("blocks", [12, 1])
def test_a_disturbed_row_has_its_medians_and_the_range_of_its_pairs(tmp_path: Path, blocks: int) -> None:
    (tmp_path / "fake.toml").write_text(BUSY)
    only = ("--suite", "libc", "--only", "b_malloc_thread_local", "--target", f"fake:{tmp_path / 'fake.toml'}")
    shown = swapstone(tmp_path, "compare", "libc=glibc,musl", *only, "--blocks", str(blocks), "--out", "r").stdout
    text = " ".join(shown.split())
    reason = REASON.replace("12", str(blocks))
    assert text.startswith(f"musl has no verdict: disturbed: {reason}. ")
    ranged = rf"1\.\d+ to 1\.\d+ in {blocks} pairs"
    assert re.search(rf"elapsed time [45]\d\.?\d* ms [67]\d\.?\d* ms {ranged if blocks > 1 else ''} ?disturbed", text)
    figures = (
        rf"medians without a verdict: [45]\d\.?\d* ms and [67]\d\.?\d* ms{rf' .ratios {ranged}.' if blocks > 1 else ''}"
    )
    assert re.search(rf"b_malloc_thread_local: disturbed: {reason}; {figures}", text)


def test_an_undisturbed_row_is_judged(tmp_path: Path) -> None:
    found = analysed(tmp_path, BUSY.replace("others = 0.6", "others = 0.01"), "libc=glibc,musl")
    assert verdicts(found, "wall") == {"b_malloc_tiny1": "worse", "b_malloc_thread_local": "worse"}
    assert [caveat for caveat in found["caveats"] if caveat["kind"] == "disturbed-runs"] == []


def test_effects_and_interactions_of_disturbed_work_give_the_reason(tmp_path: Path) -> None:
    found = analysed(tmp_path, BUSY, "libc=glibc,musl", "allocator=default,jemalloc")

    def of_threads(name: str) -> list[Any]:
        places = ("b_malloc_thread_local", "wall")
        return [each for each in found[name] if (each["workload"], each["metric"]["name"]) == places]

    assert {effect["verdict"] for effect in of_threads("effects")} == {"disturbed"}
    assert {each["presence"] for each in of_threads("interactions")} == {"unavailable"}
    assert all(
        each["reason"].endswith(f": {REASON}") for name in ("effects", "interactions") for each in of_threads(name)
    )
