# SPDX-License-Identifier: MIT OR Apache-2.0
"""A budget of the user that can't hold the pairs that an interval needs, or the blocks that are asked for, gives what it holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.e2e.cli import swapstone

COMMANDS = ("sleep 0.2", "sleep 0.22")


def test_a_short_budget_gives_medians_their_range_and_the_budget_of_verdicts(tmp_path: Path) -> None:
    result = swapstone(
        tmp_path, "compare", *COMMANDS, "--budget", "3s", "--out", "record", "--fail-if", "worse", expect=4
    )
    found = re.search(r"The (\d+) pairs that an interval needs take about", result.stderr)
    assert found is not None and "medians without intervals" in result.stderr
    assert "Exit status 4" in result.stderr and "few blocks" in result.stderr, "a gate does not pass on it"
    seal = json.loads((tmp_path / "record" / "seal.json").read_text())
    assert (seal["state"], seal["why"]) == ("complete", "the budget is spent")
    assert re.search(r"^elapsed time .* \([0-9.]+ to [0-9.]+ in \d pairs\)", result.stdout, re.MULTILINE)
    again = re.search(r"compare --resume record --budget (\d+)s", result.stdout)
    assert again is not None and int(again[1]) > 0.6 * int(found[1]), "the pairs that an interval needs, of 0.6 s each"


def test_a_budget_ends_a_number_of_blocks_and_a_longer_one_completes_it(tmp_path: Path) -> None:
    def ended(*arguments: str) -> tuple[str, int, str]:
        printed = swapstone(tmp_path, "compare", *arguments).stderr
        lines = (tmp_path / "record" / "runs.jsonl").read_text().splitlines()
        why = json.loads((tmp_path / "record" / "seal.json").read_text())["why"]
        return printed, max(json.loads(line)["run"]["trial"]["block"] for line in lines), why

    printed, blocks, why = ended(*COMMANDS, "--blocks", "12", "--budget", "2s", "--out", "record")
    assert "The 12 blocks that are asked for take about" in printed
    assert 0 < blocks < 12 and why == "the budget is spent", "12 blocks take 5 s or longer"
    swapstone(tmp_path, "verify", "record")
    _, blocks, why = ended("--resume", "record", "--budget", "1h")
    assert (blocks, why) == (12, "the requested number of blocks is reached")
