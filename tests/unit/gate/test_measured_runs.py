# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the file's keys make of a run, before anything runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from swapstone.core.model import Experiment, UnavailableError
from swapstone.core.session import experiment as experiments
from swapstone.core.session.progress import NO_PROGRESS
from swapstone.core.session.run_options import DEFAULT_OPTIONS
from swapstone.parts.gate.gate_file import decode_gate
from swapstone.parts.gate.measured_runs import LEAST_INSTRUCTIONS, Place, lost_work, measure

FILE = """\
build = "make"
programs = ["prog"]
{}

[run.small]
command = "./prog"
{}
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    found: list[Experiment] = []

    def start(experiment: Experiment, **_: object) -> Path:
        found.append(experiment)
        raise UnavailableError("Nothing runs here.")

    monkeypatch.setattr(experiments, "start", start)
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        shutil.copy(sys.executable, tmp_path / side / "prog")
    return found


def _measured(folder: Path, of_file: str, of_run: str) -> str:
    file = decode_gate(FILE.format(of_file, of_run).encode())
    place = Place((folder / "base", folder / "head"), folder, folder, file.machine(), DEFAULT_OPTIONS, NO_PROGRESS)
    (finding,) = measure("small", file.run["small"], file.limits("small"), place).findings
    assert finding.finding == "not_compared"
    return finding.text


def test_a_level_is_held_only_where_it_is_written(tmp_path: Path, asked: list[Experiment]) -> None:
    _measured(tmp_path, 'fail = { syscalls = "0" }', 'hold = { kernel = "rt" }')
    _measured(tmp_path, 'fail = { syscalls = "0" }\narchitecture = "arm64"', 'budget = "1s"')
    held, plain = asked
    assert not plain.timed, "it gets its replicates"
    assert (held.target, held.virtual, held.blocks, held.held) == ("vm", True, 2, (("kernel", "rt"),))
    assert (plain.architecture, plain.held) == ("arm64", ())
    assert [(each.factor, each.levels) for each in held.factors] == [("command", ("base", "head"))]


def test_elapsed_time_is_of_this_machine_with_the_limit_as_margin(tmp_path: Path, asked: list[Experiment]) -> None:
    assert "Nothing runs here" in _measured(tmp_path, 'clock = "wall"\nfail = { time = "5%" }', 'budget = "20s"')
    (found,) = asked
    assert (found.target, found.virtual, found.margin, found.budget_ns) == ("host", False, 0.05, 20 * 10**9)


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (LEAST_INSTRUCTIONS, LEAST_INSTRUCTIONS, []),
        (LEAST_INSTRUCTIONS - 1, LEAST_INSTRUCTIONS, ["the base executes 99,999 instructions; a run needs 100,000"]),
        (LEAST_INSTRUCTIONS, 333, ["the head executes 333 instructions; a run needs 100,000"]),
        (4e6, 2e6, []),
        (4e6, 1.9e6, ["the head executes 1,900,000 instructions instead of 4,000,000: did it do the same work?"]),
    ],
)
def test_a_run_with_too_little_work_is_no_measure_of_a_change(before: float, after: float, texts: list[str]) -> None:
    found = [each.text.removeprefix("the own code of ") for each in lost_work("small", before, after)]
    assert found == texts
