# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone bisect` and `history`: which commits change the programs, and by how much?"""

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
from swapstone.core.model import refuse
from swapstone.core.model.directories import write_whole
from swapstone.core.report.render import find_renderer
from swapstone.core.session.option_values import parse_ratio
from swapstone.core.session.options import settings_from, typed
from swapstone.core.session.run_options import run_options_of
from swapstone.exit_status import ExitStatus
from swapstone.parts.bisect.bisect import BisectOptions, Range, run_bisect
from swapstone.parts.bisect.bisect_report import document_of, to_json
from swapstone.parts.bisect.flags import flags_document, flags_json, run_flags
from swapstone.parts.bisect.history import History, history_document, history_json


@click.command()
@click.argument("span", metavar="[A..B]", default="")
@click.option("--flags", metavar="A..B", default="", help="Measure the share of each flag between two levels, instead.")
@click.option("--all", "every", is_flag=True, help="Measure each commit; finds also what a later one takes back.")
@click.option("--into-merge", is_flag=True, help="Search the branch of a merge that changes something, too.")
@click.option("--least", metavar="SHARE", default="0.1%", help="The smallest change of a row that counts.  [0.1%]")
@click.option("--dry-run", is_flag=True, help="Print how many builds there are at most; build and run nothing.")
@click.option("--json", "json_file", metavar="FILE", help="Also write the answer as JSON.")
@click.option("--trust", is_flag=True, help="Build and run this repository's code, now and later.")
@declared("no_cache", "guest_timeout", "store")
@interruptible
def bisect_command(
    span: str,
    flags: str,
    every: bool,
    into_merge: bool,
    least: str,
    dry_run: bool,
    json_file: str | None,
    trust: bool,
    **options: Any,  # noqa: ANN401 - as click passes them
) -> int:
    r"""Find every commit that changes your programs, each with its size.

    The file swapstone.toml of the last commit names the build and the runs, as for `swapstone gate` (`swapstone docs bisect`). Both ends
    are measured, and the middle wherever two commits differ. What is measured is stored: after an interruption the same command goes on.

    \b
    Examples:
      swapstone bisect v1.2..HEAD --dry-run
      swapstone bisect v1.2..HEAD --trust
      swapstone bisect v1.2..HEAD --into-merge --json bisect.json
      swapstone bisect --flags='-O1..-O2'
    """
    share = parse_ratio(least, "--least", 0.0, 1.0)
    run = run_options_of(settings_from(typed(options)))
    if flags:
        refuse((span or every or into_merge or dry_run, "--flags is of HEAD alone.", "Leave the others out."))
        shares = run_flags(Path.cwd(), flags, least=share, trust=trust, options=run, progress=display())
        if json_file:
            write_whole(Path(json_file), flags_json(shares).encode())
        print_document(flags_document(shares), every=True)
        return ExitStatus.SUCCESS
    found = Range(Path.cwd(), span)
    if dry_run:
        echo("\n".join(map(plain, found.plan())))
        return ExitStatus.SUCCESS
    how = BisectOptions(every=every, into_merge=into_merge, least=share, trust=trust, run=run)
    result = run_bisect(found, how, display())
    if json_file:
        write_whole(Path(json_file), to_json(result).encode())
    print_document(document_of(result), every=True)
    if result.status:
        sys.stdout.flush()
        echo(f"Exit status {result.status}: {plain(result.answer)}", err=True)
    return result.status


@click.command()
@click.option("--fill", is_flag=True, help="Bisect the commits of each step that is of several.")
@click.option("--html", metavar="FILE", help="Also write a page with a plot of each row.")
@click.option("--json", "json_file", metavar="FILE", help="Also write the steps as JSON.")
@click.option("--least", metavar="SHARE", default="0.1%", help="The smallest change of a row that counts.  [0.1%]")
@click.option("--trust", is_flag=True, help="With --fill: build and run this repository's code, now and later.")
@declared("no_cache", "guest_timeout", "store")
@interruptible
def history_command(
    fill: bool,
    html: str | None,
    json_file: str | None,
    least: str,
    trust: bool,
    **options: Any,  # noqa: ANN401 - as click passes them
) -> int:
    r"""Print every step of your programs over the commits that were measured.

    `swapstone bisect` and `swapstone gate` keep what they measure of a commit. Nothing is built or run without --fill.

    \b
    Examples:
      swapstone history
      swapstone history --fill --html history.html
    """
    share = parse_ratio(least, "--least", 0.0, 1.0)
    history = History(Path.cwd(), share)
    if fill:
        history.fill(
            BisectOptions(least=share, trust=trust, run=run_options_of(settings_from(typed(options)))), display()
        )
        history = History(Path.cwd(), share)
    result = history.result()
    if json_file:
        write_whole(Path(json_file), history_json(result).encode())
    if html:
        write_whole(Path(html), find_renderer("html").render(history_document(result, history.drawings())).encode())
    print_document(history_document(result), every=True)
    return ExitStatus.SUCCESS
