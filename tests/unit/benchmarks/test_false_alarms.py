# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of false alarms: its rules on synthetic traces."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import false_alarms
from benchmarks.rules import OTHERS, OURS, Window

from swapstone.model import Verdict
from swapstone.record import RecordWriter
from tests.unit import builders


def drifting(random: np.random.Generator, n: int) -> np.ndarray:
    """Return autocorrelated run values with a few slow runs, as on real machines."""
    steps = np.zeros(n)
    for i in range(1, n):
        steps[i] = 0.9 * steps[i - 1] + random.normal(0, 0.004)
    slow = (random.random(n) < 0.03) * random.exponential(0.3, n)
    values: np.ndarray = 1000 * np.exp(steps + slow + random.normal(0, 0.004, n))
    return values


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    random, path = np.random.default_rng(2), tmp_path / "traces.jsonl"
    lines = [
        {
            "workload": f"w{w}",
            "metric": "wall",
            "source": "synthetic",
            "unix_ns": [],
            "values": list(drifting(random, 400)),
        }
        for w in range(3)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shares(path: Path, effect: float, pairs: int = 30) -> dict[str, float]:
    random = np.random.default_rng(7)
    drawn = list(false_alarms.windows(false_alarms.read_traces(path), 150, pairs, random))
    same = [pairs] * len(drawn)
    return {
        name: float(np.mean([a.different for a in false_alarms.answers(drawn, rule, same, 0.02, effect)]))
        for name, rule in {**OURS, **OTHERS}.items()
    }


def test_with_autocorrelated_noise_only_swapstone_keeps_the_nominal_rate(traces: Path) -> None:
    null = shares(traces, 0.0)
    assert null["swapstone"] <= 0.10
    assert null["swapstone, stopping"] <= 0.10
    assert null["benchstat, p < 0.05"] > 0.25


def test_an_injected_effect_is_detected(traces: Path) -> None:
    small, large = shares(traces, 0.005), shares(traces, 0.05)
    assert large["swapstone"] > 0.95
    assert shares(traces, 0.0)["swapstone"] < small["swapstone"] < large["swapstone"] + 0.01


def test_both_designs_use_every_run_once() -> None:
    window = Window(np.arange(1.0, 21.0), np.random.default_rng(1).random(10) < 0.5, 1.0)
    for arms in (window.interleaved(10), window.sequential(10)):
        assert sorted(np.concatenate(arms)) == list(range(1, 21))
    baseline, candidate = window.interleaved(10)
    assert set(np.abs(baseline - candidate)) == {1.0}
    assert set(np.sign(baseline - candidate)) == {-1.0, 1.0}


def test_the_rules_of_hyperfine_match_a_worked_example() -> None:
    """Means 100 and 110, standard deviations 5 each: bars meet at 105; 1.1 +- 1.1 * hypot(5/110, 5/100) reaches 1.0257."""
    a = np.array([95.0, 100.0, 105.0])
    window = Window(np.concatenate([a, a + 10]), np.zeros(3, dtype=np.bool_), 1.0)
    assert not OTHERS["hyperfine, bars apart"](window, 3, 0.02).different
    assert OTHERS["hyperfine, relative"](window, 3, 0.02).different
    apart = Window(np.concatenate([a, a + 10.1]), np.zeros(3, dtype=np.bool_), 1.0)
    assert OTHERS["hyperfine, bars apart"](apart, 3, 0.02).different


def test_stopping_uses_no_more_pairs_than_it_needs() -> None:
    random = np.random.default_rng(3)
    quiet = Window(np.exp(random.normal(0, 0.001, 80)), random.random(40) < 0.5, 1.0)
    loud = Window(np.exp(random.normal(0, 0.5, 80)), random.random(40) < 0.5, 1.0)
    rule = OURS["swapstone, stopping"]
    assert (rule(quiet, 40, 0.02).pairs, rule(loud, 40, 0.02).pairs) == (15, 40)
    assert rule(quiet, 40, 0.02).verdict is Verdict.EQUIVALENT


def test_the_table_depends_on_the_seed_only(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for seed in ("1", "1", "2"):
        assert false_alarms.main(["resample", str(traces), "--nulls", "30", "--pairs", "20", "--seed", seed]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert "benchstat" in printed[0]
    assert "corrected tables of 3 null rows" in printed[0]


def test_traces_that_are_too_short_are_an_error(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["resample", str(traces), "--pairs", "201"]) == 2
    assert "No trace of wall has 402 runs." in capsys.readouterr().err


@pytest.fixture
def null_record(tmp_path: Path) -> Path:
    subject, path = builders.experiment(null=True), tmp_path / "record"
    random = np.random.default_rng(6)
    with RecordWriter.create(path, subject) as writer:
        for run in builders.runs(subject, 20):
            value = float(1000 * np.exp(random.normal(0, 0.01)) * (1.5 if "musl" in run.trial.variant else 1.0))
            samples = tuple(msgspec.structs.replace(sample, values=(value,)) for sample in run.samples)
            writer.append(msgspec.structs.replace(run, samples=samples, started_unix_ns=run.trial.block))
    return path


def test_live_counts_only_the_null_copies_of_a_record(null_record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["live", str(null_record)]) == 0
    printed = capsys.readouterr().out
    assert "20 blocks, pressure unknown" in printed
    assert "libc=glibc (again): 0 of" in printed
    # Two workloads by two times, for each kind of copy; the candidate's rows are not among them.
    assert printed.count("rows with p <= 0.05 before correction    0 of 4") == 2
    assert printed.count("tables with an interval without 1        0 of 1") == 2


def test_traces_of_a_record_are_its_runs_in_order_of_time_without_warm_up(
    null_record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert false_alarms.main(["record", "--out", str(out), "--workloads", "1", "--runs", "12", str(null_record)]) == 0
    found = false_alarms.read_traces(out)
    assert {(trace.metric, trace.values.size) for trace in found} == {("wall", 12), ("cpu", 12)}
    assert len({trace.workload for trace in found}) == 1 and len(found) == 2 * 4
    assert all(trace.unix_ns == tuple(range(1, 13)) for trace in found)
    assert "12 runs from record idle libc=musl" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["resample", "/nowhere.jsonl"], ["live", "/nowhere"]])
def test_a_missing_file_is_an_error_that_names_it(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(arguments) == 2
    assert arguments[1] in capsys.readouterr().err
