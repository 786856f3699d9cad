# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone explain` and `swapstone profile`: why a row of a record differs."""

from __future__ import annotations

import webbrowser

import click

from swapstone.cli.display import display
from swapstone.cli.documents import print_document
from swapstone.cli.output import echo, plain
from swapstone.cli.record_options import RECORD, TRUST
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.session.record_handle import open_record
from swapstone.parts.explain.instruments.acquisition import INSTRUMENTS


@click.command()
@RECORD
@click.argument("metric", required=False)
@click.option(
    "--only",
    "only",
    metavar="WORKLOAD",
    shell_complete=COMPLETIONS["workloads"],
    help="The row's workload, or a pattern.",
)
@click.option(
    "--candidate",
    metavar="VARIANT",
    help="The row's candidate, e.g. libc=musl.",
)
@click.option("--load", "load", metavar="LOAD", help="The row's load, e.g. memory.")
@click.option("--again", is_flag=True, help="Run under instruments although evidence is stored.")
@click.option(
    "--without",
    "without",
    multiple=True,
    type=click.Choice(list(INSTRUMENTS)),
    help="Leave an instrument out; repeatable.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Also try remedies for what is named: which share of the gap each closes beyond a placebo.",
)
@TRUST
@click.option("--json", "kind", flag_value="json", help="Print all of it as JSON.")
@click.option("--markdown", "kind", flag_value="markdown", help="Print it as Markdown.")
@click.option("--text", "kind", flag_value="text", default="text", help="Print it as text.  [default]")
def explain_command(
    record: str,
    metric: str | None,
    only: str | None,
    candidate: str | None,
    load: str | None,
    again: bool,
    without: tuple[str, ...],
    confirm: bool,
    trust: bool,
    kind: str,
) -> None:
    r"""Find out why a row of a record differs.

    A row is a workload, a metric and a candidate. Without --only, --candidate and METRIC it is the row with the largest difference.
    Baseline and candidate run again under instruments, each in runs of its own: counts of system calls, faults and context switches;
    stacks; instructions. The functions that account for the difference in time are named. Of a record on the
    exact clock, the instructions are counted by function; of a latency, the path of the worst wake-up is printed, from the timer to the
    thread. The evidence is stored in the record's folder explain/, beside flame graphs.

    \b
    Examples:
      swapstone explain last
      swapstone explain last wall --only b_malloc_big1 --candidate libc=musl
      swapstone explain last --confirm
      swapstone explain last max --load memory
    """
    result = open_record(record).explain(
        only,
        metric=metric,
        candidate=candidate,
        load=load,
        again=again,
        without=without,
        confirm=confirm,
        trust=trust,
        progress=display(),
    )
    if kind != "text":
        echo(result.report(kind), nl=False)
    else:
        print_document(result.document())
        echo(f"\nStored in {plain(result.folder)}: {', '.join(path.name for path in result.files)}")


@click.command()
@RECORD
@click.argument("metric", required=False)
@click.option("--only", "only", metavar="WORKLOAD", shell_complete=COMPLETIONS["workloads"], help="The row's workload.")
@click.option("--candidate", metavar="VARIANT", help="The row's candidate.")
@click.option("--on-cpu", "kind", flag_value="on-cpu", default="on-cpu", help="Where processor time goes.  [default]")
@click.option("--off-cpu", "kind", flag_value="off-cpu", help="What threads wait for.")
@click.option("--syscalls", "kind", flag_value="syscalls", help="System calls, by caller.")
@click.option(
    "--instructions",
    "kind",
    flag_value="instructions",
    help="Instructions, by caller (records of virtual machines).",
)
@click.option("--again", is_flag=True, help="Run under instruments although evidence is stored.")
@TRUST
@click.option("--open", "show", is_flag=True, help="Open the page of the difference in a browser.")
def profile_command(
    record: str,
    metric: str | None,
    only: str | None,
    candidate: str | None,
    kind: str,
    again: bool,
    trust: bool,
    show: bool,
) -> None:
    r"""Write a row's profiles: flame graphs of both variants and of their difference, folded stacks, pprof.

    The row is chosen as by `swapstone explain`, and the evidence is shared with it.

    \b
    Examples:
      swapstone profile last --off-cpu --open
      swapstone profile last --only b_malloc_big1
      swapstone profile last --instructions
    """
    result = open_record(record).explain(
        only, metric=metric, candidate=candidate, again=again, trust=trust, progress=display()
    )
    for path in result.profiles(kind):
        echo(plain(path))
    page = result.folder / f"{kind}-difference.html"
    if show and page in result.files:  # a received record may have a page of its own there
        webbrowser.open(page.resolve().as_uri())
