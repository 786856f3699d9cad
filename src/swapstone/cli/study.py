# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone study`: the experiments that Swapstone ships, and studies from files."""

from __future__ import annotations

from typing import Any

import attrs
import click

from swapstone.cli.display import display
from swapstone.cli.documents import print_document
from swapstone.cli.options import FAIL_IF, declared
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import interruptible, print_outcomes, print_table
from swapstone.cli.record_options import ALL, TRUST
from swapstone.cli.report import write_report
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.report.context import Selection
from swapstone.core.report.study_index import document_of
from swapstone.core.session import api
from swapstone.core.session.options import settings_from, typed
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request import complete_target
from swapstone.core.session.run_options import WITH_RESUME
from swapstone.exit_status import ExitStatus


@click.command()
@click.argument("name", metavar="NAME", required=False, shell_complete=COMPLETIONS["studies"])
@declared(
    *("only", "budget", "seed", "blocks", "target", "driver_target", "server_address", "no_cache", "guest_timeout"),
    *("store", "executor", "recheck"),
    budget="Another budget than the study's; its parts share it.",
    blocks="Run N blocks, instead of stopping on precision; a --budget beside it ends them.",
    target="host, vm, or fake:SPEC.toml  [as the study needs]",
)
@click.option(
    "--only-part",
    "only_parts",
    multiple=True,
    metavar="NAME",
    help="Only this part; repeatable.",
    shell_complete=COMPLETIONS["parts"],
)
@click.option("--html", "as_page", is_flag=True, help="Name the page, index.html, instead of printing the results.")
@click.option("--out", metavar="DIR", help="Folder of the new record, or of the parts' records.  [records/TIME-NAME]")
@click.option(
    "--resume",
    metavar="FOLDER",
    help=f"Resume an interrupted study; accepts only {WITH_RESUME} beside it, and --all.",
    shell_complete=COMPLETIONS["study_folders"],
)
@TRUST
@ALL
@FAIL_IF
@interruptible
def study_command(
    name: str | None,
    only_parts: tuple[str, ...],
    as_page: bool,
    out: str | None,
    resume: str | None,
    trust: bool,
    every: bool,
    fail_if: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - as click passes them
) -> int:
    r"""Run a study: an experiment from a file, or several that belong together.

    NAME is one of `swapstone list studies`, or the path of a TOML file (`swapstone docs studies`). The report has the published figures
    beside the measured ones. Each part of a study is a record in records/TIME-NAME/PART, and index.html in records/TIME-NAME opens with the
    published page's tables.

    \b
    Examples:
      swapstone study musl-vs-glibc
      swapstone study musl-vs-glibc --only 'b_string*' --budget 1m
      swapstone study --resume records/20261121-180000-preempt-rt --html
      swapstone study preempt-rt --only-part latency-x86_64
      swapstone study musl-malloc --driver-target ssh:me@board.example                  # wrk runs there
      swapstone study --resume records/20261121-180000-preempt-rt
    """
    made = settings_from(typed(options))
    target = complete_target(made.place.target or "", made) or None
    result = api.study(
        name,
        *attrs.evolve(made, place=attrs.evolve(made.place, target=target), of_parts=()).pieces(),
        only_parts=only_parts,
        out=out,
        resume=resume,
        trust=trust,
        fail_if=fail_if,
        progress=display(),
    )
    if result.index is None:
        record = Record(result.path)
        if as_page:
            write_report(record)
        else:
            print_table(record, Selection(every=True) if every else None)
        return print_outcomes([record], fail_if)
    if as_page:
        echo(f"Wrote {plain(result.path / 'index.html')}", err=True)
    else:
        echo()
        print_document(document_of(result.index), every=every)
    return print_outcomes(result.records.values(), fail_if, result.ended) if result.ok else ExitStatus.REFUSED
