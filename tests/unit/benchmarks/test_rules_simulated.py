# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of simulated error rates: every table prints, and its counts are those of the analysis."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks import rules_simulated
from benchmarks.rules_simulated import (
    DESIGNS,
    TABLES,
    Design,
    Machine,
    drawn,
    main,
    marked,
    rates_of,
    row,
    verdicts,
    with_mode,
)
from benchmarks.verdict_truth import DIRECTED

from swapstone.core.model import FAMILY_CORRECTION, REPORT_CORRECTION, Experiment, Run, Verdict


@pytest.mark.slow
@pytest.mark.parametrize("table", [name for name in TABLES if name not in {"power", "carry-over"}])
def test_each_table_prints_shares(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([table, "--rows", "3", "--reports", "2"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert lines and all(re.search(r"\d %", line) for line in lines), heading


def test_an_unknown_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nosuch"])
    assert "there is no table 'nosuch': nulls, power" in capsys.readouterr().err


def test_rows_with_a_difference_are_marked_at_the_level_of_their_report() -> None:
    random = np.random.default_rng(1)
    noise = rules_simulated.NOISES["normal, 2 %"]
    rows = [row(*drawn(random, noise, 20, 1.1 if number == 0 else 1.0), number) for number in range(8)]
    levels = {}
    for correction in (REPORT_CORRECTION, FAMILY_CORRECTION):
        rates = rates_of(rows, correction)
        assert [marked(each, rates) for each in rows] == [True, *[False] * 7]
        levels[correction] = rates.level(rows[0].family)
    # 8 medians and 8 tails together; two medians of one quantity.
    assert levels == {REPORT_CORRECTION: pytest.approx(0.01 / 16), FAMILY_CORRECTION: pytest.approx(0.05 / 2)}


def test_a_slow_mode_is_in_the_candidate_alone() -> None:
    before, after = with_mode(np.random.default_rng(1), 1000, 0.1, 10.0)
    slow = after / before > 5
    assert 60 < slow.sum() < 140 and after[slow].mean() > 5 * before.max() / 2


def test_the_table_of_what_is_left_behind_counts_reports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[Verdict.WORSE], [Verdict.INVALID], [Verdict.EQUIVALENT, Verdict.WORSE], [Verdict.SAME_MEDIAN]])
    monkeypatch.setattr(rules_simulated, "verdicts", lambda *_: next(answers))
    monkeypatch.setattr(rules_simulated, "DESIGNS", DESIGNS[:1])
    monkeypatch.setattr(rules_simulated, "CARRY_OVER_NOISES", (0.02,))
    assert main(["carry-over", "--reports", "60"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-3:] == ["2", "/", "1"]


def test_one_discarded_run_removes_what_the_run_before_it_left() -> None:
    (verdict,) = verdicts(DESIGNS[0], 0.005, 1)
    assert verdict.value not in DIRECTED and verdict is not Verdict.INVALID


def test_each_candidate_has_a_verdict() -> None:
    assert len(verdicts(Design("three", prime=1, variants=3), 0.005, 1)) == 2


def test_the_baseline_alone_leaves_something_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = []

    def stopped(machine: Machine, _: Experiment) -> tuple[list[Run], list[str]]:
        machines.append(machine)
        raise KeyboardInterrupt

    monkeypatch.setattr(rules_simulated, "simulated", stopped)
    for lasts in (0, 1, 2):
        with pytest.raises(KeyboardInterrupt):
            verdicts(Design("x", prime=0, lasts=lasts), 0.01, 1)
    after = [
        [machine.carried(mine, earlier) for mine, earlier in ((1, [0]), (1, [1, 0]), (0, [1]))] for machine in machines
    ]
    assert after == [[0, 0, 0], [0.05, 0, 0], [0.05, 0.05, 0]]
