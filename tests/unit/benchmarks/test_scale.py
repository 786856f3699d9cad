# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of large records makes records that are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.scale import copies, enlarge, main, template

from swapstone.core.record import load


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("scale"), blocks=2)


@pytest.mark.slow
def test_a_record_with_more_runs_is_undamaged(small: Path) -> None:
    blocks = {run.trial.block for run in load(small).runs}
    assert blocks == {0, 1, 2}
    runs = enlarge(small, 100)
    view = load(small)
    assert view.damages == () and len(view.runs) == runs >= 100
    assert sorted({run.trial.block for run in view.runs}) == list(range(max(run.trial.block for run in view.runs) + 1))
    assert len({run.trial.key for run in view.runs}) == runs


@pytest.mark.slow
def test_copies_have_identities_of_their_own(small: Path, tmp_path: Path) -> None:
    copies(small, tmp_path, 3)
    views = [load(path) for path in sorted(tmp_path.iterdir())]
    assert len({view.meta.id for view in views}) == 3 and all(view.runs for view in views)


@pytest.mark.slow
@pytest.mark.exhaustive  # the two tests above are of the records that it measures
def test_all_tables_print(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--runs", "200", "--records", "2", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "per run x 1.00" in out and "queries over 2 records" in out and out.count("again") == 6
    assert list(tmp_path.iterdir()) == []
