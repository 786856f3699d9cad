# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone plan`, `run-trial` and `collect`: an experiment on many machines, by files alone."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from swapstone.cli.compare import compare_command
from swapstone.cli.display import display
from swapstone.cli.options import OUT, declared
from swapstone.cli.output import echo, plain
from swapstone.cli.printing import interruptible, print_table
from swapstone.cli.program_command import CompareCommand, program_of
from swapstone.core.report.printed_json import printed_json
from swapstone.core.session.compare_options import single_comparison
from swapstone.parts.cluster.many_machines import collect_runs, make_runs, plan_runs

_NOT_PLANNED = {
    "resume",
    "trust",
    "every",
    "fit_memory",
    "fit_resolution",
    "as_json",
    "executor",
    "recheck",
    "out",
}


@click.command(
    cls=CompareCommand, params=[each for each in compare_command.params if each.name not in {*_NOT_PLANNED, "fail_if"}]
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan's name and the names of all runs as JSON.")
@click.pass_context
def plan_command(context: click.Context, /, store: str | None, as_json: bool, **options: object) -> None:
    r"""Write the runs of a comparison into a store, to be made on any machines: `run-trial` makes them, `collect` makes the record.

    The options are those of `compare`. Programs are built and workloads are calibrated here. The experiment is on the virtual clock, and
    has an exact number of blocks.

    \b
    Example:
      swapstone plan kernel=generic,rt --load io --blocks 8 --store sftp://host/srv/swapstone
    """
    made = plan_runs(single_comparison({**options, "store": store}, program_of(context)).experiment, store, display())
    if as_json:
        echo(printed_json("plan", **msgspec.structs.asdict(made)), nl=False)
        return
    echo(
        f"{made.trials} trials are planned, of {len(made.runs)} runs, of which {made.finished} are finished.\n\nPlan {made.plan}\n"
    )
    echo("\n".join(map(plain, made.next_steps())))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--plan", metavar="PLAN", help="All runs of this plan.")
@click.option("--share", metavar="K/N", help="Of a plan, each Nth run from the Kth on, for the Kth of N machines.")
@declared("store", "guest_timeout")
def run_trial_command(
    names: tuple[str, ...], plan: str | None, share: str | None, store: str | None, guest_timeout: str | None
) -> int:
    r"""Make planned runs on this machine, unless the store has them. A machine whose QEMU would make another run refuses.

    \b
    Example:
      swapstone run-trial --plan PLAN --share 2/4 --store file:///srv/swapstone
    """
    made = failed = 0
    for name, run in make_runs(names, store, plan=plan, share=share, guest_timeout=guest_timeout, note=display().note):
        made += 1
        failed += run.end.value != "finished"
        echo(f"{plain(name)} {plain(run.end.value)}{plain(f': {run.reason}' if run.reason else '')}")
    echo(f"{made - failed} runs are in the store.")
    return 4 if failed else 0


@click.command()
@click.argument("plan")
@declared("store")
@OUT
@interruptible
def collect_command(plan: str, store: str | None, out: str | None) -> int:
    r"""Make the record of a plan from the runs in a store. It equals a record that was made on this machine alone.

    \b
    Example:
      swapstone collect PLAN --store file:///srv/swapstone
    """
    print_table(collect_runs(plan, store, Path(out) if out else None, display()))
    return 0
