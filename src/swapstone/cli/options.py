"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from swapstone.targets import TARGETS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Chain:
    """Applies several click decorators as one, in the order in which help should list them."""

    def __init__(self, *decorators: Callable[[Any], Any]) -> None:
        self._decorators = decorators

    def __call__(self, function: Decorated) -> Decorated:
        """Decorate a command."""
        for decorator in reversed(self._decorators):
            function = decorator(function)
        return function


NO_CACHE = click.option(
    "--no-cache", is_flag=True, help="Make every run of a virtual machine anew, though an equal one is known."
)

measuring = Chain(
    click.option(
        "--only", multiple=True, metavar="PATTERN", help="Only workloads whose name matches; may be repeated."
    ),
    click.option("--budget", metavar="TIME", help="Stop measuring after this long, e.g. 90s or 2m.  [1m per variant]"),
    click.option(
        "--margin", default="2%", show_default=True, metavar="SHARE", help="Differences below this are of no interest."
    ),
    click.option(
        "--confidence", default="95", show_default=True, metavar="PERCENT", help="Of the intervals, before correction."
    ),
    click.option("--seed", type=int, metavar="N", help="Of every random order.  [drawn, and kept in the record]"),
    click.option(
        "--blocks",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Exactly so many blocks, whatever precision and budget say.",
    ),
    click.option(
        "--null",
        "null",
        is_flag=True,
        help="Add the baseline a second time, and a relinked copy: how often do they differ?",
    ),
    click.option(
        "--layouts",
        type=click.IntRange(2, 1000),
        metavar="N",
        help="Link each variant N times, functions and data shuffled: do verdicts survive it?  Needs about 10 or more.",
    ),
    click.option(
        "--target",
        metavar="TARGET",
        help=f"{'; '.join(kind.usage for kind in TARGETS)}.  [host; vm for what needs a machine of its own]",
    ),
    click.option(
        "--load",
        "loads",
        default="idle",
        show_default=True,
        metavar="NAMES",
        help="What else the machine does meanwhile, e.g. idle,cpu,memory; see `swapstone list loads`.",
    ),
    click.option(
        "--arch", "architecture", metavar="NAME", help="Of the virtual machine: x86_64 or arm64.  [this machine's]"
    ),
    NO_CACHE,
    click.option(
        "--clock", type=click.Choice(["wall", "virtual"]), help="virtual: count instructions.  [the target's own]"
    ),
    click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]"),
)
