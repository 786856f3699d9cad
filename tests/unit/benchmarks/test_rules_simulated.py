# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of simulated error rates: every table prints, and its counts are those of the analysis."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks import rules_simulated
from benchmarks.rules_simulated import TABLES, drawn, main, marked, rates_of, row, with_mode

from swapstone.model import FAMILY_CORRECTION, REPORT_CORRECTION


@pytest.mark.slow
@pytest.mark.parametrize("table", [name for name in TABLES if name != "power"])
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
