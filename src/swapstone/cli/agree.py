# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone agree`: compares the sizes and the signs of the differences in two records."""

from __future__ import annotations

import click

from swapstone.cli.documents import print_document
from swapstone.cli.output import echo
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.session.agreement_output import agreement_of, records_of


@click.command()
@click.argument("records", metavar="RECORD RECORD...", nargs=-1, required=True, shell_complete=COMPLETIONS["records"])
@click.option("--markdown", "kind", flag_value="markdown", help="Print Markdown.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
def agree_command(records: tuple[str, ...], kind: str | None) -> None:
    r"""Print two records of the same factors side by side, and whether their differences have the same size and sign.

    The records may be of one experiment made twice, or of two targets or clocks, such as the host's wall clock and the virtual clock,
    which counts instructions. The second ratio is divided by the first one. Sizes agree if the whole interval of that is within the
    margin, and differ if it excludes 1 and reaches beyond the margin. A record is not compared with itself or with a copy of it.

    Signs agree if both records have a difference in the same direction, or both have none beyond the margin. Workloads whose threads or
    processes run at once on the wall clock are not compared with the virtual clock, where they take turns. That is observed in the runs.

    Records that differ in the time of an instruction (--ns-per-instruction) may be two or more: which rows depend on it?

    Three or more records of one experiment on different boards: does the verdict hold on each, over all, and which board differs?
    The folder of such records stands for all of them.

    \b
    Examples:
      swapstone compare libc=glibc,musl --out host
      swapstone compare libc=glibc,musl --target vm --out vm
      swapstone agree host vm
      swapstone agree swap/1ns swap/2ns swap/4ns
      swapstone agree board-1 board-2 board-3
      swapstone agree boards                              # of --target ssh:a,ssh:b,ssh:c --out boards
    """
    found = agreement_of([record for name in records for record in records_of(name)])
    if kind:
        echo(found.text(kind), nl=False)
        return
    print_document(found.document)
