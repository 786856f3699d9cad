# SPDX-License-Identifier: MIT OR Apache-2.0
"""The null comparisons of the benchmark of false alarms: which are made, which are kept, and what a refusal does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks import null_comparisons
from benchmarks.null_comparisons import KINDS, measure


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace the programs: a comparison makes its folder, or is refused if it is one of files."""
    commands: list[list[str]] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(list(command))
        if "sort" in command:
            return subprocess.CompletedProcess(command, 2, "", "error: The budget of 15 s is too small.")
        if "loop:2000" in command:
            return subprocess.CompletedProcess(command, 2, "", "error: another one")
        Path(command[command.index("--out") + 1]).mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(null_comparisons, "build", lambda scratch: scratch / "adversary")
    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_the_kinds_take_turns_and_what_exists_is_kept(ran: list[list[str]], tmp_path: Path) -> None:
    names = [path.name for path in measure(tmp_path, 4, ["idle"], 15)]
    assert names == ["idle-00-strings", "idle-01-allocation", "idle-02-threads", "idle-03-processor"]
    assert ran[3][-1] == "loop:3000" and ran[3][-2].endswith("adversary")
    assert all("env:SWAPSTONE_UNUSED=1,2" in command for command in ran)
    assert [path.name for path in measure(tmp_path, 4, ["idle"], 15)] == names and len(ran) == 4


def test_a_refused_budget_gives_no_record_and_another_failure_ends_the_benchmark(
    ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(null_comparisons, "KINDS", {name: KINDS[name] for name in ("file", "strings")})
    assert [path.name for path in measure(tmp_path, 2, ["idle"], 15)] == ["idle-01-strings"]
    assert "idle-00-file: refused" in capsys.readouterr().err
    monkeypatch.setattr(null_comparisons, "KINDS", {"slow-mode": KINDS["slow-mode"]})
    with pytest.raises(RuntimeError, match="exit status 2: error: another one"):
        list(measure(tmp_path / "more", 1, ["idle"], 15))
    assert len(ran) == 3
