# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counting instructions has the limit of every instrument: a cheaper count takes its place, or it is unavailable with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.instructions import COUNTERS, Counter, count_with, expected_excess, measure
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee
from swapstone.parts.explain.model.explanation import Amount, InstrumentResult

REQUEST = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=10_000)


def reference(seconds: float, folder: Path = Path(), cpu_s: float | None = None) -> ReferenceRuns:
    metrics = {"wall": seconds * 1e9, "cpu": (seconds if cpu_s is None else cpu_s) * 1e9}
    return ReferenceRuns(metrics, (), folder, seconds)


@pytest.mark.parametrize(
    ("seconds", "cpu_s", "fitting"),
    [
        (0.1, 0.1, ["callgrind", "cachegrind"]),
        (2.0, 2.0, ["cachegrind"]),  # 120 s under callgrind are more than 20 times 2 s
        (20.0, 20.0, []),  # 200 s under cachegrind are more than 20 s and two minutes
        (20.0, 0.5, ["callgrind", "cachegrind"]),  # it waits, and that takes as long under valgrind
    ],
)
def test_what_would_exceed_the_limit_is_not_begun(seconds: float, cpu_s: float, fitting: list[str]) -> None:
    tracee = Tracee("v", REQUEST, Region.PROGRAM)
    fits = [each.tool for each in COUNTERS if not expected_excess(tracee, reference(seconds, cpu_s=cpu_s), each)]
    assert fits == fitting


def test_the_duration_that_exceeds_the_limit_is_not_rounded_to_it() -> None:
    limit_s, slowdown = reference(20.0).limit_s, COUNTERS[0].slowdown
    text = expected_excess(
        Tracee("v", REQUEST, Region.PROGRAM), reference(20.0, cpu_s=(limit_s - 19.6) / slowdown), COUNTERS[0]
    )
    assert text.startswith("a run would take about 141 s under callgrind, more than 140 s;")


def test_a_program_with_passes_runs_three_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tracee = Tracee("v", REQUEST, Region.PASSES)
    assert "would take about 61 s under callgrind" in expected_excess(tracee, reference(0.333), COUNTERS[0])
    monkeypatch.setattr(requirements, "missing_tool", lambda *_: None)
    with pytest.raises(UnavailableError, match=r"under callgrind, more than 140 s.*under cachegrind, more than 140 s"):
        measure(tracee, reference(20.0))


def test_a_run_that_reaches_the_limit_is_counted_in_a_cheaper_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def counted(_tracee: Tracee, _reference: ReferenceRuns, counter: Counter) -> InstrumentResult:
        tried.append(counter.tool)
        if counter.tool == "callgrind":
            raise UnavailableError("a run took longer than 30 s under valgrind")
        amounts = (Amount(group="instructions", name="all", value=7.0),)
        return InstrumentResult(
            instrument="x", tool="", variant="v", command="", operations=1.0, overhead=1.0, amounts=amounts
        )

    monkeypatch.setattr(requirements, "missing_tool", lambda *_: None)
    assert measure(Tracee("v", REQUEST, Region.PROGRAM), reference(0.1, tmp_path), counted).amounts[0].value == 7.0
    assert tried == ["callgrind", "cachegrind"]

    def late(*_: object) -> InstrumentResult:
        raise UnavailableError("a run took longer than 30 s under valgrind")

    with pytest.raises(UnavailableError, match=r"^a run took longer than 30 s under valgrind$"):
        measure(Tracee("v", REQUEST, Region.PROGRAM), reference(0.1, tmp_path), late)


@pytest.mark.slow
@pytest.mark.skipif(requirements.missing_tool("valgrind", "valgrind") is not None, reason="needs valgrind")
def test_both_ways_count_the_same_instructions(tmp_path: Path) -> None:
    tracee = Tracee("v", REQUEST, Region.PROGRAM)
    found = [count_with(tracee, reference(0.1, tmp_path), each) for each in COUNTERS]
    full, cheap = ({(each.group, each.name): each.value for each in one.amounts} for one in found)
    assert cheap["instructions", "all"] == pytest.approx(full["instructions", "all"], rel=0.05)
    assert {group for group, _ in full} == {"instructions", "simulated", "calls"}
    assert {group for group, _ in cheap} == {"instructions"}
    assert "cachegrind counted instructions alone" in found[1].notes[0]
