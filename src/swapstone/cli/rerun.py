"""`swapstone rerun`: the same experiment again, compared with the first time."""

from __future__ import annotations

from pathlib import Path

import click

from swapstone.cli.flow import start
from swapstone.cli.tables import plain, table
from swapstone.model import Analysis, Comparison, Experiment, Scale, UserError, Verdict
from swapstone.record import RecordView, find_record, load, manifest_differences, new_record_path
from swapstone.session.analysis import analyse_record


@click.command()
@click.argument("record")
@click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]")
def rerun_command(record: str, out: str | None) -> int:
    r"""Make a record's experiment again, with the same plan and the same passes, and compare the two.

    Two honest runs of one experiment should agree: their intervals should overlap. Where they don't, the machine, the programs or the
    time of day made a difference that the intervals did not cover.

    \b
    Example:
      swapstone rerun last
    """
    first = load(find_record(record))
    if first.manifest is None:
        raise UserError(f"{first.path} ended before anything was built: there is nothing to repeat.")
    passes = {(suite, workload): count for suite, workload, count in first.manifest.passes}
    path = Path(out) if out else new_record_path(f"rerun-{first.path.name[16:] or first.experiment.name}")
    status = start(first.experiment, str(path), passes)
    if status == 0:
        second = load(path)
        click.echo("\n" + compare_times(first.experiment, analyse_record(first), analyse_record(second)), nl=False)
        click.echo(_what_differs(first, second))
    return status


def _what_differs(first: RecordView, second: RecordView) -> str:
    """Say whether machine, tools and programs were the same both times."""
    assert first.manifest is not None
    if second.manifest is None:
        return "The second time has no manifest."
    differences = manifest_differences(first.manifest, second.manifest)
    if not differences:
        return "Machine, tools and programs were the same both times, to the byte."
    return "Not the same both times: " + "; ".join(map(plain, differences))


def compare_times(experiment: Experiment, first: Analysis, second: Analysis) -> str:
    """Lay the two times side by side, for the metrics that lead.

    Args:
        experiment: gives the margin.
        first: the analysis of the first time.
        second: of the second.

    Returns:
        A table and a sentence, ending with a newline.
    """
    again = {_place(comparison): comparison for comparison in second.comparisons}
    rows: list[list[object]] = []
    apart = changed = unknown = 0
    for comparison in first.comparisons:
        other = again.get(_place(comparison))
        if (
            not comparison.preferred
            or other is None
            or comparison.scale is not Scale.RATIO
            or other.scale is not Scale.RATIO
        ):
            continue
        overlap = _overlap(comparison, other, experiment.margin)
        apart += overlap == "apart"
        unknown += overlap == "unknown"
        changed += {comparison.verdict, other.verdict} == {Verdict.BETTER, Verdict.WORSE}
        cells = [_cell(comparison), comparison.verdict.value, _cell(other), other.verdict.value]
        rows.append([comparison.workload, comparison.candidate.label, *cells, overlap])
    head = ["workload", "candidate", "first", "verdict", "again", "verdict", "intervals"]
    sentence = (
        f"{len(rows)} rows: the intervals of {apart} lie apart by more than the margin; {changed} changed sign"
        + (f"; {unknown} had too few runs for an interval.\n" if unknown else ".\n")
        if rows
        else "No row can be compared.\n"
    )
    return table(head, rows) + sentence


def _place(comparison: Comparison) -> tuple[str, ...]:
    return (comparison.suite, comparison.workload, comparison.load, comparison.metric.name, comparison.candidate.label)


def _cell(comparison: Comparison) -> str:
    if comparison.effect is None:
        return "none"
    if comparison.low is None or comparison.high is None:
        return f"{comparison.effect:.3f}"
    return f"{comparison.effect:.3f} [{comparison.low:.3f}, {comparison.high:.3f}]"


def _overlap(first: Comparison, second: Comparison, margin: float) -> str:
    """Say whether two intervals overlap, or how near they come. A gap smaller than the margin is of no interest."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return "unknown"
    gap = max(first.low, second.low) / min(first.high, second.high) - 1
    if gap <= 0:
        return "overlap"
    return "near" if gap <= margin else "apart"
