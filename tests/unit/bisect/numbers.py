# SPDX-License-Identifier: MIT OR Apache-2.0
"""A repository whose program is a file of numbers, and whose run executes their sum: bisections of it start no machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.session.progress import Progress
from swapstone.parts.bisect.bisect import BisectOptions, BisectResult, Range, run_bisect
from swapstone.parts.gate import measured_runs
from swapstone.parts.gate.gate_file import RunKeys
from swapstone.parts.gate.measured_runs import Counted, Place
from tests.unit.gate.repositories import SmallRepository

FILE = """\
build = "printf '%-80s' \\"$(cat a b c)\\" >prog"
programs = ["prog"]
paths = ["a", "b", "c"]
data = "bench"
fail = { syscalls = "0" }

[run.one]
command = "./prog {data}/small"
"""
SAME = {"rep_turns": 0, "kernel_instructions": 1_000_000, "page_faults": 40, "calls.read": 3}


class Notes(Progress):
    """Keeps the notes; raises as Ctrl-C does at the note with a number."""

    def __init__(self, stop: int = 0) -> None:
        self.lines: list[str] = []
        self._stop = stop

    def note(self, text: str) -> None:
        self.lines.append(text)
        if len(self.lines) == self._stop:
            raise KeyboardInterrupt


def measured(name: str, run: RunKeys, place: Place, folder: Path) -> Counted:
    """Return the sum of the numbers in the program as its instructions; it crashes if one is negative."""
    assert (name, run.command, folder.exists()) == ("one", "./prog {data}/small", False)
    assert (place.data / "small").read_text() == "300000\n"
    numbers = [int(word) for word in (place.trees[0] / "prog").read_text().split()]
    if min(numbers) < 0:
        return Counted(error="it crashes")
    return Counted(({"instructions": sum(numbers), **SAME},) * 2, {"qemu": "7"})


def numbers_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SmallRepository:
    """Return the repository, with a tag ``start``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setattr(measured_runs, "measure_alone", measured)
    made = SmallRepository(folder / "small")
    made.commit("start", a="10000000\n", b="0\n", c="0\n", **{"swapstone.toml": FILE})
    made.git("tag", "start")
    return made


def bisect(
    small: SmallRepository, text: str = "start..HEAD", notes: Notes | None = None, **options: bool
) -> BisectResult:
    """Bisect a range of it."""
    how = BisectOptions(trust=True, every=options.get("every", False), into_merge=options.get("into_merge", False))
    return run_bisect(Range(small.folder, text), how, notes or Notes())
