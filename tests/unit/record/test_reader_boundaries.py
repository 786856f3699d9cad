# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a reader accepts last and refuses first, where it goes on after damage, and how long the names in its messages are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swapstone.core.model import (
    MOST_PROCESSORS,
    Direction,
    FactorLevels,
    Metric,
    OwnProgram,
    PrintedNumber,
    Quantity,
    RecordError,
    Run,
)
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import (
    RecordWriter,
    Seal,
    check_raw,
    load,
    origin,
    record_format,
    run_lines,
    validation,
)
from swapstone.core.record.validation import experiment_problem, run_check
from tests.raw_outputs import raw_bytes
from tests.unit import builders


def _made(path: Path, **changes: Any) -> Path:
    with RecordWriter.create(path, builders.experiment()) as writer:
        for run in builders.runs(builders.experiment(), 1):
            writer.append(msgspec.structs.replace(run, **changes))
        writer.seal("complete", "precise", "digest")
    return path


# Lines


def test_a_line_of_the_last_length_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _made(tmp_path / "r")
    longest = max(map(len, (path / "runs.jsonl").read_bytes().splitlines(keepends=True)))
    for most in (longest, longest - 1):
        for module in ("files", "run_lines"):
            monkeypatch.setattr(f"swapstone.core.record.{module}.LONGEST_LINE_BYTES", most)
        assert bool(load(path).damages) == (most < longest)


@pytest.mark.parametrize("number", [1, 4, 8])
def test_a_line_that_is_no_run_takes_no_other_with_it(tmp_path: Path, number: int) -> None:
    """The number of the next line is as expected, and what it follows is not known."""
    path = _made(tmp_path / "r")
    lines = (path / "runs.jsonl").read_bytes().splitlines(keepends=True)
    lines[number - 1] = b"[]\n"
    (path / "seal.json").unlink()
    (path / "runs.jsonl").write_bytes(b"".join(lines))
    view = load(path)
    assert [(damage.line, damage.problem[:9]) for damage in view.damages] == [(number, "not a run")]
    assert len(view.runs) == 7


def test_a_run_comes_with_the_place_of_its_line(tmp_path: Path) -> None:
    lines = (_made(tmp_path / "r") / "runs.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = b"{}\n"
    places: list[tuple[str, int, int]] = []
    run_lines.read_lines(
        lines, builders.experiment(), lambda run, start, length: places.append((run.trial.key, start, length))
    )
    data = b"".join(lines)
    assert len(places) == 7
    for key, at, length in places:
        line = msgspec.json.decode(data[at : at + length], type=record_format.Line)
        assert msgspec.json.decode(line.run, type=Run).trial.key == key and data[at + length - 1 : at + length] == b"\n"


# Files


def test_raw_output_that_is_empty_is_damage(tmp_path: Path) -> None:
    digest = record_format.file_sha256(b"x")
    path = _made(tmp_path / "r", answer=digest)
    (path / "raw" / f"{digest}.txt").write_bytes(b"")
    assert [str(damage) for damage in check_raw(load(path))] == [f"raw/{digest}.txt: it is empty"]
    (path / "raw" / f"{digest}.txt").write_bytes(b"x")
    assert check_raw(load(path)) == []


def test_only_a_digest_is_the_name_of_raw_output(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    (path / "raw" / "x.txt").write_bytes(b"x")
    assert raw_bytes(path, "x") is None and raw_bytes(path, "../record.json\0") is None


def test_the_digest_of_a_record_is_that_of_its_seal(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    assert load(path).digest == record_format.file_sha256((path / "seal.json").read_bytes())
    (path / "seal.json").unlink()
    assert load(path).digest == ""


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"schema": record_format.SCHEMA + 1}, "schema version 2; this Swapstone reads version 1", "Install a newer"),
        ({"schema": record_format.SCHEMA - 1}, "schema version 0; this", "Read it with the version of Swapstone that"),
        ({"format": "f" * 61}, f"its format is {safe_excerpt('f' * 61, 60)!r}", ""),
        (
            {"created": "c" * 41},
            f"its time of creation, {safe_excerpt('c' * 41, 40)!r}, is no time in UTC",
            "restore it",
        ),
    ],
)
def test_another_identity_is_refused_with_what_to_do(
    tmp_path: Path, changes: dict[str, Any], message: str, hint: str
) -> None:
    path = _made(tmp_path / "r")
    content = json.loads((path / "record.json").read_text())
    (path / "record.json").write_text(json.dumps(content | changes))
    with pytest.raises(RecordError) as caught:
        load(path)
    assert message in caught.value.message and hint in caught.value.hint


@pytest.mark.parametrize(
    ("created", "valid"),
    [
        ("2026-01-31T10:20:30Z", True),
        ("2026-01-31T10:20:30.1+00:00", True),
        ("2026-01-31T10:20:30.123456+00:00", True),
        ("2026-01-31T10:20:30.1234567+00:00", False),
        ("2026-01-31T10:20:30.+00:00", False),
        ("2026-01-31T10:20:30+01:00", False),
        ("2026-01-31T24:20:30+00:00", False),
    ],
)
def test_times_of_creation(created: str, valid: bool) -> None:
    meta = record_format.Meta(id="x", created=created, swapstone="1")
    assert (validation.meta_problem(meta) == "") == valid


# Values


@pytest.mark.parametrize(("count", "read"), [(5_000_000, True), (5_000_001, False)])
def test_the_most_values_that_are_decoded(count: int, read: bool) -> None:
    assert (amount_problem(b"," * count) == "") == read


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"processors": 1}, ""),
        ({"processors": MOST_PROCESSORS}, ""),
        ({"processors": 0}, f"its processors is 0, not between 1 and {MOST_PROCESSORS}"),
        ({"processors": MOST_PROCESSORS + 1}, f"its processors is {MOST_PROCESSORS + 1}, not between"),
        *(({"ns_per_instruction": 1 << shift}, "") for shift in (0, 1, 10)),
        ({"ns_per_instruction": 3}, "its time of an instruction is 3 ns, which the virtual clock can't count"),
        ({"ns_per_instruction": 2048}, "its time of an instruction is 2048 ns"),
        ({"order": "balanced"}, ""),
        ({"correction": "family"}, ""),
        ({"clock": "virtual"}, ""),
    ],
)
def test_clock_and_processors_of_an_experiment(changes: dict[str, Any], problem: str) -> None:
    found = experiment_problem(builders.experiment(**changes))
    assert problem in found and bool(problem) == bool(found)


LONG = "n" * 300


def _levels(*levels: str, factor: str = "f") -> dict[str, Any]:
    return {"factors": (FactorLevels(factor=factor, levels=levels),)}


@pytest.mark.parametrize(
    ("changes", "length", "problem"),
    [
        ({"clock": LONG}, 40, "its clock, '{}', is none of"),
        ({"order": LONG}, 40, "its order, '{}', is none of"),
        ({"loads": (LONG, LONG)}, 60, "the load {} occurs twice"),
        (_levels(factor=LONG), 60, "the factor {} has no level"),
        (_levels("x", "x", factor=LONG), 60, "the factor {} has the level x twice"),
        (_levels(LONG, LONG), 60, "the factor f has the level {} twice"),
    ],
)
def test_names_of_an_experiment_are_cut_in_messages(changes: dict[str, Any], length: int, problem: str) -> None:
    assert problem.format(f"{LONG[:length]}...") in experiment_problem(builders.experiment(**changes))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (f"({LONG}", f"'{('(' + LONG)[:60]}...' is no regular expression: missing ), unterminated"),
        (LONG, f"the regular expression '{LONG[:60]}...' has 0 groups, not 1"),
    ],
)
def test_a_pattern_is_cut_in_messages(pattern: str, problem: str) -> None:
    metric = Metric(name="n", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="m")
    own = OwnProgram(name="work", arguments=("true",), numbers=(PrintedNumber(metric=metric, pattern=pattern),))
    found = experiment_problem(builders.experiment(own=own, workloads=(("own", "work"),)))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"workload": LONG}, f"the workload libc/{LONG[:95]}..., which"),
        ({"load": LONG}, f"the load {LONG[:100]}..., which"),
        ({"variant": LONG}, f"the variant {LONG[:100]}..., which"),
    ],
)
def test_names_of_a_run_are_cut_in_messages(change: dict[str, Any], problem: str) -> None:
    run = next(builders.runs(builders.experiment(), 0))
    other = msgspec.structs.replace(run, trial=msgspec.structs.replace(run.trial, **change))
    assert problem in run_check(builders.experiment())(other)


def test_the_state_of_a_seal_is_cut_in_messages() -> None:
    seal = Seal(runs=1, chain="", state=LONG, why="", verdicts="", manifest="", experiment="", sessions=1)
    assert f"its state, '{LONG[:40]}...', is neither" in validation.seal_problem(seal)


# The key


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    origin.own_key()
    return origin.key_path()


def test_the_key_is_all_of_its_file(key: Path) -> None:
    assert origin.read_key() == key.read_bytes()
    assert len(origin.read_key()) == 32


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610, 0o620, 0o640])
def test_a_key_that_anybody_else_can_use_is_not_used(key: Path, mode: int) -> None:
    key.chmod(mode)
    with pytest.raises(origin.KeyUnavailableError, match="other users can read or write it"):
        origin.read_key()


def test_a_key_that_is_only_read_is_used(key: Path) -> None:
    key.chmod(0o400)
    assert len(origin.read_key()) == 32
