# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each part deleted in a copy of the source: plain comparisons work, and records made with the part are read with equal verdicts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import swapstone
from swapstone.core.manifests import shipped_parts
from tests.unit.recipes.extending import TOP, copy_source, run_python
from tests.unit.recipes.fake_record import make_record

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree
WHOLE = Path(swapstone.__file__).parents[1]
OF_RECORD = {"build", "published"}
"""The parts with which `make_record` makes its record: a factor and a suite."""
SHORT = {*OF_RECORD, "vm"}
"""The others, which no or few parts use, take an exhaustive run; tests/style/test_parts.py checks what each imports."""
PARTS = [
    pytest.param(part.name, marks=[] if part.name in SHORT else pytest.mark.exhaustive) for part in shipped_parts()
]

COMMANDS = """
import contextlib, io, json, sys
from swapstone.cli.main import main
printed = []
for sys.argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code, (sys.argv, end.code)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""
COUNT = "SELECT workload, metric, effect, verdict FROM comparisons ORDER BY ALL"


def printed(source: Path, *commands: tuple[str, ...]) -> list[str]:
    """Run commands in one process of a copy of the source; return what each prints."""
    outputs = json.loads(run_python(source, COMMANDS, json.dumps([["swapstone", *command] for command in commands])))
    assert isinstance(outputs, list)
    return outputs


def reading(record: Path) -> tuple[tuple[str, ...], ...]:
    """Return commands that read a record."""
    path = str(record)
    return (
        ("show", path),
        ("export", path, "--format", "csv"),
        ("query", COUNT, "--csv"),
        ("show", path, "--json"),
        ("verify", path),
    )


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWAPSTONE_RECORDS", str(folder))
        yield make_record(WHOLE, folder)


@pytest.fixture(scope="module")
def before(record: Path) -> list[str]:
    """Return what the whole program prints of the record."""
    return printed(WHOLE, *reading(record))


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_the_rest_works(part: str, record: Path, before: list[str], tmp_path: Path) -> None:
    source = copy_source(tmp_path / "copy")
    shutil.rmtree(source / "swapstone" / "parts" / part)
    (source.parent / "crates").symlink_to(TOP / "crates")
    compare = ("compare", "/bin/true", "/bin/true x", "--blocks", "2", "--out", str(tmp_path / "own"))
    factors, doctor, compared, *after = printed(source, ("list", "factors"), ("doctor",), compare, *reading(record))
    assert "priority" in factors
    assert "features are available" in doctor
    assert "true x" in compared
    assert after[1:3] == before[1:3]
    rows, rows_before = (json.loads(text)["analysis"]["comparisons"] for text in (after[3], before[3]))
    assert rows == rows_before
    if part in OF_RECORD:  # its samples can't be derived again
        assert "the same verdicts; 18 runs were not derived again" in after[4]
        assert f"18 runs: the part {part} " in after[4]
    else:
        assert after[4] == before[4] and "Whole and unaltered" in after[4]
    missing = f"Made with the part {part} "
    assert (missing in after[0]) == (part in OF_RECORD)
    assert after[0].splitlines()[0] == before[0].splitlines()[0]
