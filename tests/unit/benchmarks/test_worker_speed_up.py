# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of workers: which measurements it takes in which order, and the ratio that it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import worker_speed_up


def run(
    monkeypatch: pytest.MonkeyPatch, contents: list[bytes], *arguments: str
) -> tuple[int, list[tuple[str, int, int]]]:
    """Run the command with measurements that take 12 s, divided by the workers."""
    calls: list[tuple[str, int, int]] = []

    def measure(room: Path, name: str, workers: int, blocks: int, only: str) -> float:
        calls.append((name, workers, blocks))
        return 12.0 / workers

    monkeypatch.setattr(worker_speed_up, "measure", measure)
    monkeypatch.setattr(worker_speed_up, "content", lambda record: contents[len(calls) % len(contents)])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sys, "argv", ["worker-speed-up", *arguments])
    return worker_speed_up.main(), calls


def test_numbers_of_workers_take_turns_and_the_ratio_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, calls = run(monkeypatch, [b"same"], "--repeats", "2", "--blocks", "6")
    assert status == 0
    assert calls == [("warm-up", 2, 1), ("0-1", 1, 6), ("0-2", 2, 6), ("1-2", 2, 6), ("1-1", 1, 6)]
    printed = capsys.readouterr().out
    assert "2 workers are 2.00 times as fast as 1 (medians of 2; pairs 2.00 to 2.00); the records are equal" in printed


def test_records_that_differ_give_no_ratio(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = run(monkeypatch, [b"one", b"other"])
    assert status == 1 and "differs" in capsys.readouterr().out
