# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain RECORD max`: a kernel module that disables interrupts for 2 ms is named as the path of the worst wake-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.cli import swapstone

PLANTED = ["planted", "planted"]


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/contract/test_vm_plugin.py records blocks, tests/unit/instruments/test_wakeup_path.py makes paths of them
def test_the_planted_module_is_the_path(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("kernel=generic,rt", "--suite", "latency", "--load", "planted", "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    explained = swapstone(tmp_path, "explain", str(record), "max", "--load", "planted", "--json")
    found = json.loads(explained.stdout)["traced"]
    for side in found["sides"]:
        assert side["disabled"]["modules"] == PLANTED
        assert 2_000_000 <= side["disabled"]["instructions"] < 2_001_000
        assert side["phases"][0] >= 0.9 * side["instructions"]
        assert side["latency_ns"] // 1000 * 1000 == side["instructions"]
    markdown = swapstone(tmp_path, "explain", str(record), "max", "--markdown").stdout
    assert "planted" in markdown
    assert r"with interrupts disabled by run\_thread (planted)" in " ".join(markdown.split())
    shown = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert "(planted)" in " ".join(shown.split())
    pages = {path.name for path in (record / "explain").glob("*/*")}
    assert pages >= {"wakeups.json", "explanation.md", "explanation.html", "instructions-difference.html"}
