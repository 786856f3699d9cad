# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's part, taken out of a copy of the source and put back: its folder is all that there is of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.unit.recipes.extending import TOP, copy_source, run_python

pytestmark = pytest.mark.slow  # each test starts the program of a copied tree

FOLDER = Path("swapstone/parts/fs")
LISTED = """
import json
from swapstone.core.factors import all_factors
from swapstone.core.report.topics import all_topics
from swapstone.core.session.study_file import load_study, study_names
from swapstone.core.workloads import all_suites
print(json.dumps({
    "factors": [factor.name for factor in all_factors()],
    "suites": [suite.name for suite in all_suites()],
    "studies": [load_study(name).title and name for name in study_names()],
    "topics": [topic.name for topic in all_topics()],
}))
"""


def _files() -> list[str]:
    """Return the files that the section's table names."""
    text = (TOP / "docs" / "extending.md").read_text()
    (section,) = (part for part in re.split(r"(?m)^## ", text) if part.startswith("Add a part: one folder"))
    return re.findall(r"(?m)^\| `([\w./]+)` \|", section)


def test_the_page_names_each_file_of_the_folder() -> None:
    folder = TOP / "src" / FOLDER
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert sorted(_files()) == sorted(path.relative_to(folder).as_posix() for path in found)


def test_the_files_are_the_whole_part(tmp_path: Path) -> None:
    source = copy_source(tmp_path)
    shutil.rmtree(source / FOLDER)
    without = json.loads(run_python(source, LISTED))
    for name in _files():
        place = source / FOLDER / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / "src" / FOLDER / name, place)
    whole = json.loads(run_python(source, LISTED))
    added = {kind: sorted(set(names) - set(without[kind])) for kind, names in whole.items()}
    assert added == {kind: ["fs"] for kind in whole}


def test_nothing_outside_the_folder_imports_it() -> None:
    """What else has its name is documentation, tests, and the packages of its tools."""
    files = (path for path in (TOP / "src").rglob("*.py") if (TOP / "src" / FOLDER) not in path.parents)
    assert [path for path in files if "parts.fs" in path.read_text() or "parts/fs" in path.read_text()] == []
