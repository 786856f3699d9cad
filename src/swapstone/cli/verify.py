"""`swapstone verify`: is a record whole, unaltered, and does it still say what it said?"""

from __future__ import annotations

import secrets

import click

from swapstone.cli.display import display
from swapstone.cli.printing import describe
from swapstone.cli.tables import plain
from swapstone.model import UserError
from swapstone.record import RecordView, check_raw, find_record, load, manifest_differences
from swapstone.run import manifest_of, prepare
from swapstone.run.recompute import choose, recompute
from swapstone.session.analysis import analyse_record, verdicts_digest
from swapstone.session.machines import open_experiment_target


@click.command()
@click.argument("record")
@click.option(
    "--recompute",
    "count",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Run N of its trials again, drawn at random: on the virtual clock the bytes must be equal.",
)
def verify_command(record: str, count: int | None) -> int:
    r"""Check that a record is whole and unaltered, and that analysing it again gives the same verdicts.

    Every line of runs.jsonl is compared with its checksum and with the line before it, every raw output with its digest, the
    experiment and the manifest with the seal. The exit status is 0 when all is well and 2 when it is not.

    \b
    Examples:
      swapstone verify last
      swapstone verify last --recompute 3
    """
    view = load(find_record(record))
    if count and not view.experiment.virtual:
        raise UserError(
            f"{view.path} was measured on a wall clock: no trial of it can be repeated to the byte.",
            f"Make the whole experiment again and compare the two: swapstone rerun {view.path}",
        )
    problems = [str(damage) for damage in (*view.damages, *check_raw(view))]
    click.echo(f"{view.path}: {describe(view.experiment)}, {len(view.runs)} runs")
    problems += _verdict_problems(view)
    if count:
        problems += _differing(view, count)
    for problem in problems:
        click.echo(click.style("damaged: ", fg="red") + plain(problem))
    if problems:
        return 2
    assert view.seal is not None
    click.echo(
        f"Whole and unaltered: {view.seal.runs} runs, sealed as {view.seal.state} ({view.seal.why}); the same verdicts."
    )
    return 0


def _differing(view: RecordView, count: int) -> list[str]:
    """Run trials again and name those that printed other bytes."""
    chosen = choose(view.runs, count, secrets.randbelow(2**31))
    if not chosen:
        return ["it has no trial that could be run again"]
    with (
        open_experiment_target(view.experiment, _tell, no_cache=True) as target,
        display(view.experiment) as shown,
    ):
        prepared = prepare(view.experiment, target, shown.building, shown.note)
        passes = {(suite, name): number for suite, name, number in view.manifest.passes} if view.manifest else {}
        other = manifest_differences(view.manifest, manifest_of(prepared, target, passes)) if view.manifest else ()
        found = recompute(prepared, target, chosen, _running)
    equal = sum(each.equal for each in found)
    click.echo(f"{equal} of {len(found)} trials gave the same bytes when they were run again.")
    problems = [
        f"{each.key} printed other bytes than in the record: {each.now[:12]}, not {each.before[:12]}"
        for each in found
        if not each.equal
    ]
    return [*problems, *(f"what it is made of differs: {difference}" for difference in other if problems)]


def _running(done: int, total: int, key: str) -> None:
    if key:
        _tell(f"running {key} again, {done + 1} of {total}")


def _tell(line: str) -> None:
    click.echo(plain(line), err=True)


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
