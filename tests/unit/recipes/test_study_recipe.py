# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's study, added to a copy of the source: it is listed and it runs; a broken one is listed as such."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import fake
from tests.unit.recipes.extending import code_blocks, copy_source


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return the top of a copy of the source and the studies."""
    return copy_source(tmp_path / "copy").parent


def _swapstone(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "swapstone", *arguments],
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "SWAPSTONE_RECORDS": str(copy / "records")},
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
def test_the_study_of_the_recipe_is_listed_and_runs(copy: Path, tmp_path: Path) -> None:
    (block,) = code_blocks("Add a study")
    (copy / "studies" / "string-functions.toml").write_text(block)
    listed = {row["study"]: row for row in json.loads(_swapstone(copy, "list", "studies", "--json").stdout)["rows"]}
    assert (listed["string-functions"]["parts"], listed["string-functions"]["budget"]) == (2, "6 min 00 s")
    options = ("--target", fake(tmp_path), "--blocks", "6", "--out", str(tmp_path / "s"))
    result = _swapstone(copy, "study", "string-functions", *options)
    assert result.returncode == 0, result.stderr
    assert "2 parts: 2 complete." in result.stdout
    first, second = (
        json.loads((tmp_path / "s" / part / "experiment.json").read_text()) for part in ("default", "optimized")
    )
    assert [factor["factor"] for factor in first["factors"]] == ["libc"]
    assert [factor["factor"] for factor in second["factors"]] == ["libc", "optimization"]
    assert first["budget_ns"] * 2 == second["budget_ns"] == 240 * 10**9
    assert {name for _, name in first["workloads"]} == {name for _, name in second["workloads"]}
    assert all(name.startswith("b_string_str") for _, name in first["workloads"])


@pytest.mark.slow
def test_a_broken_study_of_the_recipe_leaves_the_list_whole(copy: Path) -> None:
    (block,) = code_blocks("Add a study")
    (copy / "studies" / "string-functions.toml").write_text(block.replace('budget = "4m"', "budget = 4"))
    result = _swapstone(copy, "list", "studies")
    assert result.returncode == 0, result.stderr
    assert "preempt-rt" in result.stdout and "key part[1].budget: Expected `str`, got `int`" in result.stdout
    run = _swapstone(copy, "study", "string-functions")
    assert run.returncode == 2 and 'Write for example: budget = "14m".' in run.stderr
