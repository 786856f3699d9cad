"""`swapstone agree`: do two records of one comparison say the same?"""

from __future__ import annotations

import os
import shutil
import sys

import click

from swapstone.cli.printing import PIPED_WIDTH
from swapstone.compare.agreement import signs
from swapstone.record import find_record, load
from swapstone.report.signs import to_csv, to_json, to_markdown, to_text
from swapstone.session.analysis import analyse_record, workloads_of

_FORMATS = {"markdown": to_markdown, "csv": to_csv, "json": to_json}


@click.command()
@click.argument("first", metavar="RECORD")
@click.argument("second", metavar="RECORD")
@click.option("--markdown", "kind", flag_value="markdown", help="Print Markdown.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
def agree_command(first: str, second: str, kind: str | None) -> None:
    r"""Lay two records of the same factors side by side: do their differences have the same sign?

    Made for one comparison on two targets or clocks: the host's wall clock beside a virtual machine's clock, which counts instructions.
    Signs agree if both records have a difference in the same direction, or neither has one outside the margin. Work on several processors
    is not compared with a machine that has one.

    \b
    Example:
      swapstone compare libc=glibc,musl --out host
      swapstone compare libc=glibc,musl --target vm --out vm
      swapstone agree host vm
    """
    views = [load(find_record(text)) for text in (first, second)]
    one, other = ((view.experiment, analyse_record(view)) for view in views)
    known = {name: work for view in views for name, work in workloads_of(view.experiment).items()}
    found = signs(one, other, known)
    if kind:
        click.echo(_FORMATS[kind](found), nl=False)
        return
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else PIPED_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR")
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    click.echo(
        to_text(found, width=width, colour=colour, ascii_only=ascii_only), nl=False, color=True if terminal else None
    )
