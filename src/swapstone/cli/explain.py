"""`swapstone explain` and `swapstone profile`: why does a row of a record differ?"""

from __future__ import annotations

import fnmatch
import math
import tempfile
import webbrowser
from pathlib import Path

import click
import msgspec

from swapstone.cli.tables import plain
from swapstone.explain import explain as explain_seen
from swapstone.explain import load_classes
from swapstone.instruments import INSTRUMENTS, run_instruments
from swapstone.instruments.prepare_row import RowContext, ledger_metric, prepare_row, require_host_record
from swapstone.model import Analysis, Comparison, Missing, Place, Seen, UserError, Verdict
from swapstone.record import RecordView, find_record, load
from swapstone.report import explained
from swapstone.run import prepare
from swapstone.session import explanation_files
from swapstone.session.analysis import analyse_record
from swapstone.targets import open_target

LEFT_OUT = "it was left out by --without"
_SAID = {Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED}


@click.command()
@click.argument("record")
@click.argument("metric", required=False)
@click.option(
    "--only", "only", metavar="WORKLOAD", help="The row's workload; a pattern such as 'b_malloc_*' that fits one."
)
@click.option("--versus", "versus", metavar="CANDIDATE", help="The row's candidate, e.g. libc=musl.")
@click.option(
    "--classes", "classes", metavar="FILE", help="Rules in TOML that come before Swapstone's own table of classes."
)
@click.option("--again", is_flag=True, help="Run under instruments again, though it was done before.")
@click.option(
    "--without",
    "without",
    multiple=True,
    type=click.Choice(list(INSTRUMENTS)),
    help="Leave an instrument out; may be repeated.",
)
@click.option("--json", "kind", flag_value="json", help="Print all of it as JSON.")
@click.option("--markdown", "kind", flag_value="markdown", help="Print it as Markdown.")
@click.option("--text", "kind", flag_value="text", default="text", help="Print it as text.  [default]")
def explain_command(
    record: str,
    metric: str | None,
    only: str | None,
    versus: str | None,
    classes: str | None,
    again: bool,
    without: tuple[str, ...],
    kind: str,
) -> None:
    r"""Say what a row's difference is consistent with.

    A row is a workload, a metric and a candidate. Without --only, --versus and METRIC it is the one with the largest difference that the
    record shows. Baseline and candidate are run again under instruments, each in runs of its own: counts of system calls, faults,
    switches, allocations and copies, stacks on and off the processor, instructions. The difference in time is then split by what it went
    into. What was seen is kept in the record's folder explain/, beside flame graphs and their difference.

    \b
    Examples:
      swapstone explain last
      swapstone explain last wall --only b_malloc_big1 --versus libc=musl
    """
    view = load(find_record(record))
    chosen = choose(analyse_record(view), metric, only, versus)
    table = load_classes(Path(classes) if classes else None)
    folder, seen = _seen(view, chosen, again=again, without=without)
    explanation = explain_seen(seen, table)
    written = explanation_files.write(folder, seen, explanation, table)
    if kind == "json":
        click.echo(explained.to_json(seen, explanation), nl=False)
    elif kind == "markdown":
        click.echo(explained.markdown(seen, explanation), nl=False)
    else:
        click.echo(explained.text(seen, explanation), nl=False)
        click.echo(f"\nKept in {plain(folder)}: {', '.join(path.name for path in written)}")


@click.command()
@click.argument("record")
@click.argument("metric", required=False)
@click.option("--only", "only", metavar="WORKLOAD", help="The row's workload.")
@click.option("--versus", "versus", metavar="CANDIDATE", help="The row's candidate.")
@click.option("--on-cpu", "kind", flag_value="on-cpu", default="on-cpu", help="Where processor time goes.  [default]")
@click.option("--off-cpu", "kind", flag_value="off-cpu", help="What threads wait for.")
@click.option("--allocations", "kind", flag_value="allocations", help="Bytes requested, by caller.")
@click.option("--syscalls", "kind", flag_value="syscalls", help="System calls, by caller.")
@click.option(
    "--classes", "classes", metavar="FILE", help="Rules in TOML that come before Swapstone's own table of classes."
)
@click.option("--again", is_flag=True, help="Run under instruments again, though it was done before.")
@click.option("--open", "show", is_flag=True, help="Open the page of the difference in a browser.")
def profile_command(
    record: str,
    metric: str | None,
    only: str | None,
    versus: str | None,
    kind: str,
    classes: str | None,
    again: bool,
    show: bool,
) -> None:
    r"""Write a row's profiles: flame graphs of both variants and of their difference, folded stacks, speedscope's JSON.

    The row is chosen as by `swapstone explain`, and what was seen is shared with it.

    \b
    Examples:
      swapstone profile last --off-cpu --open
      swapstone profile last --only b_malloc_big1
    """
    view = load(find_record(record))
    chosen = choose(analyse_record(view), metric, only, versus)
    table = load_classes(Path(classes) if classes else None)
    folder, seen = _seen(view, chosen, again=again, without=())
    explanation_files.write(folder, seen, explain_seen(seen, table), table)
    written = sorted(path for path in folder.iterdir() if path.name.startswith(f"{kind}-"))
    if not written:
        reason = next((each.reason for each in seen.missing if each.instrument == kind), "neither side has any stack")
        raise UserError(
            f"There is no profile {kind}: {reason}.", next((m.mend for m in seen.missing if m.instrument == kind), "")
        )
    for path in written:
        click.echo(plain(path))
    page = folder / f"{kind}-difference.html"
    if show and page.is_file():
        webbrowser.open(page.resolve().as_uri())


def choose(analysis: Analysis, metric: str | None, only: str | None, versus: str | None) -> Comparison:
    """Choose a row: the one with the largest difference that fits.

    Args:
        analysis: of the record.
        metric: its name, or None for the time that is read first.
        only: the workload's name or a pattern, or None.
        versus: the candidate's label, or None.

    Raises:
        UserError: no row fits, or none of those that fit differs.
    """
    copies = {null.copy for null in analysis.nulls}
    rows = [row for row in analysis.comparisons if row.candidate not in copies and row.effect is not None]
    fitting = [
        row
        for row in rows
        if (row.preferred if metric is None else row.metric.name == metric)
        and (only is None or fnmatch.fnmatchcase(row.workload, only) or row.workload == only)
        and (versus is None or versus in {row.candidate.label, row.candidate.short_label})
    ]
    if not fitting:
        names = ", ".join(dict.fromkeys(row.workload for row in rows)) or "none"
        raise UserError(
            "No row of the record fits.",
            f"Workloads: {names}. Candidates: {', '.join(dict.fromkeys(row.candidate.label for row in rows)) or 'none'}. "
            f"Metrics: {', '.join(dict.fromkeys(row.metric.name for row in rows)) or 'none'}.",
        )
    said = [row for row in fitting if row.verdict in _SAID]
    if not said and (only is None or len(fitting) > 1):
        raise UserError(
            f"None of the {len(fitting)} rows that fit differs: there is nothing to explain.",
            "Name one with --only to see its counts and its ledger all the same.",
        )
    return max(said or fitting, key=_distance)


def _distance(row: Comparison) -> float:
    if row.effect is None:
        return 0.0
    return abs(math.log(row.effect)) if row.scale.value == "ratio" and row.effect > 0 else abs(row.effect)


def _seen(view: RecordView, row: Comparison, *, again: bool, without: tuple[str, ...]) -> tuple[Path, Seen]:
    """Return where a row's evidence is kept, and the evidence: as it was kept, or new."""
    place = Place(
        suite=row.suite,
        workload=row.workload,
        load=row.load,
        metric=row.metric.name,
        baseline=row.baseline.label,
        candidate=row.candidate.label,
    )
    folder = explanation_files.folder_of(view, place)
    kept = None if again or without else explanation_files.read(folder, view)
    if kept is not None and not any(each.reason == LEFT_OUT for each in kept.missing):
        return folder, kept
    require_host_record(view.experiment, row.load)
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to run again.")
    passes = {(suite, name): count for suite, name, count in view.manifest.passes}
    with open_target("host") as target, tempfile.TemporaryDirectory(prefix="swapstone-symbols-") as scratch:
        prepared = prepare(view.experiment, target, lambda *_: None, _tell)
        _tell_of_other_programs(view, prepared.programs)
        context = RowContext(view.experiment, prepared, target, passes.get((row.suite, row.workload), 1), Path(scratch))
        pair = prepare_row(context, row)
        only = [name for name in INSTRUMENTS if name not in without]
        seen = run_instruments(place, row.metric.unit, ledger_metric(row), pair, _tell, only=only)
    left_out = tuple(Missing(instrument=name, reason=LEFT_OUT) for name in without)
    seen = msgspec.structs.replace(seen, differs=row.verdict in _SAID, missing=(*seen.missing, *left_out))
    explanation_files.keep(folder, view, seen)
    return folder, seen


def _tell_of_other_programs(view: RecordView, programs: object) -> None:
    """Say which programs are not, to the byte, those of the record."""
    assert view.manifest is not None
    assert isinstance(programs, dict)
    before = {(a.suite, a.workload, a.variant): a.sha256 for a in view.manifest.artifacts if not a.layout}
    other = [
        key
        for key, program in programs.items()
        if program.artifact and before.get(key) not in {None, program.artifact.sha256}
    ]
    for _, workload, variant in other[:3]:
        _tell(f"note: {workload} on {variant} is not the record's program: it was built anew, and the bytes differ")


def _tell(line: str) -> None:
    click.echo(plain(line), err=True)
