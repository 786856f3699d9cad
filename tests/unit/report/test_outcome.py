# SPDX-License-Identifier: MIT OR Apache-2.0
"""The exit status of comparisons on the fake target, one row for each finding, with and without ``--fail-if``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cli import TOP
from tests.small_records import compared

from swapstone.core.report.answer.outcome import FailIf
from swapstone.exit_status import ExitStatus, Finding

ONE, TWO = "b_malloc_tiny1", "b_malloc_tiny2"
BASE = 'seed = 3\n[[behaviour]]\nwall_ns = 2_000_000\nnoise = 0.01\npass_noise = 0.005\n[[behaviour]]\nvariant = "libc=glibc*"\n'
CANDIDATE = '[[behaviour]]\nvariant = "libc=musl*"\n'
SLOWER, FASTER, EQUAL = "wall_ns = 3_000_000\n", "wall_ns = 1_000_000\n", ""
PASS, WORSE, NOTHING = ExitStatus.SUCCESS, ExitStatus.WORSE, ExitStatus.NO_RESULT


def fault(kind: str, share: float = 1.0) -> str:
    return f'faults = [{{ kind = "{kind}", probability = {share} }}]\n'


def fault_in(kind: str, *trials: str) -> str:
    return f'faults = [{{ kind = "{kind}", trials = {list(trials)} }}]\n'


def of_two(text: str) -> str:
    return f'[[behaviour]]\nvariant = "libc=musl*"\nworkload = "{TWO}"\n{text}'


def record_of(folder: Path, spec: str, **options: Any) -> Any:
    (folder / "fake.toml").write_text(spec)
    factor = {} if "allocator" in options else {"libc": ["glibc", "musl"]}
    usual = {"only": [ONE], "blocks": 30, "seed": 5, "target": f"fake:{folder}/fake.toml"}
    return compared(**{**factor, **usual, "out": folder / "record", **options})


CASES = {
    # name: (baseline, candidate, status without a condition, and with --fail-if worse)
    "equal": ("", EQUAL, PASS, PASS),
    "slower": ("", SLOWER, PASS, WORSE),
    "faster": ("", FASTER, PASS, PASS),
    "crashes in 8 %": ("", EQUAL + fault("crash", 0.08), NOTHING, WORSE),
    "crashes in 20 %": ("", EQUAL + fault("crash", 0.2), NOTHING, WORSE),
    "always crashes": ("", fault("crash"), NOTHING, WORSE),
    "crashes in one run of 30, which is a caveat": ("", fault_in("crash", "7-*"), PASS, PASS),
    "is slower, and crashes once": ("", SLOWER + fault_in("crash", "7-*"), PASS, WORSE),
    "crashes in two runs": ("", fault_in("crash", "7-*", "9-*"), NOTHING, WORSE),
    "always times out": ("", fault("timeout"), NOTHING, WORSE),
    "times out in 15 %": ("", fault("timeout", 0.15), NOTHING, WORSE),
    "prints nothing": ("", fault("silent"), NOTHING, WORSE),
    "does other work": ("", fault("other-work"), NOTHING, WORSE),
    "does other work in 15 %": ("", fault("other-work", 0.15), NOTHING, WORSE),
    "runs at another level": ("", fault("wrong-level"), NOTHING, NOTHING),
    "baseline crashes in 10 %": (fault("crash", 0.1), EQUAL, NOTHING, NOTHING),
    "baseline always crashes": (fault("crash"), EQUAL, NOTHING, NOTHING),
    "baseline does other work at times": (fault("other-work", 0.3), EQUAL, NOTHING, NOTHING),
    "both always crash": (fault("crash"), fault("crash"), NOTHING, NOTHING),
    "both crash alike": (fault("crash", 0.2), fault("crash", 0.2), NOTHING, NOTHING),
    "both crash, the candidate far more often": (fault("crash", 0.1), fault("crash", 0.6), NOTHING, WORSE),
}


@pytest.mark.parametrize(("before", "after", "plain", "judged"), CASES.values(), ids=CASES)
def test_status_of_a_finding(tmp_path: Path, before: str, after: str, plain: ExitStatus, judged: ExitStatus) -> None:
    record = record_of(tmp_path, BASE + before + CANDIDATE + after)
    assert (record.outcome().status, record.outcome((FailIf(),)).status) == (plain, judged)
    assert bool(record.outcome((FailIf(),)).reason) == bool(judged)
    assert record.outcome((FailIf(metric="wall"),)).status == judged
    fails = judged is WORSE and "fail" in record.outcome((FailIf(),)).reason.partition(": ")[2]
    assert bool(record.failing()) == fails


@pytest.mark.parametrize(
    ("spec", "plain", "judged"),
    [
        (CANDIDATE + of_two(SLOWER), PASS, WORSE),
        (CANDIDATE + of_two(fault("crash")), PASS, WORSE),
        (CANDIDATE + of_two(fault("wrong-level")), PASS, NOTHING),
        (CANDIDATE + SLOWER + of_two(fault("wrong-level")), PASS, WORSE),
        (fault("crash") + CANDIDATE + of_two(fault("crash")), NOTHING, NOTHING),
    ],
)
def test_of_several_workloads_the_worst_finding_decides(
    tmp_path: Path, spec: str, plain: ExitStatus, judged: ExitStatus
) -> None:
    record = record_of(tmp_path, BASE + spec, only=[ONE, TWO])
    assert (record.outcome().status, record.outcome((FailIf(),)).status) == (plain, judged)


@pytest.mark.parametrize(
    ("second", "third", "plain", "judged"),
    [
        ("", fault("crash"), NOTHING, WORSE),
        (fault("wrong-level"), SLOWER, NOTHING, WORSE),
        (fault("wrong-level"), "", NOTHING, NOTHING),
        (FASTER, "", PASS, PASS),
    ],
)
def test_of_several_candidates_the_worst_finding_decides(
    tmp_path: Path, second: str, third: str, plain: ExitStatus, judged: ExitStatus
) -> None:
    of = '[[behaviour]]\nvariant = "allocator={}*"\n'
    spec = (
        BASE.split("[[behaviour]]\nvariant", maxsplit=1)[0]
        + of.format("mimalloc")
        + second
        + of.format("jemalloc")
        + third
    )
    record = record_of(tmp_path, spec, allocator=["default", "mimalloc", "jemalloc"])
    assert (record.outcome().status, record.outcome((FailIf(),)).status) == (plain, judged)


def test_a_decided_processor_time_counts_where_elapsed_time_is_undecided(tmp_path: Path) -> None:
    noisy = "wall_ns = 2_000_000\nnoise = 0.0\nwander = 0.0\ncpu_share = 0.5\nstart_ns = 40_000_000\n"
    record = record_of(tmp_path, BASE + noisy + CANDIDATE + noisy.replace("0.5", "0.6"))
    verdicts = {row.metric.name: row.verdict.value for row in record.analysis().comparisons}
    assert (verdicts["wall"] != "worse", verdicts["cpu"]) == (True, "worse")
    assert record.outcome((FailIf(),)).status is WORSE and "cpu 1.19" in record.outcome((FailIf(),)).reason
    assert record.outcome((FailIf(metric="wall"),)).status is PASS
    assert [row.metric.name for row in record.worse()] == ["cpu"]


def test_too_few_runs_for_an_interval_are_no_pass(tmp_path: Path) -> None:
    record = record_of(tmp_path, BASE + CANDIDATE, blocks=3)
    assert (record.outcome().status, record.outcome((FailIf(),)).status) == (PASS, NOTHING)


def test_the_page_has_the_table_of_the_program() -> None:
    page = (TOP / "docs" / "exit-statuses.md").read_text()
    findings, statuses = (
        page.split(head)[1].split("\n\n")[0].splitlines()[2:] for head in ("| finding |", "| status | meaning |")
    )
    assert findings == [f"| {finding.text} | {int(finding.status)} |" for finding in Finding]
    assert [int(line.split("|")[1]) for line in statuses] == list(ExitStatus)
