# SPDX-License-Identifier: MIT OR Apache-2.0
"""A study whose budget was too small is resumed with one that holds the pairs of every part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Experiment
from swapstone.core.session import experiment, study
from swapstone.core.session.precision_stop import BudgetError, sufficient_budget
from tests.unit.session.test_study import Maker
from tests.unit.session.test_study import run as study_run

__all__ = ["study_run"]  # a fixture

MINUTE_NS = 60 * 10**9


def test_the_part_that_needs_most_decides() -> None:
    assert sufficient_budget([(MINUTE_NS, ""), (3 * MINUTE_NS, "")]) == ""
    assert sufficient_budget([(MINUTE_NS, "2m"), (3 * MINUTE_NS, "")]) == "8m"
    assert sufficient_budget([(MINUTE_NS, "2m"), (3 * MINUTE_NS, "12m")]) == "16m"
    assert sufficient_budget([(MINUTE_NS, "30s")]) == ""
    assert sufficient_budget([(0, "2m")]) == ""
    assert sufficient_budget([]) == ""


@pytest.mark.slow
def test_the_study_names_it(study_run: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start: Callable[..., object] = experiment.start

    def starting(planned: Experiment, path: Path, **given: object) -> object:
        if path.name != "malloc":
            return start(planned, path, **given)
        start(msgspec.structs.replace(planned, blocks=1), path, **given)
        raise BudgetError("It is too small.", "too small", "6m")

    monkeypatch.setattr(study, "start", starting)
    folder = tmp_path / "s"
    outcome = study.start_study(study_run(), folder)  # parts of 1, 1 (unavailable) and 3 minutes
    assert outcome.states["malloc"] == study.PartState(
        "failed",
        "It is too small. Use --budget 6m, fewer levels, fewer workloads with --only, or an exact number of --blocks.",
        "6m",
    )
    assert outcome.index is not None and outcome.index.resume == f"swapstone study --resume {folder} --budget 10m"
    assert f"study --resume {folder} --budget 10m" in (folder / "index.md").read_text()
