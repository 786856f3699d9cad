# SPDX-License-Identifier: MIT OR Apache-2.0
"""A query reads the tables of the records, and no file, variable, network or extension, unless files are allowed."""

from __future__ import annotations

import csv
import io
import resource
from pathlib import Path
from typing import Any

import pytest

from swapstone.core.model import UserError
from swapstone.core.session import query as query_module
from swapstone.core.session.query import NamedRecord, opened_runs, query
from tests.e2e.cli import fake
from tests.e2e.cli import swapstone as command
from tests.small_records import compared

SECRET = "classified"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queried")
    compared(libc="glibc,musl", out=folder / "r", only="b_string_strlen", blocks=6, seed=1, target=fake(folder))
    (folder / "secret.csv").write_text(f"a\n{SECRET}\n")
    return folder


@pytest.fixture(autouse=True)
def _root(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(records))
    monkeypatch.chdir(records)


def _rows(sql: str, *, allow_files: bool = False) -> list[tuple[object, ...]]:
    found = query(sql, allow_files=allow_files)
    assert found is not None
    return found.fetchall()


READS = [
    "SELECT * FROM read_csv('secret.csv')",
    "SELECT * FROM 'secret.csv'",
    "SELECT content FROM read_text('secret.csv')",
    "SELECT * FROM glob('*')",
    "SELECT * FROM read_text('r/experiment.json')",
    "SELECT * FROM runs, read_blob('/etc/passwd')",
]

WRITES = [
    "COPY (SELECT 1) TO 'out.csv'",
    "COPY (SELECT 1) TO 'r/runs.jsonl'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
    "EXPORT DATABASE 'out'",
    "ATTACH 'out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA memory_limit='1GB'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
    "CALL pragma_version()",
]


@pytest.mark.slow
def test_the_tables_are_read() -> None:
    assert _rows("SELECT count(*) FROM runs")[0] == (14,)
    assert _rows("SELECT DISTINCT metric FROM samples WHERE metric = 'wall'") == [("wall",)]
    assert _rows("SELECT verdict FROM comparisons WHERE metric = 'wall' AND suite = 'libc'")
    assert _rows("SELECT state FROM records") == [("complete",)]
    assert _rows("EXPLAIN SELECT * FROM runs")
    assert ("workload",) in [row[:1] for row in _rows("DESCRIBE runs")]
    assert _rows("WITH a AS (SELECT 1 AS x) SELECT x FROM a ORDER BY 1") == [(1,)]


@pytest.mark.parametrize("sql", READS)
def test_no_other_file_is_read(sql: str) -> None:
    with pytest.raises(UserError) as caught:
        _rows(sql)
    assert SECRET not in str(caught.value)
    assert "--allow-files" in caught.value.hint


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_is_written_loaded_or_set(sql: str, records: Path) -> None:
    runs = (records / "r" / "runs.jsonl").read_bytes()
    before = sorted(records.iterdir())
    with pytest.raises(UserError) as caught:
        query(sql)
    assert "--allow-files" in caught.value.hint
    assert sorted(records.iterdir()) == before and (records / "r" / "runs.jsonl").read_bytes() == runs


def test_the_database_is_locked() -> None:
    names = ("enable_external_access", "lock_configuration", "python_enable_replacements", "autoload_known_extensions")
    columns = ", ".join(f"current_setting('{name}')" for name in names)
    assert _rows(f"SELECT {columns}, current_setting('temp_directory')") == [(False, True, False, False, "")]


def test_files_are_read_and_written_if_they_are_allowed(records: Path) -> None:
    assert _rows("SELECT * FROM read_csv('secret.csv')", allow_files=True) == [(SECRET,)]
    query("COPY (SELECT count(*) AS n FROM runs) TO 'counted.csv'", allow_files=True)
    assert (records / "counted.csv").read_text().split() == ["n", "14"]
    (records / "counted.csv").unlink()


@pytest.mark.slow
def test_the_command_line_has_an_option_for_it(records: Path) -> None:
    sql = "SELECT * FROM read_csv('secret.csv')"
    refused = command(records, "query", sql, expect=2)
    assert "DuckDB: Permission Error" in refused.stderr and "--allow-files" in refused.stderr
    assert SECRET in command(records, "query", sql, "--allow-files").stdout


@pytest.mark.slow
def test_the_output_of_a_query_cannot_control_the_terminal_or_a_spreadsheet(records: Path) -> None:
    sql = "SELECT chr(27) || '[2J' || chr(155) || chr(8238) AS a, '=1+1' AS b, -1.5 AS c, '-2' AS d"
    for options in ((), ("--json",), ("--csv",)):
        text = command(records, "query", sql, *options).stdout
        assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    found = list(csv.reader(io.StringIO(text)))
    assert found == [["a", "b", "c", "d"], ["\\x1b[2J\\x9b\\u202e", "'=1+1", "-1.5", "-2"]]


def test_a_record_without_readable_runs_does_not_break_the_others(records: Path) -> None:
    """A signal between the files of a record, or a record from elsewhere with something else in their place."""
    for name, make in (
        ("killed", lambda path: None),
        ("linked", lambda path: (path / "runs.jsonl").symlink_to(records / "secret.csv")),
    ):
        folder = records / name
        folder.mkdir()
        for file in ("record.json", "experiment.json"):
            (folder / file).write_bytes((records / "r" / file).read_bytes())
        make(folder)
        try:
            assert _rows("SELECT count(*) FROM runs") == [(14,)], name
        finally:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def test_a_file_that_is_exchanged_after_its_check_is_not_read(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = records / "r" / "runs.jsonl"
    data = runs.read_bytes()
    (records / "secret.jsonl").write_bytes(data.splitlines(keepends=True)[0])
    true_connect = query_module.connect

    def exchanging(*arguments: Any, **others: Any) -> Any:
        runs.unlink()
        runs.symlink_to(records / "secret.jsonl")
        return true_connect(*arguments, **others)

    monkeypatch.setattr(query_module, "connect", exchanging)
    try:
        for allow_files in (False, True):
            assert _rows("SELECT count(*) FROM runs", allow_files=allow_files) == [(14,)]
            runs.unlink()
            runs.write_bytes(data)
    finally:
        runs.unlink()
        runs.write_bytes(data)


def test_the_files_of_a_query_are_closed_and_their_limit_is_as_before(records: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with opened_runs([NamedRecord("r", records / "r"), NamedRecord("none", records / "none")]) as opened:
        ((path, name),) = opened.items()
        assert name == "r" and Path(path).read_bytes() == (records / "r" / "runs.jsonl").read_bytes()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limits[1], limits[1])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


def test_more_records_than_files_may_be_opened_is_an_error(records: Path) -> None:
    every = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with (
        pytest.raises(UserError, match="may open"),
        opened_runs([NamedRecord("r", records / "r")], spare=every),
    ):
        pass
