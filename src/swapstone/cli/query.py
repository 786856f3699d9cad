# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone query`: SQL over all records."""

from __future__ import annotations

import click

from swapstone.cli.output import echo
from swapstone.cli.tables import table, terminal_columns
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import comma_separated
from swapstone.core.session.query import query


@click.command()
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "--allow-files", is_flag=True, help="Let the query read and write files, use networks and load extensions."
)
def query_command(sql: str, as_json: bool, as_csv: bool, allow_files: bool) -> None:
    r"""Run an SQL query (DuckDB's dialect) over all records. It reads these tables only, unless --allow-files is given.

    \b
    Tables:
      records      record, path, created (UTC), name, target, state, runs
      runs         record, block, position, suite, workload, load, variant, prime (n: discarded, n runs before a measured one; 0:
                   measured), extra (n: discarded, n runs before those), status, reason, passes, started, elapsed_ns, facts,
                   name (of a run on the virtual clock: the digest of everything that it is a function of)
      samples      record, block, suite, workload, load, variant, metric, value (the run's), values (in the run), without discarded runs
      comparisons  record, suite, workload, load, metric, unit, baseline, candidate, pairs, scale, effect, low, high,
                   p_value, verdict, reason, baseline_mean, candidate_mean, baseline_p90, candidate_p90, baseline_maximum,
                   candidate_maximum, mean_effect, mean_low, mean_high, median_effect, median_low, median_high, tail_p_value,
                   rarest_mode, observed_s, bounded,
                   carry_over_effect, carry_over_p_value, baseline_after_itself, baseline_after_other, candidate_after_itself,
                   candidate_after_other, discarded_runs, and of each side (baseline_..., candidate_...) runs, failed, timed_out,
                   crashed, refused, failed_share, failed_low, failed_high; failures_p_value, fails_more
      effects      record, kind (main, simple, interaction), suite, workload (NULL: the index), load, metric, unit, change,
                   changed_by, held, missing, blocks, scale, effect, low, high, median_effect, median_low, median_high, p_value,
                   verdict, effect_without, effect_within, closed (of crossed factors)

    \b
    Of the repository around the current folder, as `swapstone history` knows it:
      history      commit, number (of the measured commits, from the first one), run, metric, call, unit, value

    \b
    Examples (without `record`, the rows of all records are mixed; join tables by it):
      swapstone query "SELECT record, workload, candidate, effect, verdict FROM comparisons WHERE metric = 'wall' ORDER BY ALL"
      swapstone query "SELECT record, workload, variant, median(value) FROM samples WHERE metric = 'wall' AND block > 0 GROUP BY ALL"
      swapstone query "SELECT record, target, candidate, effect FROM comparisons JOIN records USING (record) WHERE metric = 'wall'"
    """
    result = query(sql, allow_files=allow_files)
    if result is None:
        return
    if as_json:
        echo(printed_json("query", rows=result.json_rows()), nl=False)
    elif as_csv:
        echo(comma_separated(result.columns, result.fetchall()), nl=False)
    else:
        echo(table(result.columns, result.fetchall(), terminal_columns()), nl=False)
