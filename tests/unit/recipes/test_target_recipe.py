# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's target, added to a copy of the source: it is opened by its name and passes the contract tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.recipes.extending import TOP, add_part, code_blocks, copy_source, run_python

SWAPSTONE = "import runpy; runpy.run_module('swapstone', run_name='__main__')"

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source and of the contract tests, with the files of docs/extending.md."""
    file, manifest = code_blocks("Add a target")
    top = tmp_path_factory.mktemp("copy")
    add_part(copy_source(top), "copied", file, manifest)
    (top / "tests").mkdir()
    for path in (TOP / "tests").glob("*.py"):
        shutil.copy(path, top / "tests")
    shutil.copytree(TOP / "tests" / "contract", top / "tests" / "contract")
    shutil.copy(TOP / "pyproject.toml", top)
    return top


def _contract(top: Path, tests: str = "copied") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", tests]
    environment = {**os.environ, "PYTHONPATH": f"{top / 'src'}:{top}"}
    return subprocess.run(
        [*command, "tests/contract/test_targets.py"],
        cwd=top,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_target_passes_the_contract_tests(copy: Path) -> None:
    result = _contract(copy)
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout and " failed" not in result.stdout and " skipped" not in result.stdout


def test_the_contract_tests_catch_a_target_that_breaks_it(copy: Path) -> None:
    """Paths of different lengths would move the stack of a process with the name of its variant."""
    file = copy / "src" / "swapstone" / "parts" / "copied" / "copied.py"
    text = file.read_text()
    broken = text.replace(
        "name = hashlib.sha256(super().put(path).encode()).hexdigest()",
        "name = path.name * len(list(self._programs.iterdir()))",
    )
    assert broken != text
    file.write_text(broken)
    try:
        result = _contract(copy, "copied and same_length")
    finally:
        file.write_text(text)
    assert result.returncode == 1
    assert "test_all_program_paths_have_the_same_length" in result.stdout


def test_the_target_is_measured_on(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    script = (copy / "src", SWAPSTONE, "compare", "libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2")
    run_python(*script, "--target", "copied", "--out", str(out))
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert runs and {run["status"] for run in runs} == {"ok"}
    assert json.loads((out / "experiment.json").read_text())["target"] == "copied"
    assert "copied" in run_python(copy / "src", SWAPSTONE, "compare", "--help")
