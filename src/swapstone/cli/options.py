# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from swapstone.cli.shell_completion import (
    complete_architectures,
    complete_loads,
    complete_targets,
    complete_workloads,
)
from swapstone.session.catalog import TARGETS
from swapstone.session.sharing import WORKERS_USAGE

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Chain:
    """Applies several click decorators as one, in the order in which help lists them."""

    def __init__(self, *decorators: Callable[[Any], Any]) -> None:
        self._decorators = decorators

    def __call__(self, function: Decorated) -> Decorated:
        """Decorate a command."""
        for decorator in reversed(self._decorators):
            function = decorator(function)
        return function


class AliasedOption(click.Option):
    """An option that also accepts its former names, which help and completion leave out.

    Args:
        aliases: the former names, such as ``--drive``.
    """

    def __init__(self, *arguments: Any, aliases: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*arguments, **options)
        self.aliases = tuple(aliases)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's parser is private
        """Add the option under all its names."""
        shown = self.opts
        self.opts = [*shown, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


ONLY = click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Only workloads whose name matches; repeatable.",
    shell_complete=complete_workloads,
)
FAIL_IF = click.option(
    "--fail-if",
    multiple=True,
    metavar="[METRIC=]worse[:MARGIN]",
    help="End with status 3 if a candidate is worse by more than MARGIN, and with 4 if a row gave no result; repeatable.",
)
DRIVER_TARGET = click.option(
    "--driver-target",
    metavar="ssh:[USER@]HOST[:PORT]",
    help="Run the load generators of servers on this machine, reached by ssh.  [beside the servers]",
)
SERVER_ADDRESS = click.option(
    "--server-address",
    metavar="ADDRESS",
    help="The address of this machine on which servers listen for --driver-target.  [that from which ssh comes there]",
)
NO_CACHE = click.option(
    "--no-cache", is_flag=True, help="Repeat runs of virtual machines although equal runs are in the cache."
)
GUEST_TIMEOUT = click.option(
    "--guest-timeout", metavar="TIME", help="End a virtual machine that runs longer than this, in real time.  [10m]"
)
STORE = click.option(
    "--store", metavar="URL", help="Inputs and finished runs are kept in this folder, or s3://, sftp:// ..."
)
SHARING = Chain(
    STORE,
    click.option("--executor", metavar="WORKERS", help=f"Who makes the runs of virtual machines: {WORKERS_USAGE}."),
    click.option("--recheck", metavar="SHARE", help="Make this share of the runs twice, by two workers, e.g. 2%."),
)
MACHINES = Chain(NO_CACHE, GUEST_TIMEOUT, SHARING)

LG_ENV = click.option("--lg-env", metavar="FILE", help="labgrid's environment, for --target labgrid:PLACE.  [LG_ENV]")

measuring_options = Chain(
    ONLY,
    click.option("--budget", metavar="TIME", help="Stop measuring after this long, e.g. 90s or 2m.  [1m per variant]"),
    click.option(
        "--margin", default="2%", show_default=True, metavar="SHARE", help="Differences below this are of no interest."
    ),
    click.option(
        "--confidence",
        metavar="PERCENT",
        help="Of the intervals, before correction.  [99; 95 with --correction family]",
    ),
    click.option(
        "--correction",
        type=click.Choice(["report", "family"]),
        default="report",
        show_default=True,
        help="What the confidence holds for. With 99, 1 of 100 reports in which nothing differs states any difference; "
        "family: the rows of one suite, load and quantity, of which a report has several.",
    ),
    click.option("--seed", type=int, metavar="N", help="Of every random order.  [random, stored in the record]"),
    click.option(
        "--blocks",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Run exactly N blocks that count, instead of stopping on precision or budget; at most 2 N in all.",
    ),
    click.option(
        "--null", "null", is_flag=True, help="Add the baseline a second time, and relinked: how often do they differ?"
    ),
    click.option(
        "--layouts",
        type=click.IntRange(2, 1000),
        metavar="N",
        help="Link each variant N times, with functions and data shuffled.  Needs about 10 or more.",
    ),
    click.option(
        "--prime", type=int, metavar="N", help="Discarded runs before each measured one.  [1 for own programs]"
    ),
    click.option("--order", default="random", help="Or balanced: each variant follows each other one equally often."),
    click.option(
        "--target",
        metavar="TARGET",
        shell_complete=complete_targets,
        help=f"{'; '.join(kind.usage for kind in TARGETS)}.  [host; vm where only a virtual machine will do]",
    ),
    LG_ENV,
    click.option(
        "--load",
        "loads",
        default="idle",
        show_default=True,
        metavar="NAMES",
        shell_complete=complete_loads,
        help="What else the machine runs, e.g. idle,cpu,memory; `swapstone list loads` names them.",
    ),
    click.option(
        "--arch",
        "architecture",
        metavar="NAMES",
        help="Of the virtual machine: x86_64, arm64, armhf or riscv64; several separated by commas.  [this machine's]",
        shell_complete=complete_architectures,
    ),
    click.option(
        "--cpu-model",
        metavar="NAME",
        help="Of the virtual machine, as QEMU names it, e.g. Nehalem.  [qemu64, or cortex-a72]",
    ),
    click.option(
        "--ns-per-instruction",
        metavar="NUMBERS",
        help="Guest time of an instruction on the virtual clock: 1, 2, 4 ... 1024; several separated by commas.  [1]",
    ),
    click.option("--smp", "processors", type=int, default=1, metavar="N", help="Processors, which take turns.  [1]"),
    click.option(
        "--duration", metavar="TIME", help="How long each trial of the suite latency measures, up to 1000s.  [1s]"
    ),
    NO_CACHE,
    GUEST_TIMEOUT,
    click.option(
        "--clock", type=click.Choice(["wall", "virtual"]), help="virtual: count instructions.  [the target's own]"
    ),
    click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]"),
)
