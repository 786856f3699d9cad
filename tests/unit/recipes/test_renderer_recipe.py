# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's renderer, added to a copy of the source: it prints every block of a report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.recipes.extending import code_blocks, copy_source, run_python
from tests.unit.recipes.fake_record import SWAPSTONE, make_record

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the file and the line of docs/extending.md."""
    file, line = code_blocks("Add a report renderer")
    source = copy_source(tmp_path_factory.mktemp("copy"))
    render = source / "swapstone" / "core" / "report" / "render"
    (render / "org.py").write_text(file)
    text, times = re.subn(r"(?m)^(RENDERERS: .*\n(?:    .*\n)*)", rf"\g<1>{line}", (render / "__init__.py").read_text())
    assert times == 1
    (render / "__init__.py").write_text(text)
    return source


@pytest.fixture(scope="module")
def record(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_record(source, tmp_path_factory.mktemp("record"))


def test_the_renderer_of_the_recipe_prints_a_report(source: Path, record: Path) -> None:
    made = run_python(source, SWAPSTONE, "report", str(record), "--format", "org")
    assert made.startswith("#+TITLE: libc: musl against glibc\n")
    assert "\n* libc: musl against glibc\n" in made and "\n** Elapsed time\n" in made
    rows = [line for line in made.splitlines() if line.startswith("| b_string_strlen | 1 ms | 1.50 ms |")]
    assert rows and rows[0].endswith("| worse |") and "| 1.500 |" in rows[0]
    assert made.splitlines()[1] == "musl takes 1.5 times as long as glibc on b_string_strlen."
    assert f"swapstone rerun {record}" in made
    assert "--format" in run_python(source, SWAPSTONE, "report", "--help")
    assert "org: Org mode" in " ".join(run_python(source, SWAPSTONE, "report", "--help").split())


def test_the_python_api_has_the_format_too(source: Path, record: Path) -> None:
    script = "import sys, swapstone; print(swapstone.load(sys.argv[1]).report('org'))"
    assert run_python(source, script, str(record)).startswith("#+TITLE: ")


def test_an_unknown_format_is_refused(source: Path, record: Path) -> None:
    script = """
import sys
from swapstone.core.model import UserError
from swapstone.core.session.record_handle import open_record
try:
    open_record(sys.argv[1]).report("orgg")
except UserError as error:
    print(error.message, error.hint)
"""
    assert "There is no format 'orgg'. The formats are " in run_python(source, script, str(record))
