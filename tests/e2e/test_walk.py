# SPDX-License-Identifier: MIT OR Apache-2.0
"""ARCHITECTURE's walk of one trial: its functions exist, each once, and a comparison calls them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import swapstone

pytestmark = pytest.mark.quick
TOP = Path(__file__).parents[2]
SOURCE = TOP / "src" / "swapstone"


def _walk() -> list[tuple[str, str]]:
    """Return (file, function) of each step."""
    text = (TOP / "ARCHITECTURE.md").read_text().partition("## A walk:")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| `([^:`]+): ([^`]+)` \|", text, re.MULTILINE)


@contextmanager
def _calls() -> Iterator[set[tuple[str, str]]]:
    """Collect (file, function) of each call in Swapstone's source."""
    called: set[tuple[str, str]] = set()
    before, below = sys.getprofile(), f"{SOURCE}/"

    def collect(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(below):
            called.add((frame.f_code.co_filename.removeprefix(below), frame.f_code.co_qualname))

    threading.setprofile(collect)
    sys.setprofile(collect)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


def test_no_function_occurs_twice() -> None:
    walk = _walk()
    assert len(walk) > 30
    assert len(set(walk)) == len(walk)


def test_functions_outside_python_exist() -> None:
    native = [(file, function) for file, function in _walk() if file.startswith("native/")]
    assert native
    for file, function in native:
        assert re.search(rf"\b{function}\(", (TOP / file).read_text()), f"{file}: {function}"


@pytest.mark.slow
def test_a_comparison_calls_every_function(tmp_path: Path) -> None:
    with _calls() as called:
        record = swapstone.compare(
            swapstone.Workloads(only=["b_malloc_tiny1"]),
            swapstone.Measuring(blocks=2, seed=1),
            libc=["glibc", "musl"],
            out=tmp_path / "record",
        )
        record.report()
    wanted = {step for step in _walk() if not step[0].startswith("native/")}
    assert wanted - called == set()
