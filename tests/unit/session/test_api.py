# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python API on the fake target: comparisons, studies, results as tables, errors and interruption."""

from __future__ import annotations

import datetime
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import Experiment, Trial
from swapstone.core.session import experiment as experiment_module
from tests.e2e.cli import FAKE, TOP, fake
from tests.small_records import compared

ONLY = ["b_string_strlen", "b_malloc_tiny1"]


@pytest.fixture(autouse=True)
def _records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path / "records"))


def _compare(tmp_path: Path, **options: object) -> swapstone.Record:
    usual = {"libc": ["glibc", "musl"], "only": ONLY, "blocks": 12, "seed": 3, "target": fake(tmp_path)}
    return compared(**{**usual, **options})


def test_every_exported_name_is_there_and_no_package_has_the_same_name() -> None:
    packages = {path.parent.name for path in (TOP / "src" / "swapstone").glob("*/__init__.py")}
    for name in swapstone.__all__:
        assert getattr(swapstone, name) is not None
        assert name not in packages
    assert set(swapstone._MODULES) | {"__version__"} == set(swapstone.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = swapstone.nothing


def test_the_import_is_lazy() -> None:
    script = (
        "import sys, swapstone; assert not {'numpy', 'duckdb', 'msgspec', 'click'} & set(sys.modules); dir(swapstone)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": str(TOP / "src")})


@pytest.mark.slow
def test_a_comparison_is_a_record_with_tables(tmp_path: Path) -> None:
    record = _compare(tmp_path)
    assert (record.state, record.experiment.seed) == ("complete", 3)
    assert record.path.parent == tmp_path / "records" and record.name == record.path.name
    table = record.comparisons()
    assert table.columns[:8] == ["record", "suite", "workload", "load", "metric", "unit", "baseline", "candidate"]
    wall = [row for row in table.dicts() if row["metric"] == "wall" and row["suite"] == "libc"]
    assert {row["workload"]: row["verdict"] for row in wall} == dict.fromkeys(ONLY, "worse")
    assert {row["record"] for row in wall} == {record.name}
    assert len(record.runs()) == 2 * 2 * 13 + 0
    assert {"block", "status", "variant"} <= set(record.runs().columns)
    assert record.samples().sql("SELECT count(DISTINCT metric) FROM rows").fetchall()[0][0] > 3
    assert record.effects().fetchall() == []
    assert record.comparisons().filter("metric = 'wall'").fetchall()
    queried = swapstone.query("SELECT * FROM comparisons")
    assert queried is not None
    assert queried.columns == table.columns and sorted(map(str, queried.fetchall())) == sorted(
        map(str, table.fetchall())
    )


@pytest.mark.slow
def test_it_is_the_same_experiment_as_that_of_the_command_line(tmp_path: Path) -> None:
    from tests.e2e.cli import swapstone as command

    options = ("--margin", "5%", "--confidence", "90", "--null", "--only", ONLY[0], "--only", ONLY[1])
    command(
        tmp_path,
        *("compare", "libc=glibc,musl", "--blocks", "12", "--seed", "3", "--target", fake(tmp_path), *options),
        *("--out", str(tmp_path / "cli")),
    )
    for margin, confidence in ((0.05, 0.9), ("5%", "90")):
        record = _compare(tmp_path, margin=margin, confidence=confidence, null=True)
        assert record.experiment == swapstone.load(tmp_path / "cli").experiment


def test_a_record_is_loaded_reported_and_verified(tmp_path: Path) -> None:
    record = _compare(tmp_path, out=tmp_path / "records" / "mine")
    for name in ("last", "mine", str(record.path)):
        assert swapstone.load(name).path == record.path
    text = record.report()
    assert text.startswith("musl takes 1.5 times as long as glibc on 2 workloads of libc.\n") and "\x1b" not in text
    assert record.report("html").startswith("<!doctype html>")
    assert record.report("markdown").startswith("# ")
    assert record.report("csv").startswith("suite,")
    with pytest.raises(swapstone.UserError, match="There is no format 'pdf'") as caught:
        record.report("pdf")
    assert "benchstat" in caught.value.hint
    assert record.verify().ok
    runs = record.path / "runs.jsonl"
    runs.write_bytes(runs.read_bytes().replace(b'"ok"', b'"OK"', 1))
    result = record.verify()
    assert not result.ok and "does not match its checksum" in result.problems[0]
    assert "complete" in repr(record) and "52 runs" in repr(record)


@pytest.mark.slow
def test_the_signs_of_two_records_are_compared(tmp_path: Path) -> None:
    slower = _compare(tmp_path)
    again = _compare(tmp_path, seed=4)
    reversed_spec = FAKE.replace("3_000_000", "1_000_000")
    assert reversed_spec != FAKE
    (tmp_path / "reversed.toml").write_text(reversed_spec)
    faster = _compare(
        tmp_path, target=f"fake:{tmp_path / 'reversed.toml'}", only=["b_string_strlen", "b_malloc_sparse"]
    )

    def outcomes(first: swapstone.Record, second: swapstone.Record) -> dict[str, str]:
        return {row.workload: row.signs.outcome.value for row in first.side_by_side(second).rows if row.signs}

    assert outcomes(slower, again) == dict.fromkeys(ONLY, "agree")
    assert outcomes(slower, faster) == {
        "b_string_strlen": "opposite signs",
        "b_malloc_tiny1": "not comparable",
        "b_malloc_sparse": "not comparable",
    }
    (row,) = (row for row in slower.side_by_side(faster).rows if row.workload == "b_string_strlen")
    assert [side and side.effect for side in row.sides] == [pytest.approx(1.5, rel=0.05), pytest.approx(0.5, rel=0.05)]


@pytest.mark.slow
def test_factors_as_a_mapping_or_as_text(tmp_path: Path) -> None:
    first = _compare(tmp_path, allocator="default,mimalloc")
    assert [choice.factor for choice in first.experiment.factors] == ["libc", "allocator"]
    with pytest.raises(swapstone.UserError, match="no factor named 'lbc'") as caught:
        swapstone.compare(lbc=["glibc", "musl"])
    assert "'libc'" in caught.value.hint
    with pytest.raises(swapstone.UserError, match="budget is an option, not a factor") as caught:
        swapstone.compare(libc=["glibc", "musl"], budget="1m")
    assert "swapstone.Measuring(budget=...)" in caught.value.hint
    with pytest.raises(swapstone.UserError, match="Place is given twice"):
        swapstone.compare(swapstone.Place(), swapstone.Place(), libc=["glibc", "musl"])
    with pytest.raises(swapstone.UserError, match="'host' is no settings"):
        swapstone.compare("host", libc=["glibc", "musl"])  # type: ignore[arg-type] # what the test is about
    with pytest.raises(swapstone.UserError, match="has only one level"):
        _compare(tmp_path, libc=["glibc"])


@pytest.mark.parametrize(
    ("budget", "seconds"), [("90s", 90), (90, 90), (1.5, 1.5), (datetime.timedelta(minutes=2), 120), ("2m", 120)]
)
def test_a_budget_is_a_text_a_number_of_seconds_or_a_timedelta(tmp_path: Path, budget: object, seconds: float) -> None:
    assert _compare(tmp_path, budget=budget, blocks=2).experiment.budget_ns == seconds * 10**9


@pytest.mark.slow
def test_progress_is_a_function_or_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    _compare(tmp_path, progress=lines.append)
    assert "calibrating 2 workloads on the baseline" in lines

    class Counter(swapstone.Progress):
        trials = 0
        started: list[str] = []  # noqa: RUF012 - of this test alone

        def experiment_started(self, experiment: Experiment, label: str) -> None:
            self.started.append(experiment.name + label)

        def trial(self, trial: Trial, done: int, total: int) -> None:
            self.trials += 1

    counter = Counter()
    _compare(tmp_path, progress=counter)
    assert (counter.trials, counter.started) == (52, ["compare"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_data_frames_need_packages_that_are_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _compare(tmp_path).comparisons()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for method, package in (("df", "pandas"), ("pl", "polars"), ("arrow", "pyarrow")):
        with pytest.raises(swapstone.UserError, match=f"{package} is not installed") as caught:
            getattr(table, method)()
        assert "pip install" in caught.value.hint and ".fetchall()" in caught.value.hint


def test_an_own_program_is_resolved_as_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Experiment] = []

    def start(experiment: Experiment, *_: object, **__: object) -> Path:
        found.append(experiment)
        return tmp_path

    monkeypatch.setattr(experiment_module, "start", start)
    (tmp_path / "in").write_text("")
    swapstone.compare(
        swapstone.Program(
            programs={"old": "/bin/true", "new": "/bin/false"},
            command="-n 'a b'",
            env={"A": "1"},
            input=tmp_path / "in",
            timeout=1.5,
            metrics="n[1,higher]=regex:n=([0-9]{1,3})",
        )
    )
    own = found[-1].own
    assert own is not None
    assert (own.arguments, own.environment, own.timeout_ms) == (("-n", "a b"), (("A", "1"),), 1500)
    assert own.programs == (("old", "/bin/true"), ("new", "/bin/false"))
    assert own.stdin == str(tmp_path / "in") and [number.pattern for number in own.numbers] == ["n=([0-9]{1,3})"]
    swapstone.compare(
        swapstone.Program(
            server=["/bin/s", "{port}"],
            load_generator="/bin/echo {port} {connections}",
            connections=[1, 10],
            read="wrk",
            warm_up=0,
        ),
        allocator=["default", "mimalloc"],
    )
    own = found[-1].own
    assert own is not None
    assert [(each.connections, each.warm_ms) for each in own.load_generators] == [(1, 0), (10, 0)]
    with pytest.raises(swapstone.UserError, match="--server needs --load-generator"):
        swapstone.compare(swapstone.Program(server="./s {port}"), allocator=["default", "mimalloc"])
    with pytest.raises(swapstone.UserError, match="There is nothing to compare"):
        swapstone.compare()
    swapstone.compare(swapstone.Program(command=["/bin/true"]))
    assert found[-1].alone and found[-1].workloads[0] == ("own", "true")


STUDY = """
title = "t"
question = "q?"
only = ["b_string_strlen"]
blocks = 6
[[factor]]
name = "libc"
levels = ["glibc", "musl"]
"""


@pytest.mark.slow
def test_a_study_without_parts_and_one_with_parts(tmp_path: Path) -> None:
    (tmp_path / "single.toml").write_text(STUDY)
    target = fake(tmp_path)
    single = swapstone.study(tmp_path / "single.toml", swapstone.Measuring(seed=2), swapstone.Place(target=target))
    assert single.ok and single.index is None and list(single.records) == ["single"]
    assert single.records["single"].experiment.blocks == 6
    parts = '[[part]]\nname = "a"\ntitle = "A"\n[[part]]\nname = "b"\ntitle = "B"\nmargin = "9%"\n'
    (tmp_path / "parts.toml").write_text(STUDY + parts)
    lines: list[str] = []
    study = swapstone.study(tmp_path / "parts.toml", swapstone.Place(target=target), progress=lines.append)
    assert study.ok and {name: part.state for name, part in study.states.items()} == {"a": "complete", "b": "complete"}
    assert [record.experiment.margin for record in study.records.values()] == [0.02, 0.09]
    assert "part 2 of 2: b: B" in lines
    assert swapstone.study(resume=study.path).ok
    with pytest.raises(swapstone.UserError, match="resumes with its own options"):
        swapstone.study("x", resume=study.path)


def test_a_target_file_in_a_study_starts_from_the_studys_folder(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(FAKE)
    (tmp_path / "mine.toml").write_text('target = "fake:fake.toml"\n' + STUDY)
    assert swapstone.study(tmp_path / "mine.toml").ok


@pytest.mark.slow
def test_an_interrupt_seals_the_record_and_carries_its_path(tmp_path: Path) -> None:
    class Impatient(swapstone.Progress):
        def trial(self, trial: Trial, done: int, total: int) -> None:
            if trial.block == 3:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        _compare(tmp_path, progress=Impatient())
    assert isinstance(caught.value, swapstone.Interrupted)
    record = swapstone.load(caught.value.path)
    assert record.state == "interrupted" and record.verify().ok
    assert caught.value.resume == f"swapstone compare --resume {record.path}"
    resumed = record.resume()
    assert resumed.state == "complete" and len(resumed.runs()) == 52


@pytest.mark.slow
def test_a_rerun_has_the_same_plan(tmp_path: Path) -> None:
    record = _compare(tmp_path)
    again = record.rerun(tmp_path / "again")
    assert again.experiment == record.experiment and again.path != record.path


def test_what_can_not_be_explained_is_a_user_error(tmp_path: Path) -> None:
    record = _compare(tmp_path)
    with pytest.raises(swapstone.UserError, match="this row was measured with the target fake"):
        record.explain(ONLY[0])
    with pytest.raises(swapstone.UserError, match="There is no"):
        record.explain("nothing")
    with pytest.raises(swapstone.RecordError, match="There is no record named 'lost'"):
        swapstone.load("lost")
