# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the file's keys make of a run, before anything runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from swapstone.core.model import Experiment, UnavailableError
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.session import experiment as experiments
from swapstone.core.session.progress import NO_PROGRESS
from swapstone.core.session.run_options import RunOptions
from swapstone.parts.gate.gate_file import decode_gate
from swapstone.parts.gate.gate_result import Row, State
from swapstone.parts.gate.measured_runs import LEAST_INSTRUCTIONS, MeasuredRun, Place, lost_work, measure_once

FILE = """\
build = "make"
programs = ["prog"]
{}

[run.small]
command = "./prog"
{}
"""


@pytest.fixture
def used() -> list[RunOptions]:
    return []


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: list[RunOptions]) -> list[Experiment]:
    found: list[Experiment] = []

    def start(experiment: Experiment, *_: object, options: RunOptions, **__: object) -> Path:
        found.append(experiment)
        used.append(options)
        raise UnavailableError("Nothing runs here.")

    monkeypatch.setattr(experiments, "start", start)
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        shutil.copy(sys.executable, tmp_path / side / "prog")
    return found


def _measured(folder: Path, of_file: str, of_run: str, *, moved: bool = False) -> str:
    file = decode_gate(FILE.format(of_file, of_run).encode())
    options = RunOptions(sharing=RunSharing(store="file:///store"))
    place = Place((folder / "base", folder / "head"), folder, folder, file.machine(), options, NO_PROGRESS)
    (finding,) = measure_once("small", file.run["small"], file.limits("small"), place, moved=moved).findings
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


@pytest.mark.parametrize("kernel", ["", "rt"])
def test_what_is_worse_is_measured_at_other_addresses_without_the_store(
    tmp_path: Path, asked: list[Experiment], used: list[RunOptions], kernel: str
) -> None:
    hold = f'hold = {{ kernel = "{kernel}" }}' if kernel else ""
    _measured(tmp_path, 'fail = { syscalls = "0" }', hold)
    _measured(tmp_path, 'fail = { syscalls = "0" }', hold, moved=True)
    plain, moved = asked
    assert (plain.blocks, plain.held) == (2, (("kernel", kernel),) if kernel else ())
    assert (moved.blocks, moved.held) == (3, (("kernel", f"{kernel or 'generic'}+drop:norandmaps"),))
    assert [each.sharing.store for each in used] == ["file:///store", ""]


def _row(metric: str, state: State, detail: str = "") -> Row:
    return Row(
        run="small", metric=metric, detail=detail, unit="1", base=1e6, head=2e6, difference=1e6, floor=0.0, state=state
    )


@pytest.mark.parametrize("own", ["same", "fewer"])
def test_own_code_that_executes_no_more_at_other_addresses_is_not_worse(own: State) -> None:
    rest = (_row("faults", "worse"), _row("syscalls", "worse", "read"))
    found = MeasuredRun((_row("instructions", "worse"), _row("own_code", "worse"), _row("kernel", "same"), *rest), ())
    judged = found.confirmed_by(MeasuredRun((_row("instructions", "worse"), _row("own_code", own)), ()))
    assert [row.state for row in judged.rows] == ["more", "more", "same", "worse", "worse"]
    assert judged.note.startswith("small: instructions and own_code are not counted")
    for state in ("more", "worse"):
        assert found.confirmed_by(MeasuredRun((_row("own_code", state),), ())) is found
    assert found.confirmed_by(MeasuredRun((), ())) is found, "nothing was compared there"


def test_what_the_kernel_executes_more_is_worse_at_any_address() -> None:
    found = MeasuredRun((_row("instructions", "worse"), _row("own_code", "same"), _row("kernel", "more")), ())
    assert not found.by_own_code and not MeasuredRun((_row("time", "worse"),), ()).by_own_code


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
