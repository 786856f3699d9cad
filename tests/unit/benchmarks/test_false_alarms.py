# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of false alarms: its rules on synthetic traces."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import false_alarms, null_reports
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    return record_with_slow(tmp_path, "musl")


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


def test_live_counts_only_the_null_copies_of_a_record(null_record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["live", str(null_record)]) == 0
    printed = capsys.readouterr().out
    assert "20 blocks, pressure unknown" in printed
    assert "libc=glibc (again): 0 of" in printed
    # Two workloads by two times, for each kind of copy; the candidate's rows are not among them.
    assert printed.count("rows with p <= 0.05 before correction    0 of 4") == 2
    assert printed.count("tables with an interval without 1        0 of 1") == 2


def test_live_counts_reports_with_a_mark(null_record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record's candidate takes 1.5 times as long, its copies do not."""
    assert false_alarms.main(["live", str(null_record), str(null_record)]) == 0
    assert capsys.readouterr().out.count("reports with any mark                    0 of 2") == 2
    assert false_alarms.main(["live", "--identical", str(null_record)]) == 0
    printed = capsys.readouterr().out
    assert "reports with any mark                    1 of 1: 100.0 %" in printed
    assert "b_malloc_tiny1 wall (libc=musl): worse" in printed
    assert "(again)" not in printed


def test_marks_of_copies_are_no_marks_of_identical_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = str(record_with_slow(tmp_path, "(again)"))
    assert false_alarms.main(["live", record]) == 0
    assert "reports with any mark                    1 of 1" in capsys.readouterr().out
    assert false_alarms.main(["live", "--identical", record]) == 0
    assert "(again)" not in capsys.readouterr().out


def sources(effect_in_noise: float = 0.004) -> list[list[np.ndarray]]:
    random = np.random.default_rng(11)
    return [[1000 * np.exp(random.normal(0, effect_in_noise, (2, 200)))] for _ in range(4)]


@pytest.mark.slow
def test_reports_of_nulls_hold_few_marks_and_the_report_correction_fewer() -> None:
    drawn = list(null_reports.draws(sources(), 20, 30, np.random.default_rng(1)))
    report, family, _ = null_reports.CORRECTIONS
    marks = {rule: sum(null_reports.any_mark(draw, rule, 0.0) for draw in drawn) for rule in (report, family)}
    assert marks[report] <= 2
    assert marks[report] <= marks[family] <= 8


@pytest.mark.slow
def test_a_changed_workload_is_detected_and_the_others_are_not() -> None:
    (draw,) = null_reports.draws(sources(), 1, 30, np.random.default_rng(2))
    for rule in null_reports.CORRECTIONS:
        assert null_reports.detected(draw, rule, 0.02, 0.1, only_one=True) == (2, 2)
        assert null_reports.detected(draw, rule, 0.02, 0.1, only_one=False) == (8, 8)
        assert null_reports.detected(draw, rule, 0.02, 0.0, only_one=False) == (0, 8)
        found = null_reports.report_of(draw, rule, 0.02, 0.1, only_one=True)
        changed = f"w{draw.changed} "
        assert [row.startswith(changed) for row in null_reports.marked_rows(found)] == [True, True]


def test_the_runs_of_a_report_are_those_of_the_window_in_order() -> None:
    (draw,) = null_reports.draws(sources(), 1, 5, np.random.default_rng(3))
    runs = null_reports.runs_of(draw, ("b", "c"), 0.0, only_one=False)
    mine = [run for run in runs if run.trial.workload == "w2"]
    assert [run.samples[0].values[0] for run in mine] == list(draw.values[2, 0])
    assert [run.trial.variant == "c" for run in mine[::2]] == list(draw.first[2])
    assert all(first.trial.variant != second.trial.variant for first, second in zip(mine[::2], mine[1::2], strict=True))


@pytest.mark.slow
def test_whole_reports_are_printed(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = traces.read_text()
    traces.write_text(text + text.replace('"wall"', '"cpu"'))
    arguments = ["resample", str(traces), "--nulls", "3", "--pairs", "20", "--reports", "3"]
    assert false_alarms.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "3 reports of 3 workloads, wall and CPU time, 20 pairs" in printed
    assert [rule.name in printed for rule in null_reports.CORRECTIONS] == [True] * 3


def test_whole_reports_need_both_times(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert false_alarms.main(["resample", str(traces), "--nulls", "3", "--pairs", "20", "--reports", "3"]) == 2
    assert "No workload has 40 runs of wall and CPU time." in capsys.readouterr().err


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
