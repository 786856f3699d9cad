# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of simulated carry-over: its tables print, and the model does what a line states."""

from __future__ import annotations

import pytest
from benchmarks import carry_over_simulated
from benchmarks.carry_over_model import Machine
from benchmarks.carry_over_simulated import DESIGNS, NO_DIFFERENCE, TABLES, main, verdicts

from swapstone.model import Experiment, Run, Verdict


def test_the_table_of_what_is_left_behind_counts_reports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[Verdict.WORSE], [Verdict.INVALID], [Verdict.EQUIVALENT, Verdict.WORSE], [Verdict.SAME_MEDIAN]])
    monkeypatch.setattr(carry_over_simulated, "verdicts", lambda *_: next(answers))
    monkeypatch.setattr(carry_over_simulated, "DESIGNS", DESIGNS[:1])
    monkeypatch.setattr(carry_over_simulated, "NOISES", (0.02,))
    assert main(["left-behind", "--reports", "4"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-3:] == ["2", "/", "1"]


def test_one_discarded_run_removes_what_the_run_before_it_left() -> None:
    (verdict,) = verdicts(DESIGNS[0], 0.005, 1)
    assert verdict in NO_DIFFERENCE - {Verdict.INVALID}


def test_each_candidate_has_a_verdict() -> None:
    assert len(verdicts(carry_over_simulated.Design("three", prime=1, variants=3), 0.005, 1)) == 2


def test_the_baseline_alone_leaves_something_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = []

    def stopped(machine: Machine, _: Experiment) -> tuple[list[Run], list[str]]:
        machines.append(machine)
        raise KeyboardInterrupt

    monkeypatch.setattr(carry_over_simulated, "simulated", stopped)
    for lasts in (0, 1, 2):
        with pytest.raises(KeyboardInterrupt):
            verdicts(carry_over_simulated.Design("x", prime=0, lasts=lasts), 0.01, 1)
    after = [
        [machine.carried(mine, earlier) for mine, earlier in ((1, [0]), (1, [1, 0]), (0, [1]))] for machine in machines
    ]
    assert after == [[0, 0, 0], [0.05, 0, 0], [0.05, 0.05, 0]]


def test_an_unknown_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nosuch"])
    assert f"there is no table 'nosuch': {', '.join(TABLES)}" in capsys.readouterr().err
