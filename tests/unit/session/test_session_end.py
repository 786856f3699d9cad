# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of a session: one seal, and after an error or a signal a record that can be resumed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

import swapstone
from swapstone.core.model import RecordError, UserError
from swapstone.core.record import RecordWriter, load
from swapstone.core.session import analysis, experiment, study
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.study_file import decode_study
from swapstone.core.session.study_run import StudyRun
from tests.e2e.cli import fake, runs_of
from tests.unit.session.test_study import FAKE, STUDY


def _compared(tmp_path: Path, name: str) -> Path:
    target = fake(tmp_path)
    record = swapstone.compare(
        swapstone.Workloads(only=["b_malloc_tiny1"]),
        swapstone.Measuring(seed=3, blocks=2),
        swapstone.Place(target=target),
        libc=["glibc", "musl"],
        out=tmp_path / name,
    )
    return Path(record.path)


def test_a_session_writes_one_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seals = []
    real = RecordWriter.seal

    def seal(writer: RecordWriter, state: str, why: str, verdicts: str) -> None:
        seals.append((state, bool(verdicts)))
        real(writer, state, why, verdicts)

    monkeypatch.setattr(RecordWriter, "seal", seal)
    path = _compared(tmp_path, "r")
    assert seals == [("complete", True)]
    assert swapstone.load(path).verify().ok


def test_a_record_that_an_earlier_version_left_between_two_seals_is_resumed(tmp_path: Path) -> None:
    path = _compared(tmp_path, "r")
    whole = runs_of(path)
    seal = json.loads((path / "seal.json").read_text())
    (path / "seal.json").write_text(json.dumps({**seal, "verdicts": ""}))
    assert "its last session ended before the analysis" in swapstone.load(path).verify().incomplete
    experiment.resume(path)
    assert runs_of(path) == whole
    assert swapstone.load(path).verify().ok


def test_a_signal_during_the_last_analysis_leaves_a_record_that_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("swapstone.core.session.analysis.record_verdicts", interrupt)
        with pytest.raises(Interrupted) as caught:
            _compared(tmp_path, "r")
    path = tmp_path / "r"
    assert caught.value.resume == f"swapstone compare --resume {path}"
    assert load(path).seal is None
    experiment.resume(path)
    assert swapstone.load(path).verify().ok


def test_a_record_that_cant_be_read_at_the_end_names_the_command_that_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> NoReturn:
        raise RecordError("it can't be read.", "Restore it from a copy.")

    with monkeypatch.context() as patch:
        patch.setattr("swapstone.core.record.writer.load", unreadable)
        with pytest.raises(RecordError, match="can't be read") as caught:
            _compared(tmp_path, "r")
    assert caught.value.hint == f"What was measured is kept. Continue: swapstone compare --resume {tmp_path / 'r'}"
    experiment.resume(tmp_path / "r")
    assert swapstone.load(tmp_path / "r").verify().ok


def _fails(number: int) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number), "/x")

    return fail


def test_an_error_of_the_machine_names_the_command_that_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r"
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "prepare", _fails(errno.EMFILE))
        with pytest.raises(UserError, match=r"Too many open files \(/x\)\.") as caught:
            _compared(tmp_path, "r")
    assert caught.value.hint.endswith(f", then continue: swapstone compare --resume {path}")
    view = load(path)
    assert view.seal is not None and view.seal.state == "interrupted"
    experiment.resume(path)
    assert swapstone.load(path).verify().ok


@pytest.mark.parametrize(("module", "where"), [(experiment, "prepare"), (analysis, "record_verdicts")])
def test_a_bug_is_not_called_an_error_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, where: str
) -> None:
    monkeypatch.setattr(module, where, _fails(errno.EBADF))
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        _compared(tmp_path, "r")
    assert caught.value.__cause__ is None, "no error is its own cause"


def test_a_record_that_cant_be_sealed_keeps_the_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(*_: object) -> NoReturn:
        raise RecordError("the first error", "a hint")

    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "append", append)
        patch.setattr(RecordWriter, "seal", lambda *_: append())
        with pytest.raises(RecordError, match="the first error"):
            _compared(tmp_path, "r")
    assert load(tmp_path / "r").seal is None
    experiment.resume(tmp_path / "r")
    assert swapstone.load(tmp_path / "r").verify().ok


def _study(tmp_path: Path, **options: object) -> StudyRun:
    (tmp_path / "fake.toml").write_text(FAKE)
    planned: dict[str, object] = {"only_parts": ("strings", "malloc"), "seed": 4, "blocks": 2, **options}
    target = f"fake:{tmp_path / 'fake.toml'}"
    return study.plan_study("two", decode_study(STUDY, "two"), target=target, **planned)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_study_that_was_killed_before_its_last_index_writes_it(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    study.start_study(_study(tmp_path), folder)
    whole = (folder / "index.html").read_bytes()
    for damaged in ("{", None):
        (folder / "index.html").write_text("an older one")
        (folder / ".index.html.0123456789abcdef").write_text("half of an index")
        if damaged is None:
            (folder / "index.json").unlink()
        else:
            (folder / "index.json").write_text(damaged)
        assert study.resume_study(folder).ok
        assert (folder / "index.html").read_bytes() == whole
        assert not (folder / ".index.html.0123456789abcdef").exists()


def test_a_study_that_was_killed_before_its_first_file_starts_again(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / ".study.json.0123456789abcdef").write_text("{")
    assert study.start_study(_study(tmp_path), folder).ok
    assert not list(folder.glob(".*"))
    with pytest.raises(RecordError, match="is not empty") as caught:
        study.start_study(_study(tmp_path), folder)
    assert caught.value.hint.endswith(f"or continue that study: swapstone study --resume {folder}")


@pytest.mark.slow
def test_a_part_that_was_killed_before_it_was_a_record_starts_again(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    study.start_study(_study(tmp_path), folder)
    for path in sorted((folder / "malloc").rglob("*"), reverse=True):
        if path.name not in {"lock", "raw"}:
            path.unlink()
    assert study.resume_study(folder).ok
    assert json.loads((folder / "index.json").read_text())["index"]["parts"][1]["state"] == "complete"


@pytest.mark.slow
def test_a_full_disk_names_the_command_that_continues_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    monkeypatch.setattr(study, "_run_part", lambda *_, **__: study.PartState("complete"))
    monkeypatch.setattr(os, "fsync", _fails(errno.ENOSPC))
    with pytest.raises(RecordError, match="No space left") as caught:
        study.start_study(_study(tmp_path), folder)
    assert caught.value.hint == "The disk is full: free some space, then give the same command again."
    monkeypatch.undo()
    study.start_study(_study(tmp_path), folder)
    monkeypatch.setattr(os, "fsync", _fails(errno.ENOSPC))
    (folder / "index.json").unlink()
    with pytest.raises(RecordError, match="No space left") as caught:
        study.resume_study(folder)
    assert caught.value.hint.endswith(f"then continue: swapstone study --resume {folder}")
