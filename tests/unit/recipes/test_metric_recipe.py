# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's metric, added to a copy of the source: it is measured, compared, reported and exported."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from tests.unit.recipes.extending import code_blocks, copy_source, run_python

SWAPSTONE = "import runpy; runpy.run_module('swapstone', run_name='__main__')"
SPEC = """
[[behaviour]]
wall_ns = 1_000_000
pressure = 0.1
[[behaviour]]
variant = "libc=musl*"
pressure = 0.3
"""

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree


@pytest.fixture
def record(tmp_path: Path) -> tuple[Path, Path]:
    """Return a copy of the source with the recipe's entry, and a record made with it on the fake target."""
    source = copy_source(tmp_path)
    registry = source / "swapstone" / "core" / "workloads" / "metrics.py"
    (entry,) = code_blocks("Add a metric")
    pattern = r"(FROM_AGENT: tuple\[AgentMetric, \.\.\.\] = \()(.*)\)$"
    changed, times = re.subn(pattern, rf"\1\2\n{entry})", registry.read_text(), flags=re.MULTILINE)
    assert times == 1
    registry.write_text(changed)
    (tmp_path / "spec.toml").write_text(SPEC)
    run_python(
        *(source, SWAPSTONE, "compare", "libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "8"),
        *("--target", f"fake:{tmp_path / 'spec.toml'}", "--out", str(tmp_path / "r")),
    )
    return source, tmp_path / "r"


def test_the_metric_of_the_recipe_is_compared_and_shown(record: tuple[Path, Path]) -> None:
    source, path = record
    exported = run_python(source, SWAPSTONE, "export", str(path), "--format", "csv")
    rows = [row for row in csv.DictReader(io.StringIO(exported)) if row["metric"] == "cpu_pressure"]
    assert len(rows) == 1
    assert rows[0]["unit"] == "ns" and rows[0]["better"] == "lower"
    assert float(rows[0]["effect"]) == pytest.approx(3.0, rel=0.01)
    assert float(rows[0]["candidate_median"]) > 100_000  # ns, by the scale of the entry
    assert "cpu_pressure" in run_python(source, SWAPSTONE, "show", str(path), "--metric", "cpu_pressure")
    assert "cpu_pressure" in run_python(source, SWAPSTONE, "show", str(path), "--all")
