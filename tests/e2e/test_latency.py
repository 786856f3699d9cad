# SPDX-License-Identifier: MIT OR Apache-2.0
"""cyclictest in virtual machines: observed kernels, loads, and reproducible bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli import runs_of, swapstone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the images that are used are of x86_64"),
]


def _values(run: dict[str, Any]) -> dict[str, float]:
    return {sample["metric"]: sample["values"][0] for sample in run["samples"]}


def _check(runs: list[dict[str, Any]]) -> None:
    """Check that every run is ok, ran on its variant's kernel, and has all cycles."""
    assert [(run["status"], run["reason"]) for run in runs if run["status"] != "ok"] == []
    for run in runs:
        assert run["trial"]["variant"] == f"kernel={dict(run['observed'])['kernel']}"
        assert sum(count for _, count in run["histogram"]) == 10_000


def test_preempt_rt_has_far_lower_latencies_under_io_load(tmp_path: Path, exhaustive: bool) -> None:
    record = tmp_path / "r"
    asked = ("kernel=generic,rt", "--suite", "latency", "--load", "idle,io", "--blocks", "1", "--seed", "5")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = runs_of(record)
    assert len(runs) == 4  # one replicate, and no warm-up
    _check(runs)
    by_place = {(run["trial"]["load"], run["trial"]["variant"], run["trial"]["block"]): _values(run) for run in runs}
    generic, rt = (by_place["io", f"kernel={level}", 1] for level in ("generic", "rt"))
    assert generic["max"] > 20 * rt["max"]
    assert generic["p99.9"] > 20 * rt["p99.9"]
    quiet, quiet_rt = (by_place["idle", f"kernel={level}", 1] for level in ("generic", "rt"))
    assert quiet["avg"] == pytest.approx(quiet_rt["avg"], rel=0.05)
    assert generic["max"] > 20 * quiet["max"]
    if exhaustive:  # else test_vm_target.py recomputes a trial
        verified = swapstone(tmp_path, "verify", str(record), "--recompute", "1")
        assert "1 of 1 trials gave the same bytes" in verified.stdout


def test_each_preemption_mode_of_the_generic_kernel_is_observed(tmp_path: Path, exhaustive: bool) -> None:
    record = tmp_path / "r"
    modes = ("generic", "full", *(("none", "voluntary") if exhaustive else ()))  # the latter boot another machine each
    asked = (f"kernel={','.join(modes)}", "--only", "b_string_strlen", "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    assert {(run["status"], run["trial"]["variant"], dict(run["observed"])["kernel"]) for run in runs_of(record)} == {
        ("ok", f"kernel={mode}", mode) for mode in modes
    }


def test_preemption_modes_are_refused_on_arm64(tmp_path: Path) -> None:
    asked = ("kernel=generic,none", "--suite", "latency", "--arch", "arm64", "--blocks", "1")
    result = swapstone(tmp_path, "compare", *asked, expect=2)
    assert "PREEMPT_DYNAMIC" in result.stderr
    assert not list(tmp_path.glob("*/record.json"))
