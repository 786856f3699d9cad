# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's factor, added to a copy of the source: its environment variable is observed in the process that ran."""

from __future__ import annotations

import collections
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import environment
from tests.unit.recipes.extending import add_part, code_blocks, copy_source

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the files of docs/extending.md."""
    file, manifest = code_blocks("Add a factor")
    top = tmp_path_factory.mktemp("copy")
    add_part(copy_source(top), "arenas", file, manifest)
    return top


def _run(copy: Path, records: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "swapstone", *arguments],
        env=environment(records, PYTHONPATH=str(copy / "src")),
        cwd=records,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_added_factor_is_compared_and_observed(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    result = _run(
        copy,
        tmp_path,
        "compare",
        "arenas=eight,one",
        "--only",
        "b_string_strlen",
        "--blocks",
        "3",
        "--out",
        str(out),
    )
    assert result.returncode == 0, result.stderr
    assert "arenas" in _run(copy, tmp_path, "list", "factors").stdout
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 8
    assert {run["status"] for run in runs} == {"ok"}
    assert {tuple(map(tuple, run["observed"])) for run in runs} == {(("arenas", "eight"),), (("arenas", "one"),)}


def test_the_level_that_the_process_shows_is_observed(copy: Path, tmp_path: Path) -> None:
    """The program is a script that executes another with the variable changed: the evidence is what ran last."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexport MALLOC_ARENA_MAX=1\nexec /usr/bin/true\n")
    script.chmod(0o755)
    out = tmp_path / "r"
    options = ("--blocks", "3", "--out", str(out))
    result = _run(copy, tmp_path, "compare", "arenas=eight,one", *options, "--", str(script))
    assert result.returncode == 4
    assert "arenas=eight was requested, but one was in force in the process that ran" in result.stderr
    assert "env MALLOC_ARENA_MAX = '1'" in result.stderr


def test_crossed_factors_give_effects_and_an_interaction_in_every_form(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    only = ("--only", "b_string_strlen", "--blocks", "8", "--correction", "family", "--out", str(out))
    made = _run(copy, tmp_path, "compare", "libc=glibc,musl", "arenas=eight,one", *only)
    assert made.returncode == 0, made.stderr
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert {run["status"] for run in runs} == {"ok"}
    assert len({run["trial"]["variant"] for run in runs}) == 4
    assert made.stdout.count("\n") <= 40 and "main effects" not in made.stdout
    whole = _run(copy, tmp_path, "show", str(out), "--all").stdout
    assert re.search(r"(?m)^arenas +eight +one +eight +one$", whole), whole
    assert "main effects" in whole and "musl × one" in whole  # noqa: RUF001 - a times sign
    exported = _run(copy, tmp_path, "export", str(out), "--format", "effects")
    rows = [row for row in csv.DictReader(io.StringIO(exported.stdout)) if row["metric"] == "wall" and row["workload"]]
    assert collections.Counter(row["kind"] for row in rows) == {"main": 2, "simple": 4, "interaction": 1}
    # A check excludes a variant whose runs something disturbed, as on a busy machine: its rows have no blocks, and a reason.
    judged = [row for row in rows if row["blocks"] != "0"]
    assert judged and {row["blocks"] for row in judged} == {"8"}
    assert all(row["reason"] for row in rows if row not in judged)
    assert all(0 < float(row["low"]) <= float(row["effect"]) <= float(row["high"]) for row in judged)
    sql = "SELECT change, changed_by, verdict, effect FROM effects WHERE kind = 'interaction' AND metric = 'wall' AND workload IS NOT NULL"
    environ = environment(tmp_path, PYTHONPATH=str(copy / "src"))
    command = [sys.executable, "-m", "swapstone", "query", sql, "--json"]
    (found,) = json.loads(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)[
        "rows"
    ]
    assert (found["change"], found["changed_by"]) == ("libc=musl", "arenas=one")
    assert found["verdict"] == rows[-1]["verdict"]
    if rows[-1] in judged:
        assert found["effect"] == float(rows[-1]["effect"]) and found["verdict"] in {"present", "absent", "undecided"}
    assert "Whole and unaltered" in _run(copy, tmp_path, "verify", str(out)).stdout


def test_a_factor_that_is_ignored_is_refused(copy: Path, tmp_path: Path) -> None:
    """The factor applies another level than the one it is given. The observation must reveal it."""
    file = copy / "src" / "swapstone" / "parts" / "arenas" / "arenas.py"
    honest = file.read_text()
    file.write_text(honest.replace("_VALUES[level])", '_VALUES["eight"])'))
    try:
        out = tmp_path / "r"
        result = _run(
            copy,
            tmp_path,
            "compare",
            "arenas=eight,one",
            "--only",
            "b_string_strlen",
            "--blocks",
            "9",
            "--out",
            str(out),
        )
    finally:
        file.write_text(honest)
    assert result.returncode == 4, result.stderr
    assert "invalid" in result.stdout
    assert "arenas=one was requested, but eight was in force" in result.stdout
