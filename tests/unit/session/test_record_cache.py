# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is kept of records: when it is out of date, and that it can always be made again."""

from __future__ import annotations

import array
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapstone.cli.main import cli
from swapstone.core.record import RecordView, RecordWriter
from swapstone.core.report.document import Document
from swapstone.core.session import record_cache, run_store
from swapstone.core.session.query import query
from swapstone.core.session.record_cache import find, keep
from tests.unit import builders


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make two records; return a list of the names of those that a query reads."""
    pytest.importorskip("duckdb")
    for name in ("one", "two"):
        experiment = builders.experiment()
        with RecordWriter.create(tmp_path / "records" / name, experiment) as writer:
            for run in builders.runs(experiment, 3):
                writer.append(run)
            writer.seal("complete", "test", "")
    found: list[str] = []
    load = run_store.load_columns

    def noted(path: Path) -> object:
        found.append(path.name)
        return load(path)

    monkeypatch.setattr(run_store, "load_columns", noted)
    return found


def rows(sql: str) -> list[tuple[object, ...]]:
    found = query(sql)
    assert found is not None
    return found.fetchall()


def records() -> list[object]:
    return [name for (name,) in rows("SELECT record FROM records ORDER BY record")]


def test_a_value_is_found_with_its_columns(tmp_path: Path) -> None:
    columns = {"empty": memoryview(array.array("l")), "numbers": memoryview(array.array("l", (1, -2)))}
    floats = {"halves": memoryview(array.array("d", (0.5,)))}
    for value in ("", "a", "ab"):
        keep(tmp_path, "kind", "state", {"text": value}, columns | floats)
        found = find(tmp_path, "kind", "state", dict[str, str])
        assert found is not None and found[0] == {"text": value}
        assert {name: each.tolist() for name, each in found[1].items()} == {
            "empty": [],
            "numbers": [1, -2],
            "halves": [0.5],
        }
    assert find(tmp_path, "kind", "state", dict[str, int]) is None
    assert find(tmp_path, "kind", "other", dict[str, str]) is None
    assert find(tmp_path, "other", "state", dict[str, str]) is None
    assert find(tmp_path / "other", "kind", "state", dict[str, str]) is None


def test_rows_are_computed_once_and_are_the_same(computed: list[str]) -> None:
    for sql in (
        "SELECT * FROM records ORDER BY record",
        "SELECT * FROM comparisons ORDER BY ALL",
        "SELECT * FROM effects ORDER BY ALL",
    ):
        assert rows(sql) == rows(sql)
    assert computed == ["one", "two"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["record.json", "experiment.json", "manifest.json", "runs.jsonl", "seal.json"])
@pytest.mark.parametrize("how", ["replaced", "edited in place", "removed"])
def test_a_record_of_which_a_file_changed_is_computed_again(
    computed: list[str], tmp_path: Path, name: str, how: str
) -> None:
    file = tmp_path / "records" / "two" / name
    if name == "manifest.json":
        file.write_text("{}")
    assert records() == ["one", "two"]
    data, times = file.read_bytes(), file.stat()
    if how == "replaced":
        (tmp_path / "other").write_bytes(data)
        (tmp_path / "other").replace(file)
    elif how == "removed":
        file.unlink()
    else:
        file.write_bytes(data)  # the same size
    if how != "removed":
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # a time of modification can be set back
    gone = (name, how) == ("record.json", "removed")
    assert records() == (["one"] if gone else ["one", "two"])
    assert computed == ["one", "two", *([] if gone else ["two"])]


@pytest.fixture
def shown(tmp_path: Path) -> Callable[[], tuple[str, int]]:
    """Make a record; return a function that shows it, and returns what is printed and whether it was read."""
    experiment = builders.experiment()
    with RecordWriter.create(tmp_path / "records" / "one", experiment) as writer:
        for run in builders.runs(experiment, 3):
            writer.append(run)
        writer.seal("complete", "test", "")

    def show() -> tuple[str, int]:
        read: list[Path] = []
        load_columns = run_store.load_columns

        def noted(path: Path) -> RecordView:
            read.append(path)
            return load_columns(path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_store, "load_columns", noted)
            done = CliRunner().invoke(cli, ["show", "one"], catch_exceptions=False)
        return done.output, len(read)

    return show


def test_a_record_is_read_once_to_be_shown(shown: Callable[[], tuple[str, int]], tmp_path: Path) -> None:
    printed, read = shown()
    assert printed and read
    assert shown() == (printed, 0)
    for change in (
        lambda record: (record / "seal.json").write_bytes((record / "seal.json").read_bytes()),
        lambda record: (record / "seal.json").unlink(),
        lambda record: (record / "explain" / "row").mkdir(parents=True),
        lambda record: (record / "explain" / "row" / "evidence.json").touch(),
        lambda record: (tmp_path / "cache").rename(tmp_path / "other"),
    ):
        change(tmp_path / "records" / "one")
        found, read = shown()
        assert read
        assert shown() == (found, 0)


def test_a_document_that_another_key_marked_is_not_printed(
    shown: Callable[[], tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Path("records/one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWAPSTONE_RECORDS", "records")
    printed, _ = shown()
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        keep(record, record_cache.DOCUMENT, record_cache.state_of(record), Document(title="forged"))
    assert shown() == (printed, 1)
    keep(record, record_cache.DOCUMENT, record_cache.state_of(record), Document(title="kept"))
    assert shown() == ("kept\n", 0)


def test_a_folder_with_too_many_entries_has_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record_cache.state_of(tmp_path)
    monkeypatch.setattr(record_cache, "MOST_ENTRIES", 2)
    for number in range(3):
        (tmp_path / str(number)).touch()
    assert record_cache.state_of(tmp_path) == record_cache.state_of(tmp_path / "none") == ""
    keep(tmp_path, "kind", "", 1)
    assert find(tmp_path, "kind", "", int) is None


def test_other_code_computes_again(computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    records()
    monkeypatch.setattr(record_cache, "state_of_code", lambda: "another version")
    records()
    assert computed == ["one", "two"] * 2


@pytest.mark.parametrize("content", [b"", b"no HMAC", bytes(1000)])
def test_a_damaged_file_is_made_again(computed: list[str], tmp_path: Path, content: bytes) -> None:
    records()
    for file in (tmp_path / "cache/swapstone/derived").iterdir():
        file.write_bytes(content)
    for _ in range(2):
        assert records() == ["one", "two"]
    assert computed == ["one", "two"] * 2


def test_without_a_place_everything_is_computed(computed: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    for _ in range(2):
        assert records() == ["one", "two"]
    assert computed == ["one", "two"] * 2


def test_without_a_home_folder_everything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(record_cache, "cache_dir", no_home)
    keep(tmp_path, "kind", "state", 1)
    assert find(tmp_path, "kind", "state", int) is None


def test_a_record_that_is_gone_is_in_no_table(computed: list[str], tmp_path: Path) -> None:
    assert records() == ["one", "two"]
    shutil.rmtree(tmp_path / "records" / "one")
    assert rows("SELECT DISTINCT record FROM comparisons") == [("two",)]
