# SPDX-License-Identifier: MIT OR Apache-2.0
"""Studies on boards: what a part's board can't do is stated before the first part is measured, and boards are opened once for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import Experiment, UserError
from swapstone.core.session import study
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.study_boards import in_one_line
from swapstone.core.session.study_file import decode_study
from tests.fake_ssh import FakeSsh

STUDY = b"""
title = "Parts of a board"
question = "Which parts can it run?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
suites = ["libc"]
only = ["b_malloc_tiny1"]
blocks = 2
[[part]]
name = "first"
title = "On every board"
[[part]]
name = "other"
title = "On another architecture"
architecture = "OTHER"
[[part]]
name = "planted"
title = "With a load that needs a machine of its own"
suites = ["latency"]
only = ["wakeup"]
loads = ["planted"]
[[part]]
name = "kernels"
title = "With a factor that needs one"
factor = [{ name = "kernel", levels = ["generic", "rt"] }]
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Put a function that records its experiment in the place of the one that runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: list[str] = []

    def start(experiment: Experiment, out: Path, **_: object) -> Path:
        found.append(experiment.name.rpartition("/")[2])
        return out

    monkeypatch.setattr(study, "start", start)
    return found


def run(tmp_path: Path, target: str, *parts: str, other: str = "armhf") -> tuple[list[str], dict[str, study.PartState]]:
    """Run the study; return its lines and the states of its parts."""
    lines: list[str] = []
    content = STUDY.replace(b"OTHER", other.encode())
    planned = study.plan_study("mine", decode_study(content, "mine.toml"), only_parts=parts, seed=1, target=target)
    outcome = study.start_study(planned, tmp_path / "s", progress=LineProgress(lines.append))
    return lines, dict(outcome.states)


NEEDS = "The target ssh starts no machine of its own, and the {} needs one. Measure on --target vm"


def test_parts_that_the_board_can_t_run_are_named_before_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    ssh = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", ssh.path)
    lines, parts = run(tmp_path, "ssh:board", other="riscv64")
    assert started == ["first"] and parts["first"].state == study.COMPLETE
    reasons = {name: part.reason for name, part in parts.items() if part.state == study.UNAVAILABLE}
    assert list(reasons) == ["other", "planted", "kernels"]
    assert "runs no programs of riscv64" in reasons["other"]
    assert reasons["planted"].startswith(NEEDS.format("load planted"))
    assert reasons["kernels"].startswith(NEEDS.format("factor kernel"))
    assert reasons["kernels"].endswith("a lab whose strategy boots kernels: --target labgrid:PLACE")
    begin = next(number for number, line in enumerate(lines) if "first" in line and "art 1 of 4" in line)
    early = "\n".join(lines[:begin])
    for name, reason in reasons.items():
        assert f"Note: the part {name} is unavailable: {reason}" in early
    assert ssh.called().count("ControlMaster=yes") == 1, "one connection for all parts"


def test_a_board_that_is_not_reached_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    ssh = FakeSsh(tmp_path / "board")
    (ssh.folder / "down").touch()
    monkeypatch.setenv("PATH", ssh.path)
    _, parts = run(tmp_path, "ssh:board")
    assert started == [] and {part.state for part in parts.values()} == {study.UNAVAILABLE}
    assert all("Connection refused. This must work" in parts[name].reason for name in ("first", "other"))
    assert ssh.called().count("ControlMaster=yes") == 1


def test_a_part_alone_and_other_targets_are_opened_when_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    ssh = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", ssh.path)
    run(tmp_path, "ssh:board", "first")
    assert started == ["first"] and not (ssh.folder / "called").exists()


def test_a_reason_is_sentences_in_one_line() -> None:
    assert in_one_line(UserError("It failed", "Do this: x")) == "It failed. Do this: x"
    assert in_one_line(UserError("It failed.", "Do this: x")) == "It failed. Do this: x"
    assert in_one_line(UserError("It failed")) == "It failed"
