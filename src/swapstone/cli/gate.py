# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone gate`: is a change of a repository worse than its base?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from swapstone.cli.display import display
from swapstone.cli.documents import print_document
from swapstone.cli.options import declared
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import interruptible
from swapstone.core.model.directories import write_whole
from swapstone.core.session.option_values import duration_seconds
from swapstone.core.session.options import settings_from, typed
from swapstone.core.session.run_options import run_options_of
from swapstone.exit_status import ExitStatus
from swapstone.parts.gate.gate import Change, GateOptions, run_gate
from swapstone.parts.gate.gate_report import document_of, to_annotations, to_json, to_junit, to_markdown


@click.command()
@click.option(
    "--base",
    metavar="REV",
    default="",
    help="The commit to compare with.  [the base of the pull request, or the merge base]",
)
@click.option("--init", "first", is_flag=True, help="Build HEAD, run what it makes, and write a first swapstone.toml.")
@click.option("--dry-run", is_flag=True, help="Print what would be built and run; build and run nothing.")
@click.option("--report-only", is_flag=True, help="End with 0 where the head is worse; without a result still with 4.")
@click.option("--markdown", metavar="FILE", help="Also write the answer as Markdown.")
@click.option("--json", "json_file", metavar="FILE", help="Also write the answer as JSON.")
@click.option("--junit", metavar="FILE", help="Also write each row as a test case of JUnit XML.")
@click.option("--annotations", metavar="FILE", help="Also write workflow commands of GitHub for the functions edited.")
@click.option("--trust", is_flag=True, help="Build and run this repository's code, now and later.")
@declared(
    *("budget", "no_cache", "guest_timeout", "store"),
    budget="Begin no run after this long; those that are left give status 4.  [no limit]",
)
@interruptible
def gate_command(
    base: str,
    first: bool,
    dry_run: bool,
    report_only: bool,
    markdown: str | None,
    json_file: str | None,
    junit: str | None,
    annotations: str | None,
    trust: bool,
    **options: Any,  # noqa: ANN401 - as click passes them
) -> int:
    r"""Gate a change of your repository: build base and head, run both on the exact clock, compare.

    The file swapstone.toml of the repository names the build, the runs and the limits (`swapstone docs gate`). The exit status is 3 if the
    head is worse, crashes, does not build or prints something else, 4 if nothing is decided, and never 0 on nothing.

    \b
    Examples:
      swapstone gate --init
      swapstone gate --dry-run
      swapstone gate --trust
      swapstone gate --base v1.2 --markdown gate.md --json gate.json
    """
    if first:
        from swapstone.parts.gate.first_file import write_first_file  # noqa: PLC0415 - few gates write one

        file = write_first_file(Path.cwd(), trust=trust, note=display().note)
        echo(f"{plain(file)} is written. Replace its runs by typical work, and commit it.")
        return ExitStatus.SUCCESS
    made = settings_from(typed(options))
    change = Change(Path.cwd(), base)
    if dry_run:
        echo("\n".join(map(plain, change.plan())))
        return ExitStatus.SUCCESS
    how = GateOptions(trust=trust, budget_s=duration_seconds(made.measuring.budget), run=run_options_of(made))
    result = run_gate(change, how, display())
    files = ((markdown, to_markdown), (json_file, to_json), (junit, to_junit), (annotations, to_annotations))
    for path, make in files:
        if path:
            write_whole(Path(path), make(result).encode())
    print_document(document_of(result), every=True)
    if not result.status:
        return ExitStatus.SUCCESS
    sys.stdout.flush()
    only = report_only and result.status == ExitStatus.WORSE
    echo(f"Exit status {ExitStatus.SUCCESS if only else result.status}: {plain(result.answer)}", err=True)
    return ExitStatus.SUCCESS if only else result.status
