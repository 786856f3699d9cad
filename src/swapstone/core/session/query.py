# SPDX-License-Identifier: MIT OR Apache-2.0
"""SQL over records, by DuckDB inside this process.

A query reads the tables and nothing else: no other file, no network, no extension, no variable of this program. That holds for queries
from elsewhere, and for records whose content becomes part of one.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from swapstone.core.model import Analysis, RecordError, UnavailableError, UserError
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record import RecordView, default_root, list_records, open_runs, record_name
from swapstone.core.report import comparison_columns, factorial_export
from swapstone.core.session.open_runs import OpenRuns
from swapstone.core.session.record_index import NamedRecord, RecordIndex, Rows
from swapstone.core.session.table_cache import TableCache, keep_runs
from swapstone.core.session.unusable_values import named_record

if TYPE_CHECKING:
    import duckdb

_RUN_COLUMNS = """{
    number: 'BIGINT',
    run: 'STRUCT(
        trial STRUCT(suite VARCHAR, workload VARCHAR, load VARCHAR, variant VARCHAR, block BIGINT, "position" BIGINT,
            prime BIGINT),
        status VARCHAR, reason VARCHAR, samples STRUCT(metric VARCHAR, "values" DOUBLE[])[], observed VARCHAR[][],
        facts JSON, passes BIGINT, started_unix_ns BIGINT, elapsed_ns BIGINT, name VARCHAR)'
}"""

# The views, in terms of `lines`, which reads the file runs.jsonl of every record for each query.
_VIEWS = """
CREATE VIEW runs AS SELECT
    record, run.trial.block AS block, run.trial.position AS position, run.trial.suite AS suite,
    run.trial.workload AS workload, run.trial.load AS load, run.trial.variant AS variant,
    coalesce(run.trial.prime, 0) AS prime, run.status AS status, run.reason AS reason, run.passes AS passes,
    TRY(make_timestamp_ns(run.started_unix_ns)) AS started,
    run.elapsed_ns AS elapsed_ns, run.facts AS facts, run.name AS name
FROM lines;
CREATE VIEW blocks AS SELECT record, block, suite, workload, load, max(prime) AS prime FROM runs GROUP BY ALL;
CREATE VIEW counted AS SELECT record, block, suite, workload, load FROM blocks
    QUALIFY block = 0 OR prime = max(prime) FILTER (block > 0) OVER (PARTITION BY record, suite, workload, load);
CREATE VIEW samples AS SELECT
    record, block, suite, workload, load, variant, sample.metric AS metric, list_median(sample."values") AS value,
    sample."values" AS "values"
FROM (SELECT record, run.trial.block AS block, run.trial.suite AS suite, run.trial.workload AS workload,
             run.trial.load AS load, run.trial.variant AS variant, unnest(run.samples) AS sample FROM lines
      WHERE coalesce(run.trial.prime, 0) = 0) SEMI JOIN counted USING (record, block, suite, workload, load);
"""

_COMPARISON_FIELDS = {"record": "VARCHAR", **comparison_columns.QUERIED}


_EFFECT_FIELDS = {
    "record": "VARCHAR",
    "kind": "VARCHAR",
    "suite": "VARCHAR",
    "workload": "VARCHAR",
    "load": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "change": "VARCHAR",
    "changed_by": "VARCHAR",
    "held": "VARCHAR",
    "missing": "VARCHAR",
    "blocks": "BIGINT",
    "scale": "VARCHAR",
    "effect": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "p_value": "DOUBLE",
    "verdict": "VARCHAR",
    "effect_without": "DOUBLE",
    "effect_within": "DOUBLE",
    "closed": "DOUBLE",
}


_RECORD_FIELDS = {
    "record": "VARCHAR",
    "path": "VARCHAR",
    "created": "TIMESTAMP",
    "name": "VARCHAR",
    "target": "VARCHAR",
    "state": "VARCHAR",
    "runs": "BIGINT",
}

TABLES = ("records", "runs", "samples", "comparisons", "effects")
_ANALYSED = ("comparisons", "effects")
"""The tables that need every record analysed."""


class Relation:
    """A table of results, with the methods of a DuckDB relation: ``.df()``, ``.pl()``, ``.arrow()``, ``.filter()`` and others.

    Args:
        relation: DuckDB's.
        connection: the database that it belongs to.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, connection: duckdb.DuckDBPyConnection) -> None:
        self._relation = relation
        self._connection = connection

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._relation.columns)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples."""
        return list(self._relation.fetchall())

    def dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.fetchall()]

    def json_rows(self) -> msgspec.Raw:
        """Return all rows as a JSON array of objects, for msgspec's encoder, which refuses an integer of more than 64 bits."""
        return msgspec.Raw(json.dumps(_plain(self.dicts())).encode())

    def df(self) -> Any:  # noqa: ANN401 - pandas is optional
        """Return a pandas data frame.

        Raises:
            UnavailableError: pandas is not installed.
        """
        _require("pandas", "numpy")
        return self._relation.df()

    def pl(self) -> Any:  # noqa: ANN401 - polars is optional
        """Return a polars data frame.

        Raises:
            UnavailableError: polars or pyarrow is not installed.
        """
        _require("polars", "pyarrow")
        return self._relation.pl()

    def arrow(self) -> Any:  # noqa: ANN401 - pyarrow is optional
        """Return a pyarrow table.

        Raises:
            UnavailableError: pyarrow is not installed.
        """
        _require("pyarrow")
        return self._relation.to_arrow_table()

    def sql(self, query: str) -> Relation:
        """Return the result of a query, in which this table is called ``rows``."""
        result: Any = self._relation.query("rows", query)
        return Relation(result, self._connection)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - DuckDB's own methods
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._relation, name)

    def __len__(self) -> int:
        return int(self._relation.shape[0])

    def __repr__(self) -> str:
        return repr(self._relation)


def _duckdb() -> ModuleType:
    """Import DuckDB, which is slow, and an extra of an installed package because of its size.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise UnavailableError(
            "Queries and tables need DuckDB, which is not installed.",
            "Install it, an extra of the package: pip install 'swapstone[query]'. Without it: swapstone export last --format csv",
        ) from error


def _require(*modules: str) -> None:
    """Raise an `UnavailableError` for a module that is not installed."""
    missing = next((module for module in modules if importlib.util.find_spec(module) is None), None)
    if missing is not None:
        raise UnavailableError(
            f"{missing} is not installed, and Swapstone works without it.",
            f"Install it: pip install {' '.join(modules)}. Without it: .fetchall() or .dicts()",
        )


def all_records() -> list[NamedRecord]:
    """Return every record under the root of records."""
    return [NamedRecord(record_name(path), path) for path in list_records()]


def query_records(sql: str, *, allow_files: bool = False) -> Relation | None:
    """Run a query over all records.

    Args:
        sql: in DuckDB's dialect. The tables are `TABLES`; `swapstone query --help` lists their columns.
        allow_files: whether it may do more than read these tables: read and write other files, use networks, load extensions.

    Returns:
        The result; None for a statement that has none.

    Raises:
        RecordError: there is no record with runs.
        UserError: DuckDB rejects the query, or it does more than read the tables.
    """
    module = _duckdb()
    records = all_records()
    wanted = [name for name in (*_ANALYSED, "runs") if name in sql.lower()]
    try:
        reads_runs = allow_files or _READS_RUNS.search(sql) is not None
        with OpenRuns(records if reads_runs else _one_with_runs(records)) as runs:
            connection = connect(records, runs, wanted)
            if not allow_files:
                _require_reading(module, connection, sql)
                _lock(connection, runs)
            result: Any = connection.sql(sql)
            return None if result is None else _result(result, connection)
    except module.PermissionException as error:
        raise UserError(f"DuckDB: {str(error).strip()}", _ALLOW_FILES) from error
    except module.Error as error:
        raise UserError(f"DuckDB: {str(error).strip()}", "`swapstone query --help` lists the tables.") from error


_READS_RUNS = re.compile(
    r"runs|samples|lines|blocks|counted|names|show|describe|summarize|pragma|explain|schema|duckdb", re.IGNORECASE
)
"""A query without these words uses no table that is read from the files of the runs, and lists no tables."""


def _one_with_runs(records: Iterable[NamedRecord]) -> list[NamedRecord]:
    """Return the first record that has runs."""
    for record in records:
        descriptor = open_runs(record.path)
        if descriptor is not None:
            os.close(descriptor)
            return [record]
    return []


_ALLOW_FILES = "A query reads the tables of `swapstone query --help` only. For one that you trust with your files, add --allow-files."
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?", re.IGNORECASE)


def _require_reading(module: ModuleType, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Check that a query has no statement but SELECT and what DuckDB takes for one, such as DESCRIBE; or EXPLAIN of one.

    Raises:
        UserError: it has another one.
    """
    reading, explaining = module.StatementType.SELECT, module.StatementType.EXPLAIN
    for statement in connection.extract_statements(sql):
        kind = statement.type
        if kind == explaining:
            inner = connection.extract_statements(_EXPLAIN.sub("", statement.query, count=1))
            kind = reading if all(each.type == reading for each in inner) else kind
        if kind != reading:
            raise UserError(f"A query is a SELECT, and this is {str(kind).rpartition('.')[2]}.", _ALLOW_FILES)


def _lock(connection: duckdb.DuckDBPyConnection, runs: OpenRuns) -> None:
    """Allow no access to anything but the files of the runs, and no change of that."""
    files = ", ".join(map(_quoted, runs.paths))
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute("SET python_enable_replacements = false")  # else a name may be a variable of this program
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _result(relation: Any, connection: duckdb.DuckDBPyConnection) -> Relation:  # noqa: ANN401 - the method depends on DuckDB's version
    """Run a query once and store its rows: the files of the runs are closed after it."""
    # DuckDB 2 has `materialize`, DuckDB 1 `execute`.
    stored = relation.materialize() if hasattr(relation, "materialize") else relation.execute()
    connection.execute("DROP VIEW lines")
    return Relation(stored, connection)


def table_of(record: NamedRecord, table: str, analysis: Analysis | None = None) -> Relation:
    """Return a table of one record.

    Args:
        record: its name and folder.
        table: one of `TABLES`.
        analysis: of the record, if it was computed already.

    Raises:
        RecordError: the record has no runs.
    """
    known = {record.path: analysis} if analysis is not None else {}
    with OpenRuns([record]) as runs:
        connection = connect([record], runs, [table], known)
        return _result(connection.sql(f"SELECT * FROM {table}"), connection)  # noqa: S608 - a name of TABLES


def connect(
    records: Sequence[NamedRecord],
    runs: OpenRuns,
    tables: Iterable[str],
    known: Mapping[Path, Analysis] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a database in memory with the tables of some records.

    Args:
        records: whose tables it holds.
        runs: of those that have any. They are read until they are closed.
        tables: those of `comparisons` and `effects` that are needed, which take an analysis of every record; and ``runs`` to keep them.
        known: analyses that were computed already.

    Raises:
        RecordError: no record has a run.
    """
    module = _duckdb()
    if not runs.records:
        raise RecordError(f"There are no runs in {default_root()}.", "Make a record: swapstone compare libc=glibc,musl")
    connection: duckdb.DuckDBPyConnection = module.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{_memory_mib()}MiB",
            "temp_directory": "",  # by default it is a folder in the current one
        }
    )
    with TemporaryFolder("query") as scratch:
        _define_lines(connection, runs)
        connection.execute(_VIEWS)
        with RecordIndex() as index:
            cache = TableCache(index, () if known else records)
            if not cache.load(connection, "records"):
                read = index.rows(records, "record", ("records",), lambda each: {"records": [_record_row(each.path)]})
                rows = [
                    {**row, "record": each.name, "path": utf8_path(each.path)}
                    for each, found in read
                    for row in found["records"]
                ]
                _table_from(connection, Path(scratch) / "records.json", "records", _RECORD_FIELDS, rows)
                cache.keep(connection, "records")
            if "runs" in tables:
                keep_runs(connection, cache, runs.size_bytes)
            fields = {"comparisons": _COMPARISON_FIELDS, "effects": _EFFECT_FIELDS}
            if wanted := [name for name in fields if name in tables and not cache.load(connection, name)]:
                analysed = _analysed_rows(index, records, known or {})
                for name in wanted:
                    rows = [{**row, "record": each.name} for each, found in analysed for row in found[name]]
                    _table_from(connection, Path(scratch) / f"{name}.json", name, fields[name], rows)
                    cache.keep(connection, name)
    return connection


def _define_lines(connection: duckdb.DuckDBPyConnection, runs: OpenRuns) -> None:
    """Define the view `lines`, which reads the files of the runs for each query."""
    # One statement: an insertion for each of thousands of records takes seconds.
    named = zip(runs.paths, runs.records, strict=True)
    values = ", ".join(f"({_quoted(path)}, {_quoted(each.name)})" for path, each in named)
    connection.execute(f"CREATE TABLE names AS SELECT * FROM (VALUES {values}) AS named (file, record)")  # noqa: S608 - quoted
    files = ", ".join(map(_quoted, runs.paths))
    connection.execute(
        f"CREATE VIEW lines AS SELECT names.record, run FROM read_json([{files}], format='newline_delimited', "  # noqa: S608
        f"ignore_errors=true, filename=true, columns={_RUN_COLUMNS}) AS read JOIN names ON read.filename = names.file"
    )


def _memory_mib() -> int:
    """Return half of this machine's memory, which no query exceeds."""
    return max(256, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 21)


def _load(path: Path) -> RecordView:
    from swapstone.core.session.run_store import load_columns  # noqa: PLC0415 - imports numpy, and only new records are read

    return load_columns(path)


def _record_row(path: Path) -> dict[str, Any]:
    try:
        view = _load(path)
    except RecordError as error:
        return {"state": f"unreadable: {error.message}"}
    return {
        "created": view.meta.created.removesuffix("+00:00"),
        "name": view.experiment.name,
        "target": view.experiment.target,
        "state": view.seal.state if view.seal else "unsealed",
        "runs": len(view.runs),
    }


def _analysed_rows(
    index: RecordIndex, records: Sequence[NamedRecord], known: Mapping[Path, Analysis]
) -> list[tuple[NamedRecord, Mapping[str, Rows]]]:
    """Return the rows of comparisons and effects of each record; none of a record that can't be read, which the table `records` names."""
    if len(records) == 1 and records[0].path in known:
        return [(records[0], _rows_of(known[records[0].path]))]
    return list(index.rows(records, "analysis", _ANALYSED, lambda each: _rows_of(_analysis(each.path))))


def _analysis(path: Path) -> Analysis | None:
    from swapstone.core.session.analysis import analyse_record  # noqa: PLC0415 - imports numpy, and only two tables need it

    try:
        with named_record(path):
            return analyse_record(_load(path))
    except UserError:  # it can't be read, or this version lacks a workload of it
        return None


def _rows_of(analysis: Analysis | None) -> Mapping[str, Rows]:
    if analysis is None:
        return {"comparisons": [], "effects": []}
    return {"comparisons": _comparison_rows(analysis), "effects": _effect_rows(analysis)}


def _comparison_rows(analysis: Analysis) -> Rows:
    return [dict(comparison_columns.queried(row)) for row in comparison_columns.rows_of(analysis)]


def _effect_rows(analysis: Analysis) -> Rows:
    names = [name for name in _EFFECT_FIELDS if name != "record"]
    return [
        {name: row[name] for name in names} | {"workload": row["workload"] or None}
        for row in factorial_export.rows(analysis)
    ]


def _table_from(
    connection: duckdb.DuckDBPyConnection, file: Path, name: str, fields: dict[str, str], rows: list[dict[str, object]]
) -> None:
    file.write_bytes(b"".join(map(_json_line, rows)))
    columns = ", ".join(f"{field}: '{kind}'" for field, kind in fields.items())
    connection.execute(
        f"CREATE TABLE {name} AS SELECT * FROM "  # noqa: S608 - every part is ours
        f"read_json({_quoted(str(file))}, format='newline_delimited', columns={{{columns}}})"
    )


def _json_line(row: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(row) + b"\n"
    except UnicodeEncodeError:  # a path that is not UTF-8
        return json.dumps(row).encode() + b"\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(value: object) -> object:
    """Return a value of DuckDB for JSON: a number that is not finite is null, and of a type that JSON does not have, its text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
