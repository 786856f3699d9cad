# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of false alarms: the null comparisons that it makes, and the marks that it counts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import false_alarms
from benchmarks.false_alarms import KINDS, null_records

from swapstone.core.model import UserError
from swapstone.core.record import RecordWriter
from tests.unit import builders


def record_with_slow(folder: Path, slow: str) -> Path:
    """Return a record with null copies, in which the variants with this text in their label take 1.5 times as long."""
    subject, path = builders.experiment(null=True), folder / "record"
    random = np.random.default_rng(6)
    with RecordWriter.create(path, subject) as writer:
        for run in builders.runs(subject, 20):
            value = float(1000 * np.exp(random.normal(0, 0.01)) * (1.5 if slow in run.trial.variant else 1.0))
            samples = tuple(msgspec.structs.replace(sample, values=(value,)) for sample in run.samples)
            writer.append(msgspec.structs.replace(run, samples=samples, started_unix_ns=run.trial.block))
    return path


def test_reports_with_a_mark_are_counted_without_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for slow, hits in (("musl", 1), ("(again)", 0)):
        folder = tmp_path / slow
        folder.mkdir()
        false_alarms.count([record_with_slow(folder, slow)])
        printed = capsys.readouterr().out
        assert f"reports with any mark   {hits} of 1: {100 * hits:.1f} %" in printed
        assert ("b_malloc_tiny1 wall (libc=musl): worse" in printed) == bool(hits)
        assert "(again)" not in printed


def ended(status: int, errors: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess((), status, "", errors)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Replace the programs: a comparison makes its folder, or is refused if it is one of files."""
    commands: list[Sequence[str]] = []

    def swapstone(arguments: Sequence[str], _folder: Path, *, limit_s: float) -> subprocess.CompletedProcess[str]:
        assert limit_s > 15
        commands.append(arguments)
        if "sort" in arguments:
            return ended(2, "error: The budget of 15 s is too small.")
        if "loop:2000" in arguments:
            return ended(2, "error: another one")
        Path(arguments[arguments.index("--out") + 1]).mkdir()
        return ended(0)

    monkeypatch.setattr(false_alarms, "build", lambda scratch: scratch / "adversary")
    monkeypatch.setattr(false_alarms, "swapstone", swapstone)
    return commands


def test_the_kinds_take_turns_and_what_exists_is_kept(ran: list[Sequence[str]], tmp_path: Path) -> None:
    names = [path.name for path in null_records(tmp_path, 4, "idle", 15)]
    assert names == ["idle-00-strings", "idle-01-allocation", "idle-02-threads", "idle-03-processor"]
    assert ran[3][-1] == "loop:3000" and ran[3][-2].endswith("adversary")
    assert all("env:SWAPSTONE_UNUSED=1,2" in command for command in ran)
    assert [path.name for path in null_records(tmp_path, 4, "idle", 15)] == names and len(ran) == 4


def test_a_refused_budget_gives_no_record_and_another_failure_ends_the_benchmark(
    ran: list[Sequence[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(false_alarms, "KINDS", {name: KINDS[name] for name in ("file", "strings")})
    assert [path.name for path in null_records(tmp_path, 2, "idle", 15)] == ["idle-01-strings"]
    assert "idle-00-file: refused" in capsys.readouterr().err
    monkeypatch.setattr(false_alarms, "KINDS", {"slow-mode": KINDS["slow-mode"]})
    with pytest.raises(UserError, match="exit status 2: error: another one"):
        list(null_records(tmp_path / "more", 1, "idle", 15))
    assert len(ran) == 3


def test_an_unknown_condition_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["--out", str(tmp_path), "--condition", "idle,storm"]) == 2
    assert "There is no condition 'storm'." in capsys.readouterr().err
