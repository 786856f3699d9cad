# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of protocol words: generated files, versions and documentation agree with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from tools.generate_wire import TABLE, generated, problems

from swapstone.core.model import ObservationKind, environment_variable
from swapstone.core.targets.agent_build import build_agent
from swapstone.core.wire import ProcessOutcome, TrialRequest, decode_answers, encode_request
from swapstone.core.wire.protocol_words import (
    FACTS,
    FIGURES_HEADER,
    GUEST_WORDS,
    OBSERVATIONS,
    ORDER_WORDS,
    OUTCOMES,
    PLAN_WORDS,
)
from tests.shared import Shared
from tests.unit.wire.strategies import light, requests

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
    edit(copy, '    "nice": -20,', '    "nice": 0,', "src/swapstone/core/wire/protocol_words.py")
    assert problems(copy) == [
        "src/swapstone/core/wire/protocol_words.py is out of date: run tools/generate-wire --write"
    ]


def test_a_word_without_a_new_version_is_a_problem(copy: Path) -> None:
    edit(copy, '"observe", "run", "quit"', '"observe", "run", "quit", "pause"')
    edit(copy, "    quit  ", "    pause 5                     pause\n    quit  ", "docs/wire.md")
    regenerate(copy)
    assert problems(copy) == ["plan: its words are not those of version 6: raise `version` to 7"]


def test_a_word_without_its_line_in_the_document_is_a_problem(copy: Path) -> None:
    edit(copy, '"observe", "run", "quit"', '"observe", "run", "quit", "pause"')
    edit(copy, 'header = "swapstone-plan"\nversion = 6', 'header = "swapstone-plan"\nversion = 7')
    regenerate(copy)
    found = problems(copy)
    assert "plan: docs/wire.md has no line for the word `pause`" in found
    assert "plan: docs/wire.md has no line `swapstone-plan 7`" in found
    (line,) = [problem for problem in found if "is new; add" in problem]
    digest = re.search(r'`(7 = "[0-9a-f]{16}")`', line)
    assert digest
    text = (copy / TABLE).read_text()
    (copy / TABLE).write_text(re.sub(r'(?m)^(6 = "[0-9a-f]+")$', rf"\1\n{digest[1]}", text, count=1))
    document = (copy / "docs/wire.md").read_text()
    document = document.replace("swapstone-plan 6", "swapstone-plan 7")
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
    assert "agent: its words are not those of version 7: raise `version` to 8" in problems(copy)


def test_an_older_version_is_a_problem(copy: Path) -> None:
    edit(copy, 'header = "swapstone-plan"\nversion = 6', 'header = "swapstone-plan"\nversion = 2')
    regenerate(copy)
    assert "plan: version 2 is older than 6" in problems(copy)


def test_python_enumerations_have_the_words_of_the_table() -> None:
    assert [kind.value for kind in ObservationKind] == list(OBSERVATIONS)
    assert [ended.value for ended in ProcessOutcome] == list(OUTCOMES)
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


@light
@given(requests)
def test_a_plan_has_words_of_the_table_only(request: TrialRequest) -> None:
    assert {line.split(b" ")[0].decode() for line in encode_request(request).splitlines()} <= set(PLAN_WORDS)


def test_the_agent_takes_its_words_from_the_table() -> None:
    """A word that is written as text in C would escape the check of the version."""
    agent = TOP / "native" / "agent"
    keys = re.findall(r"(?m)^    \{(\w+), (?:parse_|\.need)", (agent / "plan.c").read_text())
    assert len(keys) == len(PLAN_WORDS) - 2, "all but run and quit"
    assert all(key.startswith("WORD_") for key in keys)
    written = re.findall(r'(?:put_\w+\(|text_print\(put_byte, )("[^"]*"|\w+)', (agent / "answer.c").read_text())
    texts = [text for text in written if text.startswith('"')]
    assert texts and not [text for text in texts if re.search("[a-z]", re.sub(r"\\n|%s|%lld", "", text))]


def test_the_guest_has_words_of_the_table_only() -> None:
    text = (TOP / "native" / "guest" / "init.c").read_text()
    words = set(re.findall(r'write_(?:file|counters|command_end)\("([a-z-]+)"', text))
    words |= set(re.findall(r'\[PORT_\w+\] = "([a-z-]+)"', text))
    assert words and words <= set(GUEST_WORDS)
    orders = set(re.findall(r'take_(?:text|number|line)\(&\w+, "([a-z-]+) "\)', text))
    assert orders == set(ORDER_WORDS)


def test_decoders_of_other_packages_read_the_current_version() -> None:
    """The package workloads may not import wire."""
    text = (TOP / "src/swapstone/core/workloads/named_figures.py").read_text()
    assert f"_HEADER = {FIGURES_HEADER!r}".replace("'", '"') in text


def test_the_example_of_the_document_is_valid(shared: Shared) -> None:
    """The plan is the left column and the answer the right one."""
    text = (TOP / "docs" / "wire.md").read_text()
    block = text[text.index("    swapstone-plan") :].partition("\n\n")[0].splitlines()
    (answer,) = decode_answers("".join(f"{line[40:]}\n" for line in block if line[40:]).encode())
    assert answer.observed == ((environment_variable("LC_ALL"), "C"),)
    plan = "".join(f"{line[4:40].strip()}\n" for line in block)
    agent = build_agent(shared.folder("agents", build_agent))
    result = subprocess.run([agent, "-"], input=plan.encode(), capture_output=True, check=True, timeout=60)
    (real,) = decode_answers(result.stdout)
    assert (real.id, real.outcome, real.observed) == (answer.id, answer.outcome, answer.observed)
