# SPDX-License-Identifier: MIT OR Apache-2.0
"""A part from elsewhere adds a factor, a kind of work and a target without a change of the program; its records outlive it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
COMPARE = ("compare", "shade=dark,pale", "--suite", "planks", "--target", "workshop", "--blocks", "14", "--seed", "1")


def _install(folder: Path, provides: str = "") -> Path:
    """Install the part into a folder, as pip does: its package, and the entry point of its manifest."""
    shutil.copytree(TOP / "tests" / "outside_part" / "planks", folder / "planks")
    if provides:
        manifest = folder / "planks" / "__init__.py"
        manifest.write_text(manifest.read_text().replace('"planks.shade:SHADE"', provides))
    info = folder / "planks-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planks\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[swapstone.parts]\nplanks = planks:PART\n")
    return folder


def _swapstone(records: Path, *arguments: str, part: Path | None = None, expect: int = 0) -> str:
    paths = [str(TOP / "src"), *([str(part)] if part else [])]
    environment = {**os.environ, "PYTHONPATH": ":".join(paths), "SWAPSTONE_RECORDS": str(records)}
    command = [sys.executable, "-P", "-m", "swapstone", *arguments]
    done = subprocess.run(command, env=environment, cwd=records, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout if expect == 0 else done.stderr


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _install(tmp_path_factory.mktemp("part"))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory, part: Path) -> Path:
    """The root of a record that was made with the part."""
    folder = tmp_path_factory.mktemp("records")
    _swapstone(folder, *COMPARE, "--out", "made", part=part)
    return folder


def test_what_a_part_provides_is_listed(tmp_path: Path, part: Path) -> None:
    for kind, name in (
        ("factors", "shade"),
        ("suites", "planks"),
        ("workloads", "planks-lines"),
        ("targets", "workshop"),
    ):
        assert name in _swapstone(tmp_path, "list", kind, part=part)
        assert name not in _swapstone(tmp_path, "list", kind)


def test_a_part_reads_the_files_of_programs(tmp_path: Path, part: Path) -> None:
    text = (
        "import sys; from planks.segments import Segments; from swapstone.core.factors import read_facts; "
        "print(read_facts(sys.executable).of(Segments).count)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{TOP / 'src'}:{part}"}
    command = [sys.executable, "-P", "-c", text]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 1


def test_a_part_goes_through_compare_show_export_rerun_and_resume(records: Path, part: Path) -> None:
    shown = _swapstone(records, "show", "made", "--all", part=part)
    assert "lines" in shown and "2.000" in shown and "not installed" not in shown
    rows = json.loads(_swapstone(records, "export", "made", "--format", "json", part=part))["analysis"]["comparisons"]
    lines = next(row for row in rows if row["metric"]["name"] == "lines")
    assert (lines["workload"], lines["verdict"], lines["effect"]) == ("planks-lines", "worse", 2.0)
    _swapstone(records, "rerun", "made", "--out", "again", part=part)
    assert "agree" in _swapstone(records, "agree", "made", "again", part=part)
    assert "30 of 30 runs with samples were derived again" in _swapstone(records, "verify", "again", part=part)
    (records / "again" / "seal.json").unlink()  # as after a kill
    runs = records / "again" / "runs.jsonl"
    runs.write_bytes(b"".join(runs.read_bytes().splitlines(keepends=True)[:-2]))
    _swapstone(records, "compare", "--resume", "again", part=part)
    assert len(runs.read_bytes().splitlines()) == 30


def test_a_record_is_read_without_its_part(records: Path, part: Path) -> None:
    with_part, without = (_swapstone(records, "show", "made", "--all", part=each) for each in (part, None))
    assert with_part.splitlines()[0] == without.splitlines()[0]
    assert "Made with the part planks 1.2, which is not installed here" in " ".join(without.split())
    csv = [_swapstone(records, "export", "made", "--format", "csv", part=each) for each in (part, None)]
    assert csv[0] == csv[1] and "planks-lines" in csv[0]
    verified = _swapstone(records, "verify", "made")
    assert verified.startswith("Unaltered, ") and "the same verdicts; 30 runs were not derived again." in verified
    assert "Not derived: 30 runs: the part planks 1.2 is not installed." in verified
    assert "planks-lines" in _swapstone(records, "query", "SELECT DISTINCT workload FROM comparisons")
    assert "workshop" in _swapstone(records, "rerun", "made", "--out", "never", expect=2)


@pytest.mark.parametrize(
    ("provides", "problem"),
    [
        ('"planks.absent:SHADE"', "planks.absent:SHADE: ModuleNotFoundError: No module named 'planks.absent'"),
        (
            '"planks.shade:ABSENT"',
            "planks.shade:ABSENT: AttributeError: module 'planks.shade' has no attribute 'ABSENT'",
        ),
        ('"planks:PART"', "planks:PART is no Factor"),
    ],
)
def test_a_broken_part_is_named(tmp_path: Path, provides: str, problem: str) -> None:
    part = _install(tmp_path / "part", provides)
    error = _swapstone(tmp_path, "list", "factors", part=part, expect=2)
    assert error.startswith(f"error: The part planks can't be used: {problem}")
    assert "remove it" in error and "Traceback" not in error


def test_a_misspelled_attribute_of_a_factor_is_named(tmp_path: Path) -> None:
    part = _install(tmp_path / "part")
    file = part / "planks" / "shade.py"
    file.write_text(file.read_text().replace("observes = ", "observs = "))
    error = _swapstone(tmp_path, "list", "factors", part=part, expect=2)
    assert error.startswith("error: There is no attribute of the factor shade named 'observs'.")
    assert "Did you mean 'observes'" in error
