# SPDX-License-Identifier: MIT OR Apache-2.0
"""The language rules of CONTRIBUTING.md: words that don't occur in clean folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.excluded_words import findings, is_prose

TOP = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not (TOP / ".git").exists(), reason="not a git checkout")

CLEAN = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "benchmarks",
    "docs/commands.md",
    "docs/explain-instruments.md",
    "docs/explain-vm.md",
    "docs/explain-wakeup.md",
    "docs/explain.md",
    "docs/factors.md",
    "docs/fake-target.md",
    "docs/faq.md",
    "docs/images.md",
    "docs/index.md",
    "docs/latency-report.md",
    "docs/latency.md",
    "docs/measurements",
    "docs/own-program-vm.md",
    "docs/own-program.md",
    "docs/servers.md",
    "docs/stability.md",
    "docs/statistics.md",
    "docs/swap.md",
    "docs/testing.md",
    "docs/tutorial.md",
    "docs/virtual-machine-processors.md",
    "docs/workloads-libc.md",
    "docs/workloads-system.md",
    "docs/workloads.md",
    "src/swapstone/parts/build/artifacts",
    "src/swapstone/core/comparison",
    "src/swapstone/parts/explain/explanation",
    "src/swapstone/parts/explain/instruments",
    "src/swapstone/core/model",
    "src/swapstone/core/plan",
    "src/swapstone/parts/published",
    "src/swapstone/core/record",
    "src/swapstone/core/report",
    "src/swapstone/core/run",
    "src/swapstone/core/stats",
    "src/swapstone/core/workloads",
    "tests/faults",
    "tests/unit/artifacts",
    "tests/unit/benchmarks",
    "tests/unit/comparison",
    "tests/unit/explanation",
    "tests/unit/factors",
    "tests/unit/instruments",
    "tests/unit/plan",
    "tests/unit/published",
    "tests/unit/recipes",
    "tests/unit/record",
    "tests/unit/report",
    "tests/unit/stats",
    "tests/unit/run",
    "tests/unit/wire",
    "tests/unit/workloads",
    "tools",
)
"""Folders, or files, without excluded words. Add a folder once it is clean; never remove one."""

ALLOWED = {
    ("tests/unit/explanation/test_time_split.py", "mend"): "the name of a field on disk",
    ("src/swapstone/parts/explain/model/explanation.py", "mend"): "the name of a field on disk",
}
"""Pairs (file, pattern) that may occur, with the reason."""


def _tracked(*places: str) -> list[str]:
    output = subprocess.run(["git", "ls-files", "-z", *places], cwd=TOP, capture_output=True, text=True, check=True)
    return [path for path in output.stdout.split("\0") if path and is_prose(path)]


def test_clean_folders_have_no_excluded_words() -> None:
    paths = {place: _tracked(place) for place in CLEAN}
    assert [place for place, found in paths.items() if not found] == [], "they have no text files"
    found = [
        f"{path}:{number}: {text!r} (pattern {name!r})"
        for path in sorted(set().union(*paths.values()))
        for number, name, text in findings((TOP / path).read_text())
        if (path, name) not in ALLOWED
    ]
    assert not found, "\n".join(found)


def test_every_exception_is_needed() -> None:
    for path, name in ALLOWED:
        assert name in {found for _, found, _ in findings((TOP / path).read_text())}, (path, name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Nobody uses it.", "nobody"),
        ("somebody else", "somebody"),
        ("for whoever reads it", "whoever"),
        ("a path that cannot be is not believed", "believe"),
        ("the program knows it", "know"),
        ("the user wants it", "want"),
        ("the lock says so", "say"),
        ("said = run()", "say"),
        ("it tells the user", "tell"),
        ("a program of the user's own", "the user's own"),
        ("only near is asked", "is asked"),
        ("a command that would mend it", "mend"),
    ],
)
def test_excluded_words_are_found(text: str, name: str) -> None:
    assert (1, name) in {(number, found) for number, found, _ in findings(text)}


def test_other_words_are_not_found() -> None:
    text = "wanted = known[name]\nan unknown option\nthe essay of an amended teller\nof its own\n"
    assert list(findings(text)) == []
