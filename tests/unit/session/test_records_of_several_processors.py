# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which commands refuse records of machines with several processors (docs/virtual-machine-processors.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.record import Manifest, RecordWriter
from swapstone.core.session import recomputation
from swapstone.core.session.record_handle import Record
from swapstone.parts.explain.session import explain
from tests.unit import builders


def _record(path: Path, processors: int, **changes: object) -> Record:
    """Return a record of machines on the virtual clock, whose candidate takes 1.5 times as long."""
    subject = builders.experiment(clock="virtual", target="vm", processors=processors, **changes)
    with RecordWriter.create(path, subject) as writer:
        writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=()))
        for run in builders.runs(subject, 8):
            writer.append(run)
    return Record(path)


@pytest.mark.parametrize("again", [False, True])
def test_rows_of_machines_with_several_processors_are_not_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    monkeypatch.setattr(explain, "open_experiment_target", lambda *_: pytest.fail("a machine was started"))
    record = _record(tmp_path / "r", 2)
    with pytest.raises(UnavailableError, match="machines with 2 processors can't be explained") as caught:
        record.explain("b_string_strlen", metric="wall", again=again)
    assert caught.value.hint == "Compare without --smp and explain that record."
    assert not (tmp_path / "r" / "explain").exists()


def test_worst_wake_ups_of_several_processors_are_not_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "open_experiment_target", lambda *_: pytest.fail("a machine was started"))
    record = _record(tmp_path / "r", 4, workloads=(("latency", "cyclictest"),))
    with pytest.raises(UnavailableError, match="machines with 4 processors can't be explained"):
        record.explain(metric="max")


def test_trials_of_several_processors_are_not_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "open_experiment_target", lambda *_: pytest.fail("a machine was started"))
    record = _record(tmp_path / "r", 2)
    with pytest.raises(UserError, match="machines with 2 processors: most of their runs repeat to the byte") as caught:
        record.verify(2)
    assert "swapstone rerun" in caught.value.hint
    assert not any("processors" in problem for problem in record.verify().problems)  # without trials it is verified
