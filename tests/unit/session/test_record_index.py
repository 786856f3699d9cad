# SPDX-License-Identifier: MIT OR Apache-2.0
"""The index of queries: what it keeps, when that is out of date, and that it can always be made again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swapstone.core.record import RecordWriter
from swapstone.core.session import query, record_index, table_cache
from swapstone.core.session.query import all_records, query_records
from swapstone.core.session.record_index import NamedRecord, RecordIndex, Rows
from tests.unit import builders


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[NamedRecord]:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "two"):
        add_runs(tmp_path / "records" / name, 3)
    return sorted(all_records())


def add_runs(path: Path, blocks: int) -> None:
    experiment = builders.experiment()
    with RecordWriter.create(path, experiment) as writer:
        for run in builders.runs(experiment, blocks):
            writer.append(run)
        writer.seal("complete", "test", "")


class Computed:
    """Computes rows, and lists the records of which it did."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, record: NamedRecord) -> Mapping[str, Rows]:
        self.names.append(record.name)
        return {"t": [{"name": record.name, "number": len(self.names)}]}


def indexed(index: Path, records: Sequence[NamedRecord], kind: str = "k") -> tuple[list[str], list[object]]:
    """Return of which records rows were computed, and the rows' names."""
    computed = Computed()
    with RecordIndex(index) as opened:
        found = [row["name"] for _, rows in opened.rows(records, kind, ("t",), computed) for row in rows["t"]]
    return computed.names, found


def test_rows_are_computed_once(records: list[NamedRecord], tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert indexed(index, records) == (["one", "two"], ["one", "two"])
    assert indexed(index, records) == ([], ["one", "two"])
    assert indexed(index, records, "other") == (["one", "two"], ["one", "two"])
    index.unlink()
    assert indexed(index, records) == (["one", "two"], ["one", "two"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["record.json", "experiment.json", "runs.jsonl", "seal.json"])
@pytest.mark.parametrize("how", ["replaced", "edited in place", "removed"])
def test_a_record_of_which_a_file_changed_is_computed_again(
    records: list[NamedRecord], tmp_path: Path, name: str, how: str
) -> None:
    index = tmp_path / "index"
    indexed(index, records)
    file = records[1].path / name
    data, times = file.read_bytes(), file.stat()
    if how == "replaced":
        other = tmp_path / "other"
        other.write_bytes(data)
        other.replace(file)
    elif how == "removed":
        file.unlink()
    else:
        file.write_bytes(data)  # the same size
    if how != "removed":
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # a time of modification can be set back
    assert indexed(index, records)[0] == ["two"]


def test_other_code_computes_again(records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(tmp_path / "index", records)
    monkeypatch.setattr(record_index, "state_of_code", lambda: "another version")
    assert indexed(tmp_path / "index", records)[0] == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + bytes(100)])
def test_a_damaged_index_is_made_again(records: list[NamedRecord], tmp_path: Path, content: bytes) -> None:
    index = tmp_path / "index"
    index.write_bytes(content)
    assert indexed(index, records) == (["one", "two"], ["one", "two"])
    assert indexed(index, records) == ([], ["one", "two"])


@pytest.mark.slow
def test_an_index_of_another_form_is_made_again(records: list[NamedRecord], tmp_path: Path) -> None:
    """A view instead of the table could be a query without an end."""
    index = tmp_path / "index"
    with sqlite3.connect(index) as connection:
        connection.execute("CREATE VIEW entries AS SELECT 'a' AS path, 'k' AS kind, '' AS state, zeroblob(9) AS rows")
    connection.close()
    assert indexed(index, records) == (["one", "two"], ["one", "two"])
    assert indexed(index, records) == ([], ["one", "two"])


def test_rows_of_other_tables_are_computed_again(records: list[NamedRecord], tmp_path: Path) -> None:
    index = tmp_path / "index"
    indexed(index, records)
    with sqlite3.connect(index) as connection:
        connection.execute("UPDATE entries SET rows = CAST('{}' AS BLOB)")
    connection.close()
    assert indexed(index, records) == (["one", "two"], ["one", "two"])


def test_damaged_rows_are_computed_again(records: list[NamedRecord], tmp_path: Path) -> None:
    index = tmp_path / "index"
    indexed(index, records)
    with sqlite3.connect(index) as connection:
        connection.execute("UPDATE entries SET rows = CAST('[1]' AS BLOB) WHERE path LIKE '%one'")
        connection.execute("UPDATE entries SET rows = 7 WHERE path LIKE '%two'")
    connection.close()
    assert indexed(index, records) == (["one", "two"], ["one", "two"])


def test_without_a_place_for_the_index_everything_is_computed(records: list[NamedRecord], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert indexed(tmp_path / "file" / "index", records) == (["one", "two"], ["one", "two"])


def test_while_another_process_writes_it_everything_is_computed(
    records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    monkeypatch.setattr(record_index, "WAIT_S", 0.01)
    indexed(index, records)
    other = sqlite3.connect(index, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert indexed(index, records) == (["one", "two"], ["one", "two"])
    other.execute("ROLLBACK")
    other.close()
    assert indexed(index, records) == ([], ["one", "two"])


def test_records_that_are_gone_leave_the_index(records: list[NamedRecord], tmp_path: Path) -> None:
    index = tmp_path / "index"
    indexed(index, records)
    shutil.rmtree(records[0].path)
    (records[1].path / "seal.json").unlink()
    indexed(index, records[1:])
    with sqlite3.connect(index) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchall() == [(1,)]
    connection.close()


@pytest.mark.slow
def test_queries_give_the_same_from_the_index(records: list[NamedRecord]) -> None:
    pytest.importorskip("duckdb")
    for sql in (
        "SELECT * FROM records ORDER BY record",
        "SELECT * FROM comparisons ORDER BY ALL",
        "SELECT * FROM effects ORDER BY ALL",
    ):
        first, again = query_records(sql), query_records(sql)
        assert first is not None and again is not None
        assert first.columns == again.columns and first.fetchall() == again.fetchall()
    shutil.rmtree(records[0].path)
    found = query_records("SELECT DISTINCT record FROM comparisons")
    assert found is not None and found.fetchall() == [("two",)]


class TestTables:
    """Whole tables are kept as files; a file that is not of this state of the records, or damaged, is not used."""

    SQL = "SELECT * EXCLUDE (path) FROM records JOIN comparisons USING (record) ORDER BY ALL"

    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("duckdb")
        monkeypatch.setattr(table_cache, "FEWEST_RECORDS", 2)

    def result(self) -> list[tuple[object, ...]]:
        found = query_records(self.SQL)
        assert found is not None
        return found.fetchall()

    def files(self, tmp_path: Path) -> list[Path]:
        return sorted((tmp_path / "cache" / "swapstone" / "query").glob("*.parquet"))

    def test_a_kept_table_is_used_and_gives_the_same(
        self, records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = self.result()
        assert {row[0] for row in first} == {"one", "two"}
        assert [path.name for path in self.files(tmp_path)] == ["comparisons.parquet", "records.parquet"]
        with monkeypatch.context() as patch:
            patch.setattr(query, "_table_from", None)
            found = query_records(self.SQL)
        assert found is not None and found.fetchall() == first

    @pytest.mark.slow
    def test_another_state_of_a_record_is_another_table(self, records: list[NamedRecord]) -> None:
        first = self.result()
        path = records[0].path / "runs.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-4]))
        again = self.result()
        assert again != first and {row[0] for row in again} == {"one", "two"}
        shutil.rmtree(records[1].path)
        add_runs(records[1].path.with_name("three"), 3)
        assert {row[0] for row in self.result()} == {"one", "three"}

    @pytest.mark.parametrize("how", ["edited", "truncated", "a link", "a FIFO", "missing", "another table"])
    @pytest.mark.slow
    def test_a_damaged_file_is_made_again(self, records: list[NamedRecord], tmp_path: Path, how: str) -> None:
        first = self.result()
        path = self.files(tmp_path)[0]
        data = path.read_bytes()
        if how == "edited":
            path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
        elif how == "truncated":
            path.write_bytes(data[:-1])
        elif how == "another table":
            path.write_bytes(self.files(tmp_path)[1].read_bytes())
        else:
            path.unlink()
            if how == "a link":
                (tmp_path / "elsewhere").write_bytes(data)
                path.symlink_to(tmp_path / "elsewhere")
            elif how == "a FIFO":
                os.mkfifo(path)
        assert self.result() == first
        assert self.files(tmp_path)[0].is_file() and not self.files(tmp_path)[0].is_symlink()

    @pytest.mark.slow
    def test_without_space_nothing_is_kept(
        self, records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        first = self.result()
        for path in self.files(tmp_path):
            path.unlink()
        monkeypatch.setattr(Path, "replace", full)
        assert self.result() == first and self.files(tmp_path) == []
        assert not list((tmp_path / "cache" / "swapstone" / "query").glob(".*"))

    def test_few_records_keep_none(
        self, records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(table_cache, "FEWEST_RECORDS", 3)
        self.result()
        assert self.files(tmp_path) == []

    @pytest.mark.slow
    def test_runs_are_kept_unless_they_are_large(
        self, records: list[NamedRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def counted() -> list[tuple[object, ...]]:
            found = query_records(
                "SELECT record, count(*), min(block), sum(elapsed_ns) FROM runs GROUP BY ALL ORDER BY ALL"
            )
            assert found is not None
            return found.fetchall()

        with monkeypatch.context() as patch:
            patch.setattr(table_cache, "MOST_RUN_BYTES", 10)
            first = counted()
        assert [row[:3] for row in first] == [("one", 16, 0), ("two", 16, 0)]
        assert "kept_runs.parquet" not in [path.name for path in self.files(tmp_path)]
        assert counted() == first == counted()
        assert "kept_runs.parquet" in [path.name for path in self.files(tmp_path)]
        with (records[0].path / "runs.jsonl").open("ab") as file:
            file.write((records[0].path / "runs.jsonl").read_bytes().splitlines(keepends=True)[-1])
        assert [row[1] for row in counted()] == [17, 16]
