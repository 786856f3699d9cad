# SPDX-License-Identifier: MIT OR Apache-2.0
"""A budget of the user that can't hold the pairs that an interval needs ends the experiment after a block or two."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from tests.e2e.cli import swapstone

COMMANDS = ("sleep 0.2", "sleep 0.21")


def test_the_experiment_ends_soon_and_names_the_command_that_resumes_it(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", *COMMANDS, "--budget", "3s", "--seed", "1", "--out", "record", expect=2)
    found = re.search(r"the (\d+) pairs of runs that an interval needs take", result.stderr)
    assert found is not None and "The budget of 3 s is too small." in result.stderr
    seal = json.loads((tmp_path / "record" / "seal.json").read_text())
    assert seal["state"] == "interrupted"
    assert f"the budget of 3 s can't hold the {found[1]} pairs of runs that an interval needs" in seal["why"]
    runs = len((tmp_path / "record" / "runs.jsonl").read_text().splitlines())
    assert 1 <= runs <= 6  # a warm-up, and a block with discarded runs

    hint = result.stderr.splitlines()[-1].partition("What was measured is kept: ")[2]
    words = shlex.split(hint)
    assert words[:4] == ["swapstone", "compare", "--resume", "record"] and words[4] == "--budget"
    assert re.fullmatch(r"[0-9]+[smh]", words[5])
    assert "interrupted" in swapstone(tmp_path, "show", "record").stdout.lower()
