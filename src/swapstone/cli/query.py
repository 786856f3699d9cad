"""`swapstone query`: SQL over all records, by DuckDB inside this process; no server, no import step."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapstone.cli.tables import comma_separated, table
from swapstone.model import Analysis, RecordError, UserError
from swapstone.record import default_root, list_records, load, record_name
from swapstone.report import crossed_export

if TYPE_CHECKING:
    import duckdb

_RUN_COLUMNS = """{
    number: 'BIGINT',
    run: 'STRUCT(
        trial STRUCT(suite VARCHAR, workload VARCHAR, load VARCHAR, variant VARCHAR, block BIGINT, "position" BIGINT),
        status VARCHAR, reason VARCHAR, samples STRUCT(metric VARCHAR, "values" DOUBLE[])[], observed VARCHAR[][],
        facts JSON, passes BIGINT, started_unix_ns BIGINT, elapsed_ns BIGINT, name VARCHAR)'
}"""

# The views, in terms of `lines`, which reads every record's runs.jsonl afresh for each question.
_VIEWS = """
CREATE VIEW runs AS SELECT
    record, run.trial.block AS block, run.trial.position AS position, run.trial.suite AS suite,
    run.trial.workload AS workload, run.trial.load AS load, run.trial.variant AS variant, run.status AS status,
    run.reason AS reason, run.passes AS passes, make_timestamp_ns(run.started_unix_ns) AS started,
    run.elapsed_ns AS elapsed_ns, run.facts AS facts, run.name AS name
FROM lines;
CREATE VIEW samples AS SELECT
    record, block, suite, workload, load, variant, sample.metric AS metric, list_median(sample."values") AS value,
    sample."values" AS "values"
FROM (SELECT record, run.trial.block AS block, run.trial.suite AS suite, run.trial.workload AS workload,
             run.trial.load AS load, run.trial.variant AS variant, unnest(run.samples) AS sample FROM lines);
"""

_COMPARISON_FIELDS = {
    "record": "VARCHAR",
    "suite": "VARCHAR",
    "workload": "VARCHAR",
    "load": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "baseline": "VARCHAR",
    "candidate": "VARCHAR",
    "pairs": "BIGINT",
    "scale": "VARCHAR",
    "effect": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "p_value": "DOUBLE",
    "verdict": "VARCHAR",
}


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


@click.command()
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
def query_command(sql: str, as_json: bool, as_csv: bool) -> None:
    r"""Ask all records a question in SQL (DuckDB's).

    \b
    Views:
      records      record, path, created (UTC), name, target, state, runs
      runs         record, block, position, suite, workload, load, variant, status, reason, passes, started, elapsed_ns, facts,
                   name (of a run on the virtual clock: the digest of all that it is a function of)
      samples      record, block, suite, workload, load, variant, metric, value (the run's), values (in the run)
      comparisons  record, suite, workload, load, metric, unit, baseline, candidate, pairs, scale, effect, low, high,
                   p_value, verdict (analysed afresh)
      effects      record, kind (main, simple, interaction), suite, workload (NULL: the index), load, metric, unit, change,
                   changed_by, held, missing, blocks, scale, effect, low, high, p_value, verdict, effect_without, effect_within,
                   closed (of crossed factors)

    \b
    Example:
      swapstone query "SELECT workload, variant, median(value) FROM samples WHERE metric = 'wall' AND block > 0 GROUP BY ALL"
    """
    import duckdb  # noqa: PLC0415 - slow to import, and only needed here

    with tempfile.TemporaryDirectory(prefix="swapstone-query-") as scratch:
        connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "temp_directory": scratch})
        try:
            _define_views(connection, Path(scratch), sql.lower())
            result = connection.sql(sql)
            if result is None:
                return
            head, rows = list(result.columns), result.fetchall()
        except duckdb.Error as error:
            raise UserError(
                f"DuckDB says: {str(error).strip()}", "`swapstone query --help` lists the views."
            ) from error
        finally:
            connection.close()
    if as_json:
        click.echo(json.dumps([dict(zip(head, row, strict=True)) for row in rows], default=str, indent=1))
    elif as_csv:
        click.echo(comma_separated(head, rows), nl=False)
    else:
        click.echo(table(head, rows), nl=False)


def _define_views(connection: duckdb.DuckDBPyConnection, scratch: Path, sql: str) -> None:
    """Define the views; those that need every record analysed only where the question names them."""
    files = [path / "runs.jsonl" for path in list_records() if (path / "runs.jsonl").stat().st_size > 0]
    if not files:
        raise RecordError(f"There are no runs in {default_root()}.", "Make a record: swapstone compare libc=glibc,musl")
    names = ", ".join(_quoted(str(path)) for path in files)
    connection.execute(
        f"CREATE VIEW lines AS SELECT substr(parse_dirpath(filename), {len(str(default_root())) + 2}) AS record, run FROM read_json("  # noqa: S608
        f"[{names}], format='newline_delimited', ignore_errors=true, filename=true, columns={_RUN_COLUMNS})"
    )
    connection.execute(_VIEWS)
    _table_from(connection, scratch / "records.json", "records", _RECORD_FIELDS, _record_rows())
    tables = {"comparisons": (_COMPARISON_FIELDS, _comparison_rows), "effects": (_EFFECT_FIELDS, _effect_rows)}
    wanted = [name for name in tables if name in sql]
    analyses = _analyses() if wanted else []
    for name in wanted:
        fields, rows = tables[name]
        _table_from(connection, scratch / f"{name}.json", name, fields, rows(analyses))


_RECORD_FIELDS = {
    "record": "VARCHAR",
    "path": "VARCHAR",
    "created": "TIMESTAMP",
    "name": "VARCHAR",
    "target": "VARCHAR",
    "state": "VARCHAR",
    "runs": "BIGINT",
}


def _record_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in list_records():
        try:
            view = load(path)
        except RecordError as error:
            rows.append({"record": record_name(path), "path": str(path), "state": f"unreadable: {error.message}"})
            continue
        rows.append(
            {
                "record": record_name(path),
                "path": str(path),
                "created": view.meta.created.removesuffix("+00:00"),
                "name": view.experiment.name,
                "target": view.experiment.target,
                "state": view.seal.state if view.seal else "unsealed",
                "runs": len(view.runs),
            }
        )
    return rows


def _analyses() -> list[tuple[str, Analysis]]:
    from swapstone.session.analysis import analyse_record  # noqa: PLC0415 - brings numpy, and only needed here

    found = []
    for path in list_records():
        # `records` names those that can't be read.
        with contextlib.suppress(RecordError):
            found.append((record_name(path), analyse_record(load(path))))
    return found


def _comparison_rows(analyses: Sequence[tuple[str, Analysis]]) -> list[dict[str, object]]:
    return [
        {
            "record": record,
            "suite": comparison.suite,
            "workload": comparison.workload,
            "load": comparison.load,
            "metric": comparison.metric.name,
            "unit": comparison.metric.unit,
            "baseline": comparison.baseline.label,
            "candidate": comparison.candidate.label,
            "pairs": len(comparison.baseline_values),
            "scale": comparison.scale.value,
            "effect": comparison.effect,
            "low": comparison.low,
            "high": comparison.high,
            "p_value": comparison.p_value,
            "verdict": comparison.verdict.value,
        }
        for record, analysis in analyses
        for comparison in analysis.comparisons
    ]


def _effect_rows(analyses: Sequence[tuple[str, Analysis]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for record, analysis in analyses:
        for row in crossed_export.rows(analysis):
            kept = {name: row[name] for name in _EFFECT_FIELDS if name != "record"}
            rows.append({"record": record, **kept, "workload": row["workload"] or None})
    return rows


def _table_from(
    connection: duckdb.DuckDBPyConnection, file: Path, name: str, fields: dict[str, str], rows: list[dict[str, object]]
) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ", ".join(f"{field}: '{kind}'" for field, kind in fields.items())
    connection.execute(
        f"CREATE TABLE {name} AS SELECT * FROM "  # noqa: S608 - every part is ours
        f"read_json({_quoted(str(file))}, format='newline_delimited', columns={{{columns}}})"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
