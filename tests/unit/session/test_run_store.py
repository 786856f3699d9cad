# SPDX-License-Identifier: MIT OR Apache-2.0
"""Columns of large records: the same analysis as of the runs themselves, and a file that is made again whenever it can't be used."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison import run_table
from swapstone.core.comparison.run_table import RunColumns, TabledRuns
from swapstone.core.model import RecordError, Run, Sample, Status
from swapstone.core.record import RecordView, RecordWriter, load
from swapstone.core.session import record_cache, run_store
from swapstone.core.session.analysis import analyse_record
from swapstone.core.session.record_handle import Record
from swapstone.core.session.report_context import context_of
from swapstone.core.session.run_store import StoredRuns, load_columns
from tests.unit import builders

EXPERIMENT = builders.experiment(rules=2, null=True, prime=1, failures_count=True)


def _various(made: Run, chance: random.Random) -> Run:
    """Return a run with any of what a run can have, or with another status."""
    facts = {
        "wall_ns": 50_000_000,
        "psi_cpu_us": chance.randrange(40_000),
        "cpu_ticks": 10,
        "steal_ticks": chance.choice((0, 1)),
        "load1_milli": chance.randrange(3000),
        "agent_cpus": chance.choice((2, 2, 2, 4)),
        "nice": chance.choice((0, 0, -5)),
        "late_ns": chance.choice((0, 2_000_000_000)),
        "user_us": chance.choice((40_000, 2**62)),
        "system_us": 10,
        "run_delay_ns": 0,
        f"other_{chance.randrange(50)}": 2**63 - 1,
    }
    kept = {name: value for name, value in facts.items() if chance.random() < 0.9}
    status = chance.choice((Status.OK,) * 30 + (Status.FAILED, Status.REFUSED))
    changes: dict[str, object] = {"facts": tuple(kept.items()), "started_unix_ns": chance.choice((0, 10**18))}
    if status is not Status.OK:
        changes |= {"status": status, "reason": chance.choice(("", "it was killed by SIGSEGV")), "samples": ()}
    else:
        noise = chance.gauss(1, 0.02)
        samples = [msgspec.structs.replace(each, values=tuple(v * noise for v in each.values)) for each in made.samples]
        samples.append(Sample(metric="maxrss", values=() if chance.random() < 0.5 else (0.0, 4096.0, 8192.0)))
        changes["samples"] = tuple(samples)
    if chance.random() < 0.1:
        changes |= {"histogram": ((1, 2), (5, 1)), "series": (Sample(metric="max", values=(1.0, 2.0)),)}
    return msgspec.structs.replace(made, **changes)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a record of various runs."""
    path, chance = tmp_path_factory.mktemp("original") / "record", random.Random(5)
    with RecordWriter.create(path, EXPERIMENT) as writer:
        for block in range(20):
            discarded = dict.fromkeys(plan.groups(EXPERIMENT), 1 if block > 3 else 0)
            for trial in plan.block(EXPERIMENT, block, plan.groups(EXPERIMENT), discarded):
                writer.append(_various(builders.run(trial, 1000.0 + block), chance))
        writer.seal("complete", "test", "")
    return path


@pytest.fixture
def record(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the record, of which columns are kept though it is small and new."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(run_store, "SMALLEST_BYTES", 0)
    monkeypatch.setattr(run_store, "RECENT_NS", -1)
    return Path(shutil.copytree(original, tmp_path / "record"))


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each reading of all lines into columns."""
    found: list[int] = []

    class Counted(RunColumns):
        def __init__(self, wanted: frozenset[str]) -> None:
            found.append(1)
            super().__init__(wanted)

    monkeypatch.setattr(run_store, "RunColumns", Counted)
    return found


def _kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache/swapstone/derived").iterdir()
    return file


def _same(one: RecordView, other: RecordView) -> None:
    assert list(one.runs) == list(other.runs)
    assert (one.damages, one.last_chain, one.digest) == (other.damages, other.last_chain, other.digest)
    assert msgspec.json.encode(analyse_record(one)) == msgspec.json.encode(analyse_record(other))
    assert context_of(one) == context_of(other)


def test_columns_give_the_same_analysis_the_first_time_and_again(record: Path, readings: list[int]) -> None:
    direct = load(record)
    assert isinstance(direct.runs, tuple) and not direct.damages and len(direct.runs) > 200
    for times in (1, 1, 1):
        found = load_columns(record)
        assert isinstance(found.runs, StoredRuns) and len(readings) == times
        _same(found, direct)
    assert found.runs[-1] == direct.runs[-1] and tuple(found.runs[3:5]) == direct.runs[3:5]
    assert Record(record).report("text", every=True) == Record(record).report("text", every=True)


def test_a_small_record_has_runs_in_memory_and_the_same_analysis(
    original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, made = load_columns(original), list[int]()

    class Counted(RunColumns):
        def __init__(self, wanted: frozenset[str]) -> None:
            made.append(1)
            super().__init__(wanted)

    monkeypatch.setattr(run_table, "RunColumns", Counted)
    assert isinstance(found.runs, TabledRuns) and analyse_record(found).comparisons and context_of(found)
    assert made == [1]
    _same(found, load(original))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["edited", "cut", "twice", "no line", "nothing else"])
def test_damages_are_kept_too(record: Path, readings: list[int], damage: str) -> None:
    lines = (record / "runs.jsonl").read_bytes().splitlines(keepends=True)
    changes: dict[str, Callable[[], list[bytes]]] = {
        "edited": lambda: [*lines[:5], lines[5].replace(b'"passes":1', b'"passes":2'), *lines[6:]],
        "cut": lambda: [*lines[:-1], lines[-1][:50]],
        "twice": lambda: [*lines[:7], lines[6], *lines[7:]],
        "nothing else": lambda: [b"{}\n", b"x\n"],
        "no line": lambda: [*lines[:9], b"\xff\n", *lines[9:]],
    }
    (record / "runs.jsonl").write_bytes(b"".join(changes[damage]()))
    direct = load(record)
    assert direct.damages
    for _ in range(2):
        _same(load_columns(record), direct)
    assert len(readings) == 1


@pytest.mark.slow
def test_a_record_that_changes_is_read_again(record: Path, readings: list[int]) -> None:
    load_columns(record)
    lines = (record / "runs.jsonl").read_bytes().splitlines(keepends=True)
    (record / "runs.jsonl").write_bytes(b"".join(lines[:-1]))
    _same(load_columns(record), load(record))
    experiment = (record / "experiment.json").read_bytes()
    (record / "experiment.json").write_bytes(experiment.replace(b"b_string_strlen", b"b_string_strchr"))
    _same(load_columns(record), load(record))
    assert len(readings) == 3


def test_a_record_that_changed_just_now_is_not_kept(
    record: Path, readings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_store, "RECENT_NS", 10**18)
    for times in (1, 2):
        assert isinstance(load_columns(record).runs, StoredRuns) and len(readings) == times


def test_the_columns_of_a_complete_record_that_changed_just_now_are_kept_after_a_wait(
    record: Path, readings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_store, "RECENT_NS", 200_000_000)
    for _ in range(2):
        (record / "runs.jsonl").touch()
        load_columns(record)
        load_columns(record)
    assert len(readings) == 2, "each change is read once"
    (record / "seal.json").unlink()
    (record / "runs.jsonl").touch()
    monkeypatch.setattr(run_store, "RECENT_NS", 10**18)
    for _ in range(2):
        load_columns(record)
    assert len(readings) == 4, "an experiment that may go on is read at once, and not kept"


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _flip(file: Path, place: float) -> None:
    data = bytearray(file.read_bytes())
    data[int(place * (len(data) - 1))] ^= 1
    file.write_bytes(data)


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _of_another_key(file: Path) -> None:
    key = Path(os.environ["XDG_STATE_HOME"], "swapstone/key")
    key.write_bytes(key.read_bytes()[::-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        _truncate,
        lambda file: _flip(file, 0),
        lambda file: _flip(file, 0.1),
        lambda file: _flip(file, 0.7),
        lambda file: _flip(file, 1),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff" * 100),
        lambda file: file.chmod(0o666),
        _link,
        _fifo,
        _of_another_key,
    ],
    ids=["truncated", "mac", "header", "column", "end", "empty", "length", "writable", "link", "fifo", "other key"],
)
def test_a_file_that_is_damaged_or_of_others_is_ignored_and_made_again(
    record: Path, readings: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    direct = load(record)
    load_columns(record)
    damage(_kept(tmp_path))
    _same(load_columns(record), direct)
    assert len(readings) == 2
    load_columns(record)
    assert len(readings) == 2, "it was not made again"


def test_columns_are_not_kept_where_they_can_t_be(record: Path, readings: list[int], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    for times in (1, 2):
        _same(load_columns(record), load(record))
        assert len(readings) == times


def test_the_oldest_files_are_removed(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_columns(record)
    old = _kept(tmp_path).with_name("old")
    old.write_bytes(bytes(1000))
    os.utime(old, (1, 1))
    monkeypatch.setattr(record_cache, "FOLDER_BYTES", _kept_size(old.parent) - 1)
    record_cache.remove_oldest.cache_clear()
    (record / "runs.jsonl").touch()
    load_columns(record)
    assert not old.exists() and _kept(tmp_path).stat().st_size > 1000


def _kept_size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def test_a_run_is_not_read_from_a_file_that_changed(record: Path) -> None:
    found = load_columns(record)
    with (record / "runs.jsonl").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RecordError, match="changed while it was read"):
        found.runs[0]
    (record / "runs.jsonl").unlink()
    with pytest.raises(RecordError, match="changed while it was read"):
        list(found.runs)
