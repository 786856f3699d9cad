# SPDX-License-Identifier: MIT OR Apache-2.0
"""SQL over records, by DuckDB inside this process.

A query reads the tables and nothing else: no other file, no network, no extension, no variable of this program. That holds for queries
from elsewhere, and for records whose content becomes part of one.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import json
import math
import os
import re
import resource
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from swapstone.core.model import Analysis, RecordError, UnavailableError, UserError
from swapstone.core.model.parts import provided
from swapstone.core.model.safe_text import utf8_path
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record import RecordView, default_root, list_records, open_runs, record_name
from swapstone.core.report import comparison_columns
from swapstone.core.session import record_cache
from swapstone.core.session.record_errors import named_record

if TYPE_CHECKING:
    import duckdb

_RUN_COLUMNS = """{
    number: 'BIGINT',
    run: 'STRUCT(
        trial STRUCT(suite VARCHAR, workload VARCHAR, load VARCHAR, variant VARCHAR, block BIGINT, "position" BIGINT,
            prime BIGINT, extra BIGINT),
        status VARCHAR, reason VARCHAR, samples STRUCT(metric VARCHAR, "values" DOUBLE[])[], observed VARCHAR[][],
        facts JSON, passes BIGINT, started_unix_ns BIGINT, elapsed_ns BIGINT, name VARCHAR)'
}"""

# The views, in terms of `lines`, which reads the file runs.jsonl of every record for each query.
_VIEWS = """
CREATE VIEW runs AS SELECT
    record, run.trial.block AS block, run.trial.position AS position, run.trial.suite AS suite,
    run.trial.workload AS workload, run.trial.load AS load, run.trial.variant AS variant,
    coalesce(run.trial.prime, 0) AS prime, coalesce(run.trial.extra, 0) AS extra, run.status AS status,
    run.reason AS reason, run.passes AS passes,
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
_FIELDS = {"records": _RECORD_FIELDS, "comparisons": _COMPARISON_FIELDS, "effects": _EFFECT_FIELDS}
"""Of the tables that are not read from the files of the runs. The last two need every record analysed."""


class QueryTable(NamedTuple):
    """A table that a part provides, beside those of the records.

    Attributes:
        name: of the table; its rows are made for a query that reads it.
        fields: the type of each column, in DuckDB's words.
        rows: returns the rows, by the names of their columns.
    """

    name: str
    fields: Mapping[str, str]
    rows: Callable[[], Iterable[Mapping[str, Any]]]


Rows: TypeAlias = list[dict[str, Any]]
"""Rows of one table, by the names of their columns; without the record's name and path, which depend on the root."""


class NamedRecord(NamedTuple):
    """A record, and the name that the column ``record`` has."""

    name: str
    path: Path


class Relation:
    """A table of results, with the methods of a DuckDB relation: ``.df()``, ``.pl()``, ``.arrow()``, ``.filter()`` and others.

    Args:
        relation: DuckDB's.
        connection: the database that it belongs to.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, connection: duckdb.DuckDBPyConnection) -> None:
        self._relation = relation
        self._connection = connection

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples."""
        return list(self._relation.fetchall())

    def dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        return [dict(zip(self._relation.columns, row, strict=True)) for row in self.fetchall()]

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


def query(sql: str, *, allow_files: bool = False) -> Relation | None:
    """Run a query over all records.

    Args:
        sql: in DuckDB's dialect. The tables are `TABLES` and those of parts; `swapstone query --help` lists their columns.
        allow_files: whether it may do more than read these tables: read and write other files, use networks, load extensions.

    Returns:
        The result; None for a statement that has none.

    Raises:
        RecordError: there is no record with runs.
        UserError: DuckDB rejects the query, or it does more than read the tables.
    """
    module = _duckdb()
    records = [NamedRecord(record_name(path), path) for path in list_records()]
    reads_runs = allow_files or _READS_RUNS.search(sql) is not None
    others = [
        each
        for each in provided("query-table", QueryTable)
        if re.search(rf'(\bfrom|\bjoin|,)\s*"?{each.name}\b', sql, re.I)
    ]
    try:
        with opened_runs(records if reads_runs else ()) as runs:
            tables = [name for name in _FIELDS if name in sql.lower()]
            connection = connect(records, runs if reads_runs else None, tables, others=others)
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


@contextlib.contextmanager
def opened_runs(records: Iterable[NamedRecord], spare: int = 256) -> Iterator[dict[str, str]]:
    """Open and check the runs of records once: a database that opened them by their paths could read other files than those.

    Args:
        records: of which. Those without runs, and those whose runs can't be read, are left out.
        spare: descriptors to leave for everything else: the database, its extensions, threads.

    Yields:
        The names of the records by the paths of the opened files. They are closed at the end, and the limit of open files is as before.

    Raises:
        UserError: there are more records with runs than this process may open files.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(0, limits[1] - spare), limits[1]))
        found = {}
        try:
            for record in records:
                if (descriptor := open_runs(record.path)) is not None:
                    stack.callback(os.close, descriptor)
                    found[f"/proc/self/fd/{descriptor}"] = record.name
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise UserError(
                f"A query opens the runs of every record, and this process may open {limits[1]} files only.",
                "Raise the limit as root (`ulimit -Hn 65536`), or move records to another folder and name one: SWAPSTONE_RECORDS=FOLDER",
            ) from error
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        yield found


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


def _lock(connection: duckdb.DuckDBPyConnection, runs: Iterable[str]) -> None:
    """Allow no access to anything but the files of the runs, and no change of that."""
    files = ", ".join(map(_quoted, runs))
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute("SET python_enable_replacements = false")  # else a name may be a variable of this program
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _result(relation: Any, connection: duckdb.DuckDBPyConnection) -> Relation:  # noqa: ANN401 - the method depends on DuckDB's version
    """Run a query once and store its rows: the files of the runs are closed after it."""
    # DuckDB 2 has `materialize`, DuckDB 1 `execute`.
    stored = relation.materialize() if hasattr(relation, "materialize") else relation.execute()
    connection.execute("DROP VIEW IF EXISTS lines")
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
    with opened_runs([record]) as runs:
        connection = connect([record], runs, [table], analysis)
        return _result(connection.sql(f"SELECT * FROM {table}"), connection)  # noqa: S608 - a name of TABLES


def connect(
    records: Sequence[NamedRecord],
    runs: Mapping[str, str] | None,
    tables: Collection[str],
    analysis: Analysis | None = None,
    others: Sequence[QueryTable] = (),
) -> duckdb.DuckDBPyConnection:
    """Open a database in memory with the tables of some records.

    Args:
        records: whose tables it holds.
        runs: of `opened_runs`, of those that have any; they are read until they are closed. None for no table that is read from them.
        tables: those of `comparisons` and `effects` that are needed, which take an analysis of every record.
        analysis: of the only record, if it was computed already.
        others: further tables.

    Raises:
        RecordError: no record has a run, and there is no other table.
        UserError: another table can't be made.
    """
    module = _duckdb()
    if not ((records if runs is None else runs) or others):
        raise RecordError(f"There are no runs in {default_root()}.", "Make a record: swapstone compare libc=glibc,musl")
    half_of_memory_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 21
    connection: duckdb.DuckDBPyConnection = module.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{max(256, half_of_memory_mib)}MiB",
            "temp_directory": "",  # by default it is a folder in the current one
        }
    )
    if runs:
        _define_lines(connection, runs)
        connection.execute(_VIEWS)
    fields = {name: each for name, each in _FIELDS.items() if name == "records" or name in tables}
    made = {each.name: each.fields for each in others}
    with TemporaryFolder("query") as scratch, contextlib.ExitStack() as stack:
        files = {name: stack.enter_context((scratch / f"{name}.json").open("wb")) for name in (*fields, *made)}
        for each in others:
            files[each.name].writelines(msgspec.json.encode(row) + b"\n" for row in each.rows())
        for record in records:
            found = _kept_rows(record, "record", _record_row)
            if analysis is not None:
                found |= _rows_of(analysis)
            elif len(fields) > 1:
                found |= _kept_rows(record, "analysis", _analysed_rows)
            named = {"record": record.name, "path": utf8_path(record.path)}
            for name in fields:
                files[name].writelines(msgspec.json.encode(row | named) + b"\n" for row in found[name])
        for name, file in files.items():
            file.close()
            columns = ", ".join(f"{field}: '{kind}'" for field, kind in (fields | made)[name].items())
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM "  # noqa: S608 - every part is ours
                f"read_json({_quoted(file.name)}, format='newline_delimited', columns={{{columns}}})"
            )
    return connection


def _define_lines(connection: duckdb.DuckDBPyConnection, runs: Mapping[str, str]) -> None:
    """Define the view `lines`, which reads the files of the runs for each query."""
    # One statement: an insertion for each of thousands of records takes seconds.
    values = ", ".join(f"({_quoted(path)}, {_quoted(name)})" for path, name in runs.items())
    connection.execute(f"CREATE TABLE names AS SELECT * FROM (VALUES {values}) AS named (file, record)")  # noqa: S608 - quoted
    files = ", ".join(map(_quoted, runs))
    connection.execute(
        f"CREATE VIEW lines AS SELECT names.record, run FROM read_json([{files}], format='newline_delimited', "  # noqa: S608
        f"ignore_errors=true, filename=true, columns={_RUN_COLUMNS}) AS read JOIN names ON read.filename = names.file"
    )


def _load(path: Path) -> RecordView:
    from swapstone.core.session.run_store import load_columns  # noqa: PLC0415 - imports numpy, and only new records are read

    return load_columns(path)


def _kept_rows(record: NamedRecord, kind: str, compute: Callable[[Path], dict[str, Rows]]) -> dict[str, Rows]:
    """Return rows of a record by their table; of a record whose files and code are the same as before, without reading it."""
    state = record_cache.state_of(record.path)
    if (known := record_cache.find(record.path, kind, state, dict[str, Rows])) is not None:
        return known[0]
    rows = compute(record.path)
    record_cache.keep(record.path, kind, state, rows)
    return rows


def _record_row(path: Path) -> dict[str, Rows]:
    try:
        view = _load(path)
    except RecordError as error:
        return {"records": [{"state": f"unreadable: {error.message}"}]}
    row = {
        "created": view.meta.created.removesuffix("+00:00"),
        "name": view.experiment.name,
        "target": view.experiment.target,
        "state": view.seal.state if view.seal else "unsealed",
        "runs": len(view.runs),
    }
    return {"records": [row]}


def _analysed_rows(path: Path) -> dict[str, Rows]:
    """Return the rows of comparisons and effects of a record; none of one that can't be read, which the table `records` names."""
    from swapstone.core.session.analysis import analyse_record  # noqa: PLC0415 - imports numpy, and only two tables need it

    try:
        with named_record(path):
            return _rows_of(analyse_record(_load(path)))
    except UserError:  # it can't be read, or this version lacks a workload of it
        return {"comparisons": [], "effects": []}


def _rows_of(analysis: Analysis) -> dict[str, Rows]:
    names = [name for name in _EFFECT_FIELDS if name != "record"]
    effects = (
        {name: row[name] for name in names} | {"workload": row["workload"] or None}
        for row in comparison_columns.effect_rows(analysis)
    )
    comparisons = (dict(comparison_columns.queried(row)) for row in comparison_columns.rows_of(analysis))
    return {"comparisons": list(comparisons), "effects": list(effects)}


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
