"""`swapstone verify`: is a record whole, unaltered, and does it still say what it said?"""

from __future__ import annotations

import click

from swapstone.cli.analysing import analyse_record, verdicts_digest
from swapstone.cli.printing import describe
from swapstone.cli.tables import plain
from swapstone.record import RecordView, check_raw, find_record, load


@click.command()
@click.argument("record")
def verify_command(record: str) -> int:
    r"""Check that a record is whole and unaltered, and that analysing it again gives the same verdicts.

    Every line of runs.jsonl is compared with its checksum and with the line before it, every raw output with its digest, the
    experiment and the manifest with the seal. The exit status is 0 when all is well and 2 when it is not.

    \b
    Example:
      swapstone verify last
    """
    view = load(find_record(record))
    problems = [str(damage) for damage in (*view.damages, *check_raw(view))]
    click.echo(f"{view.path}: {describe(view.experiment)}, {len(view.runs)} runs")
    problems += _verdict_problems(view)
    for problem in problems:
        click.echo(click.style("damaged: ", fg="red") + plain(problem))
    if problems:
        return 2
    assert view.seal is not None
    click.echo(
        f"Whole and unaltered: {view.seal.runs} runs, sealed as {view.seal.state} ({view.seal.why}); the same verdicts."
    )
    return 0


def _verdict_problems(view: RecordView) -> list[str]:
    if view.seal is None:
        return [
            "it was never sealed: the process that wrote it was killed; go on with it by `swapstone compare --resume`"
        ]
    if len(view.runs) > view.seal.runs:
        return [f"{len(view.runs) - view.seal.runs} runs came after the last seal: a resumed session was killed"]
    if not view.seal.verdicts:
        return [
            "its last session ended by an error, before anything was judged; go on with it by `swapstone compare --resume`"
        ]
    if verdicts_digest(analyse_record(view)) != view.seal.verdicts:
        return ["analysing it again gives other verdicts than those that were printed (another version of Swapstone?)"]
    return []
