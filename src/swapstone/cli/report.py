# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone report` and `export`: a record as report or data."""

from __future__ import annotations

from pathlib import Path

import click

from swapstone.cli.output import echo, plain
from swapstone.cli.record_options import RECORD
from swapstone.core.report import export
from swapstone.core.report.render import RENDERERS, find_renderer
from swapstone.core.session.output_file import write_output
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.record_handle import Record, open_record


@click.command()
@RECORD
@click.option("--html", "kind", flag_value="html", default="html", help="One self-contained HTML file.  [default]")
@click.option("--markdown", "kind", flag_value="markdown", help="Markdown.")
@click.option(
    "--format",
    "kind",
    type=click.Choice([renderer.name for renderer in RENDERERS]),
    help="; ".join(f"{renderer.name}: {renderer.description}" for renderer in RENDERERS) + ".",
)
@click.option(
    "--out", metavar="FILE", help="Where to write it; - for standard output.  [html: report.html in the record; else -]"
)
def report_command(record: str, kind: str, out: str | None) -> None:
    r"""Write a record's report as one HTML file that loads nothing, as Markdown, or in another format.

    \b
    Examples:
      swapstone report last --html
      swapstone report last --markdown >> NOTES.md
      swapstone report last --format text | less
    """
    write_report(open_record(record), kind, out)


def write_report(opened: Record, kind: str = "html", out: str | None = None) -> None:
    """Write a record's report.

    Args:
        opened: the record.
        kind: name of a renderer.
        out: the file, or ``-``; the record's report.html for HTML, else standard output, if None.
    """
    target = out or (str(opened.path / "report.html") if kind == "html" else "-")
    beside = Path(target).parent if target != "-" else None
    document = opened.document(beside=beside)
    with named_record(opened.path):
        content = find_renderer(kind).render(document)
    _deliver(content, target, named=out is not None)


@click.command()
@RECORD
@click.option("--format", "kind", type=click.Choice(sorted(export.EXPORTS)), required=True, help="The format.")
@click.option("--out", metavar="FILE", default="-", show_default=True, help="Where to write it; - for standard output.")
def export_command(record: str, kind: str, out: str) -> None:
    r"""Write a record's figures for other tools.

    csv: one row a comparison. runs: CSV, one row a run and metric. effects: CSV, one row a main effect, simple effect or interaction of
    crossed factors. exhibits: CSV, one row a cell of the tables that some kinds of experiment have besides their comparisons. json: the
    whole analysis. hyperfine: its JSON, one result per workload and variant. benchstat: Go's benchmark text. junit: JUnit XML; a worse row
    is a failure. kcidb: KernelCI's JSON 5.3. lava: test-case signals for LAVA. `swapstone docs exports` has an example of each.

    \b
    Examples:
      swapstone export last --format csv > table.csv
      swapstone export last --format benchstat | benchstat -col /libc -
      swapstone export last --format junit --out junit.xml
      swapstone export last --format hyperfine > all.json
    """
    _deliver(open_record(record).report(kind), out)


def _deliver(content: str, target: str, *, named: bool = True) -> None:
    if target == "-":
        echo(content, nl=not content.endswith("\n"))
        return
    write_output(Path(target), content, named=named)
    echo(f"Wrote {plain(target)}", err=True)
