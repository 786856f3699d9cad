"""What a record's reports need, and printing its table."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from swapstone import __version__, workloads
from swapstone.cli.own import command_line, notes_of
from swapstone.cli.serving import server_notes
from swapstone.cli.tables import plain
from swapstone.model import Analysis, Experiment
from swapstone.record import RecordView
from swapstone.report import text
from swapstone.report.context import ReportContext
from swapstone.session import explanation_files
from swapstone.session.machines import CLOCK_NOTE
from swapstone.targets import find_target_kind

PIPED_WIDTH = 120


def context_of(view: RecordView, beside: Path | None = None) -> ReportContext:
    """Return what a report prints beside the comparisons.

    Args:
        view: the record.
        beside: the folder of the report, if it is a page that links to what lies beside the record.
    """
    times = [run.started_unix_ns for run in view.runs if run.started_unix_ns]
    ends = [run.started_unix_ns + run.elapsed_ns for run in view.runs if run.started_unix_ns]
    manifest = view.manifest
    facts = (*manifest.machine, *manifest.tools) if manifest else ()
    return ReportContext(
        experiment=view.experiment,
        record_id=view.meta.id,
        record_path=str(view.path),
        started_unix_ns=min(times, default=0),
        finished_unix_ns=max(ends, default=0),
        facts=facts,
        rerun=f"swapstone rerun {shlex.quote(str(view.path))}",
        published=view.experiment.published,
        notes=(
            *notes_of(view.experiment),
            *server_notes(view.experiment),
            *((CLOCK_NOTE,) if view.experiment.virtual else ()),
        ),
        version=__version__,
        reasons=explanation_files.reasons_of(view, beside),
        explain=f"swapstone explain {shlex.quote(str(view.path))}"
        if find_target_kind(view.experiment.target).opens.runs_instruments
        else "",
        workloads=tuple((suite, each) for (suite, _), each in workloads.workloads_of(view.experiment).items()),
    )


def print_table(view: RecordView, analysis: Analysis, selection: text.Selection | None = None) -> None:
    """Print an analysis as a table: coloured and as wide as the terminal on a terminal, plain elsewhere."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else PIPED_WIDTH
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    rendered = text.render(
        context_of(view),
        analysis,
        width=width,
        colour=terminal and not _no_colour(),
        selection=selection,
        ascii_only=ascii_only,
    )
    click.echo(rendered, nl=False, color=True if terminal else None)
    if selection is not None and selection.every and view.manifest is not None:
        for certificate in view.manifest.certificates:
            click.echo(f"\nImages of {plain(certificate.in_words())}. Those that differ, each with its part:")
            for path, part in certificate.differing:
                click.echo(f"  {plain(path)} ({plain(part)})")


def describe(experiment: Experiment) -> str:
    """Return an experiment in a few words, e.g. ``libc=glibc,musl on host, 27 workloads``."""
    factors = " ".join(f"{choice.factor}={','.join(choice.levels)}" for choice in experiment.factors)
    if experiment.own is not None:
        return f"{factors} on {experiment.target}, {plain(command_line(experiment))}"
    count = len(experiment.workloads)
    return f"{factors} on {experiment.target}, {count} workload{'s' if count != 1 else ''}"


def _no_colour() -> bool:
    import os  # noqa: PLC0415 - beside its only use

    return bool(os.environ.get("NO_COLOR"))
