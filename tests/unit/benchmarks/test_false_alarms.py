# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of false alarms: its rules on synthetic traces, and the null comparisons that it makes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import false_alarms
from benchmarks.false_alarms import KINDS, RULES, Trace, Window, null_records

from swapstone.core.model import UserError
from swapstone.core.record import RecordWriter
from tests.unit import builders


def drifting(random: np.random.Generator, n: int) -> np.ndarray:
    """Return autocorrelated run values with a few slow runs, as on real machines."""
    steps = np.zeros(n)
    for i in range(1, n):
        steps[i] = 0.9 * steps[i - 1] + random.normal(0, 0.004)
    slow = (random.random(n) < 0.03) * random.exponential(0.3, n)
    values: np.ndarray = 1000 * np.exp(steps + slow + random.normal(0, 0.004, n))
    return values


def shares(effect: float, pairs: int = 30) -> dict[str, float]:
    made, random = np.random.default_rng(2), np.random.default_rng(7)
    traces = [Trace(f"w{number}", "wall", drifting(made, 400)) for number in range(3)]
    drawn = list(false_alarms.windows(traces, 150, pairs, random))
    return {name: float(np.mean([rule(window, 1 + effect, 0.02) for window in drawn])) for name, rule in RULES.items()}


def test_with_autocorrelated_noise_only_swapstone_keeps_the_nominal_rate() -> None:
    null = shares(0.0)
    assert null["swapstone, verdict"] <= null["swapstone, interval without 1"] <= 0.10
    assert null["benchstat, p < 0.05"] > 0.25


@pytest.mark.slow
def test_an_injected_effect_is_detected() -> None:
    name = "swapstone, interval without 1"
    small, large = shares(0.005)[name], shares(0.05)[name]
    assert large > 0.95 and shares(0.0)[name] < small < large + 0.01


def test_both_designs_use_every_run_once() -> None:
    window = Window("w", np.arange(1.0, 21.0), np.random.default_rng(1).random(10) < 0.5)
    for arms in (window.interleaved(), window.sequential()):
        assert sorted(np.concatenate(arms)) == list(range(1, 21))
    baseline, candidate = window.interleaved()
    assert set(candidate - baseline) == {-1.0, 1.0}
    assert list(candidate < baseline) == list(window.first)


def test_the_rule_of_hyperfine_matches_a_worked_example() -> None:
    """Means 100 and 110, standard deviations 5 each: the bars meet at 105."""
    a = np.array([95.0, 100.0, 105.0])
    for more, apart in ((10, False), (10.1, True)):
        window = Window("w", np.concatenate([a, a + more]), np.zeros(3, dtype=np.bool_))
        assert RULES["hyperfine, bars apart"](window, 1.0, 0.02) is apart


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


def test_the_table_depends_on_the_seed_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = str(record_with_slow(tmp_path, "musl"))
    (trace, *_) = false_alarms.traces_of(Path(record))
    assert trace.values.size == 20  # without the warm-up
    printed = []
    for seed in ("1", "1", "2"):
        assert false_alarms.main(["resample", record, "--nulls", "30", "--pairs", "5", "--seed", seed]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert all(name in printed[0] for name in RULES)
    assert false_alarms.main(["resample", record, "--pairs", "11"]) == 2
    assert "No trace of cpu has 22 runs." in capsys.readouterr().err


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


def test_a_missing_record_is_an_error_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["resample", "/nowhere"]) == 2
    assert "/nowhere" in capsys.readouterr().err
