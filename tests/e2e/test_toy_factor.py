"""CONTRIBUTING's factor is really added, as a reader would, and really observed."""

from __future__ import annotations

import collections
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import TOP, environment


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the file and the line of CONTRIBUTING.md."""
    text = (TOP / "CONTRIBUTING.md").read_text()
    file, line = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    top = tmp_path_factory.mktemp("toy")
    shutil.copytree(TOP / "src", top / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("native", "studies"):
        shutil.copytree(TOP / name, top / name)
    factors = top / "src" / "swapstone" / "factors"
    (factors / "priority.py").write_text(file)
    registry = (factors / "__init__.py").read_text()
    changed, times = re.subn(r"(FACTORS: tuple\[Factor, \.\.\.\] = \([^)]*?),?\s*\)", r"\1, PRIORITY)", registry)
    assert times == 1
    changed, times = re.subn(r"^(?=from swapstone\.model )", line, changed, flags=re.MULTILINE)
    assert times == 1
    (factors / "__init__.py").write_text(changed)
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
        "priority=normal,low",
        "--only",
        "b_string_strlen",
        "--blocks",
        "3",
        "--out",
        str(out),
    )
    assert result.returncode == 0, result.stderr
    assert "priority" in _run(copy, tmp_path, "list", "factors").stdout
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 8
    assert {run["status"] for run in runs} == {"ok"}
    assert {tuple(map(tuple, run["observed"])) for run in runs} == {(("priority", "normal"),), (("priority", "low"),)}
    nice = {run["trial"]["variant"]: dict(run["facts"])["nice"] for run in runs}
    assert nice == {"priority=normal": 0, "priority=low": 5}


def test_crossed_with_the_c_library_every_combination_runs(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    only = ("--only", "b_string_strlen", "--blocks", "2", "--out", str(out))
    result = _run(copy, tmp_path, "compare", "libc=glibc,musl", "priority=normal,low", *only)
    assert result.returncode == 0, result.stderr
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 12 and {run["status"] for run in runs} == {"ok"}
    assert len({run["trial"]["variant"] for run in runs}) == 4


@pytest.mark.slow
def test_crossed_factors_give_effects_and_an_interaction_in_every_form(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    only = ("--only", "b_string_strlen", "--blocks", "8", "--out", str(out))
    made = _run(copy, tmp_path, "compare", "libc=glibc,musl", "priority=normal,low", *only)
    assert made.returncode == 0, made.stderr
    assert re.search(r"(?m)^priority +normal +low +normal +low$", made.stdout), made.stdout
    assert "main effects" in made.stdout and "musl × low" in made.stdout  # noqa: RUF001 - a times sign
    assert "elapsed time, libc=musl,priority=low" not in made.stdout
    exported = _run(copy, tmp_path, "export", str(out), "--format", "effects")
    rows = [row for row in csv.DictReader(io.StringIO(exported.stdout)) if row["metric"] == "wall" and row["workload"]]
    assert collections.Counter(row["kind"] for row in rows) == {"main": 2, "simple": 4, "interaction": 1}
    assert {row["blocks"] for row in rows} == {"8"}
    assert all(0 < float(row["low"]) <= float(row["effect"]) <= float(row["high"]) for row in rows)
    sql = "SELECT change, changed_by, verdict, effect FROM effects WHERE kind = 'interaction' AND metric = 'wall' AND workload IS NOT NULL"
    environ = environment(tmp_path, PYTHONPATH=str(copy / "src"))
    command = [sys.executable, "-m", "swapstone", "query", sql, "--json"]
    (found,) = json.loads(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
    assert (found["change"], found["changed_by"]) == ("libc=musl", "priority=low")
    assert found["effect"] == float(rows[-1]["effect"]) and found["verdict"] in {"present", "absent", "undecided"}
    assert "Whole and unaltered" in _run(copy, tmp_path, "verify", str(out)).stdout


def test_a_factor_that_is_ignored_is_refused(copy: Path, tmp_path: Path) -> None:
    """Break the factor: it says it applies its level, and doesn't. The observation must catch it."""
    file = copy / "src" / "swapstone" / "factors" / "priority.py"
    honest = file.read_text()
    file.write_text(honest.replace("nice=_NICE[level]", "nice=0"))
    try:
        out = tmp_path / "r"
        result = _run(
            copy,
            tmp_path,
            "compare",
            "priority=normal,low",
            "--only",
            "b_string_strlen",
            "--blocks",
            "9",
            "--out",
            str(out),
        )
    finally:
        file.write_text(honest)
    assert result.returncode == 0, result.stderr
    assert "invalid" in result.stdout
    assert "priority=low was asked for, but normal was in force" in result.stdout
