# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone compare --why-max`: a kernel module that disables interrupts for 2 ms is named as the path of the worst wake-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swapstone.core.session.progress import NO_PROGRESS
from swapstone.core.session.record_handle import Record
from swapstone.parts.explain.session.why_max import worst_wakeup_documents
from tests.e2e.cli import swapstone

PLANTED = ["planted", "planted"]


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/contract/test_vm_plugin.py records blocks, tests/unit/instruments/test_wakeup_path.py makes paths of them
def test_the_planted_module_is_the_path(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("kernel=generic,rt", "--suite", "latency", "--load", "planted", "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    explained = swapstone(tmp_path, "explain", str(record), "max", "--load", "planted", "--json")
    found = json.loads(explained.stdout)
    for side in found["sides"]:
        assert side["disabled"]["modules"] == PLANTED
        assert 2_000_000 <= side["disabled"]["instructions"] < 2_001_000
        assert side["phases"][0] >= 0.9 * side["instructions"]
        inside = [one for one in side["functions"] if one.get("module") == "planted"]
        assert inside and inside[0]["total"] >= side["phases"][0] - 1000
        assert side["latency_ns"] // 1000 * 1000 == side["instructions"]
    markdown = swapstone(tmp_path, "explain", str(record), "max", "--markdown").stdout
    assert "planted" in markdown
    (why_max,) = worst_wakeup_documents([Record(record)], NO_PROGRESS)  # of --why-max; stored, so nothing runs
    assert "with interrupts disabled by run_thread [planted]" in why_max.answer
    shown = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert "[planted]" in " ".join(shown.split())
    pages = {path.name for path in (record / "explain").glob("*/*")}
    assert pages == {"wakeups.json", "explanation.md", "explanation.html"}


def test_a_comparison_without_wake_ups_is_refused_before_it_runs(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "libc=glibc,musl", "--target", "vm", "--why-max", expect=2)
    assert "--why-max needs a workload that measures wake-ups" in result.stderr
