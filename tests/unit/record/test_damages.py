# SPDX-License-Identifier: MIT OR Apache-2.0
"""Damage in one line leaves the others, damage in one record leaves the others, and a flood of damage is not read to its end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import RecordError, Run
from swapstone.core.record import (
    Manifest,
    RecordWriter,
    check_raw,
    find_record,
    list_records,
    load,
    open_runs,
    record_format,
    run_lines,
)
from tests.raw_outputs import raw_bytes
from tests.unit import builders


def _has_runs(path: Path) -> bool:
    descriptor = open_runs(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def _made(path: Path, runs: list[Run] | None = None, rules: int = 1) -> Path:
    subject = builders.experiment(rules=rules)
    with RecordWriter.create(path, subject) as writer:
        writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=()))
        for run in runs or builders.runs(subject, 3):
            writer.append(run)
        writer.seal("complete", "precise", "digest")
    return path


def test_a_run_that_is_not_of_the_experiment_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    runs = list(builders.runs(builders.experiment(), 3))
    trial = msgspec.structs.replace(runs[4].trial, workload="b_future")
    runs[4] = msgspec.structs.replace(runs[4], trial=trial)
    view = load(_made(tmp_path / "r", runs))
    assert view.runs == (*runs[:4], *runs[5:])
    assert [str(damage) for damage in view.damages] == [
        "runs.jsonl, line 5: it is a run of the workload libc/b_future, which the experiment does not have; it is left out"
    ]


def test_a_flood_of_damaged_lines_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    data = (path / "runs.jsonl").read_bytes()
    (path / "runs.jsonl").write_bytes(b"\n" * 5000 + data)
    view = load(path)
    lines = [damage for damage in view.damages if damage.file == "runs.jsonl"]
    assert len(lines) == run_lines.MOST_DAMAGED_LINES + 1
    assert lines[-1].line == run_lines.MOST_DAMAGED_LINES + 1
    assert "from here on, nothing is read" in lines[-1].problem
    (path / "runs.jsonl").write_bytes(b"\n" * (run_lines.MOST_DAMAGED_LINES - 2) + data)
    assert len(load(path).runs) == 16


def test_a_line_that_is_too_long_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _made(tmp_path / "r")
    data = (path / "runs.jsonl").read_bytes()
    longest = 4 * max(map(len, data.splitlines(keepends=True)))
    for module in ("files", "run_lines"):
        monkeypatch.setattr(f"swapstone.core.record.{module}.LONGEST_LINE_BYTES", longest)
    assert load(path).damages == () and _has_runs(path)
    (path / "runs.jsonl").write_bytes(data + b"x" * (2 * longest) + b"\n" + data)
    view = load(path)
    assert len(view.runs) == 16
    assert not _has_runs(path)
    assert [str(damage) for damage in view.damages] == [
        f"runs.jsonl, line 17: it is longer than {longest} bytes: from here on, nothing is read"
    ]


def test_an_unusable_manifest_or_seal_is_named_and_the_runs_are_read(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    for name, changes, problem in (
        ("manifest.json", {"passes": [["libc", "w", 0]]}, "can't be read: a number of passes is not between"),
        ("seal.json", {"state": "sealed"}, "can't be read: its state, 'sealed', is neither"),
    ):
        content = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps(content | changes))
        view = load(path)
        assert any(damage.file == name and damage.problem.startswith(problem) for damage in view.damages)
        assert len(view.runs) == 16
    assert view.manifest is None and view.seal is None


def test_an_unusable_experiment_names_the_next_step(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    text = (path / "experiment.json").read_text()
    for old, new, problem, hint in (
        ('"confidence": 0.95', '"confidence": 1', "confidence is 1, not between", "restore it from a copy"),
        ('"rules": 1', '"rules": 99', "rules 99, and this version of Swapstone has rules up to", "newer Swapstone"),
        ('"rules": 1', '"rules": 1, "future": 2', "unknown field `future`", "newer Swapstone"),
    ):
        assert old in text
        (path / "experiment.json").write_text(text.replace(old, new))
        with pytest.raises(RecordError, match=problem) as caught:
            load(path)
        assert hint in caught.value.hint


def test_a_damaged_or_closed_folder_takes_no_record_from_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    whole = _made(tmp_path / "whole")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    os.mkfifo(damaged / "record.json")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "closed").mkdir(mode=0)
    try:
        assert set(list_records()) == {whole, damaged}
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert find_record("damaged") == damaged
    with pytest.raises(RecordError, match=r"record\.json can't be read: it is a FIFO"):
        load(damaged)
    for name in ("x" * 5000, "a\0b", "loop"):
        with pytest.raises(RecordError):
            find_record(name)


def test_a_record_that_was_killed_before_its_first_run_has_none(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    assert _has_runs(path)
    for name in ("runs.jsonl", "manifest.json", "seal.json"):
        (path / name).unlink()
    view = load(path)
    assert (view.runs, view.damages, view.seal) == ((), (), None)
    assert not _has_runs(path)


def test_raw_output_through_a_link_is_named_and_not_read(tmp_path: Path) -> None:
    digest = record_format.file_sha256(b"secret")
    run = msgspec.structs.replace(next(builders.runs(builders.experiment(), 0)), output=digest)
    path = _made(tmp_path / "r", [run])
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_bytes(b"secret")
    place = path / "raw" / f"{digest}.txt"
    shutil.copy(elsewhere, place)
    assert raw_bytes(path, digest) == b"secret" and check_raw(load(path)) == []
    assert raw_bytes(path, digest, most_bytes=5) is None
    place.unlink()
    place.symlink_to(elsewhere)
    assert raw_bytes(path, digest) is None
    assert "it is a symbolic link" in str(check_raw(load(path))[0])


def test_a_record_is_not_continued_through_a_link(tmp_path: Path) -> None:
    path, secret = _made(tmp_path / "r"), tmp_path / "secret"
    secret.write_bytes(b"secret")
    for name in ("lock", "runs.jsonl", "runs.jsonl.torn"):
        (path / name).unlink(missing_ok=True)
        (path / name).symlink_to(secret)
        with pytest.raises(RecordError, match=f"{name}: it is a symbolic link"):
            RecordWriter.resume(path)
    assert secret.read_bytes() == b"secret"


@pytest.mark.parametrize(("rules", "damages"), [(1, []), (2, ["seal.json: it lacks the digest of record.json"])])
def test_records_by_the_first_rules_may_lack_the_digest_of_their_identity(
    tmp_path: Path, rules: int, damages: list[str]
) -> None:
    path = _made(tmp_path / "r", rules=rules)
    assert load(path).damages == ()
    seal = json.loads((path / "seal.json").read_text())
    assert seal["record"]
    (path / "seal.json").write_text(json.dumps(seal | {"record": ""}))
    assert [str(damage) for damage in load(path).damages] == damages
