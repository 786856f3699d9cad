# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each part deleted in a copy of the source: plain comparisons work, and records made with the part are read with equal verdicts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import swapstone
from swapstone.core.manifests import shipped_parts
from tests.unit.recipes.extending import TOP, copy_source, run_python
from tests.unit.recipes.fake_record import SWAPSTONE, make_record

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree
PARTS = [part.name for part in shipped_parts()]
OF_RECORD = {"build", "published"}
"""The parts with which `make_record` makes its record: a factor and a suite."""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    return make_record(Path(swapstone.__file__).parents[1], folder)


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_the_rest_works(
    part: str, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(record.parent))
    whole = Path(swapstone.__file__).parents[1]
    source = copy_source(tmp_path / "copy")
    shutil.rmtree(source / "swapstone" / "parts" / part)
    (source.parent / "crates").symlink_to(TOP / "crates")
    assert "priority" in run_python(source, SWAPSTONE, "list", "factors")
    assert "features are available" in run_python(source, SWAPSTONE, "doctor")
    compared = run_python(
        *(source, SWAPSTONE, "compare", "/bin/true", "/bin/true x", "--blocks", "2", "--out", str(tmp_path / "own"))
    )
    assert "true x" in compared
    for command in (("show",), ("show", "--json"), ("verify",), ("export", "--format", "csv")):
        name, *options = command
        before = run_python(whole, SWAPSTONE, name, str(record), *options)
        after = run_python(source, SWAPSTONE, name, str(record), *options)
        if command == ("export", "--format", "csv"):
            assert after == before
        if command == ("show",):
            missing = f"Made with the part {part} "
            assert (missing in after) == (part in OF_RECORD)
            assert after.splitlines()[0] == before.splitlines()[0]
    count = "SELECT workload, metric, effect, verdict FROM comparisons ORDER BY ALL"
    before, after = (run_python(each, SWAPSTONE, "query", count, "--csv") for each in (whole, source))
    assert before == after
