# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that crash or hang in some of their runs: the failures are the result, in every format, and the experiment goes on.

The number of discarded runs is fixed: by default it grows where runs seem to depend on each other, and more blocks are made then.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import swapstone as api
from swapstone.core.record import load
from tests.e2e.cli import FAKE, swapstone

HANGS = FAKE.replace("wall_ns = 3_000_000", 'wall_ns = 1_000_000\nfaults = [{ kind = "timeout", probability = 0.12 }]')
"""The candidate takes half the time in those of its runs that end."""
BOTH_HANG = FAKE + '[[behaviour]]\nfaults = [{ kind = "timeout", probability = 0.12 }]\n'


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory, agents: Path) -> str:
    """One cache for all these tests. The agent is in it."""
    folder = tmp_path_factory.mktemp("failing-cache")
    shutil.copytree(agents, folder / "swapstone/agents")
    return str(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program that always succeeds."""
    (tmp_path / "counts").mkdir()
    script(tmp_path, "good", "exit 0")
    return tmp_path


def script(folder: Path, name: str, action: str, *, every: int = 0, first: bool = False) -> None:
    """Write a program that does something in each n-th of its runs, from the n-th on or from the first on, and succeeds in the others."""
    count = folder / "counts" / name
    count.write_text(f"{every - 1 if first else 0}\n")
    when = (
        f"read n < {count}\nn=$((n + 1))\necho $n > {count}\ntest $((n % {every})) -eq 0 || exit 0\n" if every else ""
    )
    (folder / name).write_text(f"#!/bin/sh\n{when}{action}\n")
    (folder / name).chmod(0o755)


def compare(folder: Path, cache: str, candidate: str, *more: str, expect: int) -> subprocess.CompletedProcess[str]:
    return swapstone(
        folder, "compare", "--program", "good=./good", "--program", f"{candidate}=./{candidate}", "--out", "r",
        "--prime", "1", *more, expect=expect, XDG_CACHE_HOME=cache,
    )  # fmt: skip


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["run"] for line in (folder / "r" / "runs.jsonl").read_text().splitlines()]


def seal(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "r" / "seal.json").read_text())
    return found


def test_a_program_that_crashes_in_each_eighth_run(folder: Path, cache: str) -> None:
    script(folder, "bad", "kill -SEGV $$", every=8)
    result = compare(folder, cache, "bad", "--blocks", "80", "--prime", "0", expect=4)
    made = runs(folder)
    assert {run["trial"]["block"] for run in made} == set(range(81))
    assert len(made) == 2 * 81
    assert seal(folder)["why"] == "the requested number of blocks is reached"
    failed = [run for run in made if run["status"] == "failed"]
    assert len(failed) == 10 and all("SIGSEGV" in run["reason"] for run in failed)
    whole = " ".join(result.stdout.split())
    assert whole.startswith(
        "bad fails in 12 % (5.7–25 %) of its runs, good in 0 % (0–7.6 %): 10 crashed of 81. "  # noqa: RUF001 - dashes
        "bad has no result: invalid: the runs that succeed may be the fast ones."
    )
    assert "bad fails significantly more often than good" in swapstone(folder, "show", "r", "--all").stdout

    analysis = json.loads(swapstone(folder, "show", "r", "--json").stdout)["analysis"]
    (rates,) = analysis["failure_rates"]
    assert rates["fails_more"] == "candidate" and rates["discordant"] == 10
    assert (rates["candidate_runs"]["crashed"], rates["candidate_runs"]["runs"]) == (10, 81)
    lines = list(csv.DictReader(io.StringIO(swapstone(folder, "export", "r", "--format", "csv").stdout)))
    assert {(line["candidate_failed"], line["baseline_failed"], line["candidate_crashed"]) for line in lines} == {
        ("10", "0", "10")
    }
    assert {line["fails_more"] for line in lines} == {"candidate"}
    sql = "SELECT DISTINCT candidate_failed, candidate_runs, baseline_failed_high < 0.08, fails_more FROM comparisons"
    (row,) = json.loads(swapstone(folder, "query", sql, "--json").stdout)["rows"]
    assert list(row.values()) == [10, 81, True, "candidate"]
    page = swapstone(folder, "report", "r", "--markdown").stdout
    assert "Failure rates" in page and "significantly more often" in page
    swapstone(folder, "report", "r", "--html")
    assert "Failure rates" in (folder / "r" / "report.html").read_text()
    assert "the same verdicts" in swapstone(folder, "verify", "r").stdout


@pytest.mark.slow
def test_fail_if_worse_rejects_a_candidate_that_fails_more_often(folder: Path, cache: str) -> None:
    script(folder, "bad", "kill -SEGV $$", every=8)
    result = compare(folder, cache, "bad", "--blocks", "40", "--fail-if", "worse:50%", expect=3)
    last = result.stderr.splitlines()[-1]
    assert (
        last.startswith("Exit status 3: --fail-if: program, program=bad: 12 % (")
        and "of its runs fail, and 0 %" in last
    )
    record = api.load(str(folder / "r"))
    assert [each.candidate.label for each in record.failing()] == ["program=bad"] and record.worse() == ()


@pytest.mark.slow
def test_a_baseline_that_fails_more_often_is_no_regression(folder: Path, cache: str) -> None:
    script(folder, "bad", "kill -SEGV $$", every=8)
    programs = ("--program", "bad=./bad", "--program", "good=./good", "--blocks", "40", "--out", "r", "--prime", "1")
    result = swapstone(folder, "compare", *programs, "--fail-if", "worse", expect=4, XDG_CACHE_HOME=cache)
    assert " ".join(result.stdout.split()).startswith("bad fails in 12 % (")
    assert api.load(str(folder / "r")).failing() == ()


def test_a_program_that_fails_in_its_first_run_alone_is_measured(folder: Path, cache: str) -> None:
    script(folder, "bad", "exit 7", every=1000, first=True)
    compare(folder, cache, "bad", "--blocks", "4", expect=0)
    failed = [run for run in runs(folder) if run["status"] == "failed"]
    assert [run["trial"]["block"] for run in failed] == [0]
    shown = " ".join(swapstone(folder, "show", "r").stdout.split())
    assert "bad fails in 1 of " in shown


def test_a_program_that_always_fails_ends_the_comparison_at_once(folder: Path, cache: str) -> None:
    script(folder, "bad", "exit 7")
    result = compare(folder, cache, "bad", "--blocks", "50", expect=4)
    assert "can't be measured with program=bad: it ended with status 7" in result.stderr
    assert "(3 of 3 attempts)" in result.stderr
    assert len(runs(folder)) <= 2 and seal(folder)["state"] == "interrupted"


@pytest.mark.slow
def test_a_program_that_hangs_in_each_eighth_run(folder: Path, cache: str) -> None:
    script(folder, "hangs", "exec sleep 600", every=8)
    result = compare(folder, cache, "hangs", "--blocks", "16", "--timeout", "2s", expect=4)
    assert re.match(r"hangs fails in 1\d % \(", " ".join(result.stdout.split()))
    assert re.search("[4-6] timed out of ", result.stdout)
    assert seal(folder)["why"] == "the requested number of blocks is reached"
    assert max(run["trial"]["block"] for run in runs(folder)) == 16


def _fake(folder: Path, spec: str, *more: str, expect: int) -> str:
    (folder / "fake.toml").write_text(spec)
    arguments = (
        "libc=glibc,musl",
        "--target",
        "fake:fake.toml",
        "--only",
        "b_malloc_tiny1",
        "--seed",
        "5",
        "--out",
        "r",
    )
    return " ".join(swapstone(folder, "compare", *arguments, *more, expect=expect).stdout.split())


@pytest.mark.slow
def test_time_outs_of_a_faster_candidate_are_not_better(folder: Path) -> None:
    """12 % time-outs on one side once read "every workload failed", and the verdict was better."""
    text = _fake(folder, HANGS, "--blocks", "60", expect=4)
    assert text.startswith("musl fails in ") and "timed out of 61. musl has no result: invalid" in text
    assert len(runs(folder)) == 2 * 61 and seal(folder)["why"] == "the requested number of blocks is reached"
    lines = csv.DictReader(io.StringIO(swapstone(folder, "export", "r", "--format", "csv").stdout))
    verdicts = {line["verdict"] for line in lines if line["quantity"] != "size"}
    assert verdicts == {"invalid"}
    _fake(folder / "counts", HANGS, "--blocks", "60", "--fail-if", "worse", expect=3)
    swapstone(folder, "compare", "--resume", "r", "--budget", "1s", "--fail-if", "maxrss=worse", expect=3)


def test_equal_rates_are_not_judged_and_no_regression(folder: Path) -> None:
    text = _fake(folder, BOTH_HANG, "--blocks", "60", "--fail-if", "worse", expect=4)
    assert "; whether the rates differ is not decided." in text
    assert (
        "No significant difference in rates: b_malloc_tiny1, musl (p " in swapstone(folder, "show", "r", "--all").stdout
    )


def test_without_a_number_of_blocks_an_experiment_goes_on_until_it_is_precise(folder: Path) -> None:
    _fake(folder, HANGS, "--budget", "10m", expect=4)
    assert seal(folder)["why"] == "every interval that can decide is as narrow as the margin"
    assert max(run["trial"]["block"] for run in runs(folder)) >= 15


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("rm -f r/runs.jsonl", r"runs\.jsonl was removed\. All \d+ runs are in r\."),
        (": > r/runs.jsonl", r"runs\.jsonl was truncated from \d+ to 0 bytes\. 0 of its \d+ runs are left, in r\."),
        ("rm -rf r", r"its folder was removed\. All \d+ runs are in r\."),
        ("mv r moved", r"its folder was renamed to .*/moved\. All \d+ runs are in .*/moved\."),
    ],
)
def test_a_program_that_harms_the_record_does_not_lose_it_silently(
    folder: Path, cache: str, action: str, sentence: str
) -> None:
    script(folder, "harms", f"cd {folder} && {action}", every=7)
    result = compare(folder, cache, "harms", "--blocks", "8", expect=2)
    assert re.search(f"Something else changed the record r while it was written: {sentence}", result.stderr)
    view = load(folder / ("moved" if action == "mv r moved" else "r"))
    assert view.seal is not None and view.seal.state == "interrupted"
    assert view.damages == () and bool(view.runs) == (action != ": > r/runs.jsonl")
