# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's topic, added to a copy of the source: every renderer and both exports have its section."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.recipes.extending import add_part, code_blocks, copy_source, run_python
from tests.unit.recipes.fake_record import SWAPSTONE, make_record

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the files of docs/extending.md."""
    file, manifest = code_blocks("Add a report topic")
    source = copy_source(tmp_path_factory.mktemp("copy"))
    add_part(source, "load_counts", file, manifest)
    return source


@pytest.fixture(scope="module")
def record(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_record(source, tmp_path_factory.mktemp("record"))


@pytest.mark.parametrize("format_name", ["text", "markdown", "document-json"])
def test_a_renderer_prints_the_section(source: Path, record: Path, format_name: str) -> None:
    assert "Comparisons by load" in run_python(source, SWAPSTONE, "report", str(record), "--format", format_name)


def test_a_page_and_the_machine_readable_reports_have_its_table(source: Path, record: Path) -> None:
    page = run_python(source, SWAPSTONE, "report", str(record), "--html", "--out", "-")
    assert '<section id="section-load-counts" class="data">' in page
    count = len(json.loads(run_python(source, SWAPSTONE, "show", str(record), "--json"))["analysis"]["comparisons"])
    (found,) = json.loads(run_python(source, SWAPSTONE, "show", str(record), "--json"))["exhibits"]
    assert (found["name"], found["data"]) == ("load-counts", [{"load": "idle", "comparisons": count}])
    exported = run_python(source, SWAPSTONE, "export", str(record), "--format", "exhibits")
    assert f"load-counts,1,comparisons,{count}\n" in exported
