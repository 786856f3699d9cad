# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of protocol words: generated files, versions and documentation agree with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.generate_wire import TABLE, generated, problems

from swapstone.model import ObservationKind
from swapstone.wire import Ended
from swapstone.wire.words import FACTS, OBSERVATIONS, OUTCOMES

TOP = Path(__file__).parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of everything that the generator reads and writes."""
    for name in (TABLE, "docs/virtual-machines.md", *generated(TOP)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    return tmp_path


def edit(top: Path, old: str, new: str, name: str = TABLE) -> None:
    text = (top / name).read_text()
    assert text.count(old) == 1
    (top / name).write_text(text.replace(old, new))


def regenerate(top: Path) -> None:
    for name, text in generated(top).items():
        (top / name).write_text(text)


def test_the_generated_files_are_up_to_date() -> None:
    assert problems(TOP) == []


def test_an_edited_file_is_out_of_date(copy: Path) -> None:
    edit(copy, '    "nice": -20,', '    "nice": 0,', "src/swapstone/wire/words.py")
    assert problems(copy) == ["src/swapstone/wire/words.py is out of date: run tools/generate-wire"]


def test_a_word_without_a_new_version_is_a_problem(copy: Path) -> None:
    edit(copy, '"observe", "run", "quit"', '"observe", "run", "quit", "pause"')
    edit(copy, "    quit  ", "    pause 5                     pause\n    quit  ", "docs/wire.md")
    regenerate(copy)
    assert problems(copy) == ["plan: its words are not those of version 3: raise `version` to 4"]


def test_a_word_without_its_line_in_the_document_is_a_problem(copy: Path) -> None:
    edit(copy, '"observe", "run", "quit"', '"observe", "run", "quit", "pause"')
    edit(copy, 'header = "swapstone-plan"\nversion = 3', 'header = "swapstone-plan"\nversion = 4')
    regenerate(copy)
    found = problems(copy)
    assert "plan: docs/wire.md has no line for the word `pause`" in found
    assert "plan: docs/wire.md has no line `swapstone-plan 4`" in found
    (line,) = [problem for problem in found if "is new; add" in problem]
    digest = re.search(r'`(4 = "[0-9a-f]{16}")`', line)
    assert digest
    text = (copy / TABLE).read_text()
    (copy / TABLE).write_text(re.sub(r'(?m)^(3 = "[0-9a-f]+")$', rf"\1\n{digest[1]}", text, count=1))
    document = (copy / "docs/wire.md").read_text()
    document = document.replace("swapstone-plan 3", "swapstone-plan 4")
    (copy / "docs/wire.md").write_text(
        document.replace("    quit  ", "    pause 5                     pause\n    quit  ")
    )
    regenerate(copy)
    assert problems(copy) == []


@pytest.mark.parametrize("table", ["fact", "outcome", "observation"])
def test_a_name_without_a_new_version_is_a_problem(copy: Path, table: str) -> None:
    """Facts, outcomes and observations are words of the agent's answers too."""
    text = (copy / TABLE).read_text()
    entry = f'[[{table}]]\nname = "new"\nlowest = 0\ncodes = [0, 0]\ncode = "0"\nmeaning = "new"\n'
    (copy / TABLE).write_text(f"{text}\n{entry}")
    regenerate(copy)
    assert "agent: its words are not those of version 3: raise `version` to 4" in problems(copy)


def test_an_older_version_is_a_problem(copy: Path) -> None:
    edit(copy, 'header = "swapstone-plan"\nversion = 3', 'header = "swapstone-plan"\nversion = 2')
    regenerate(copy)
    assert "plan: version 2 is older than 3" in problems(copy)


def test_python_enumerations_have_the_words_of_the_table() -> None:
    assert [kind.value for kind in ObservationKind] == list(OBSERVATIONS)
    assert [ended.value for ended in Ended] == list(OUTCOMES)
    assert all(low <= high for low, high in OUTCOMES.values())
    assert FACTS["nice"] == -20 and FACTS["cpus_allowed"] == 1


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("native/workloads/harness.c", "swapstone-workload"),
        ("native/workloads/figures.h", "swapstone-figures"),
        ("crates/swapstone-net-bench/src/trial/figures.rs", "swapstone-figures"),
    ],
)
def test_programs_that_are_built_alone_print_the_current_version(source: str, header: str) -> None:
    """Workloads and crates don't include the generated header: they are built from their own folder."""
    versions = set(re.findall(rf"{header} (\d+)", (TOP / source).read_text()))
    current = re.search(rf'header = "{header}"\nversion = (\d+)', (TOP / TABLE).read_text())
    assert current and versions == {current[1]}
