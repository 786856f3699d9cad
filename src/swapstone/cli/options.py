"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from swapstone.model import UserError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_UNITS_NS = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000, "": 1_000_000_000}


def parse_duration_ns(text: str) -> int:
    """Read a duration such as ``90s``, ``2m`` or ``1.5h``; a bare number is in seconds.

    Returns:
        Nanoseconds.

    Raises:
        UserError: it has another form, or isn't above zero.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|)\s*", text, re.ASCII)
    nanoseconds = round(float(match[1]) * _UNITS_NS[match[2]]) if match else 0
    if nanoseconds <= 0 or nanoseconds > 366 * 24 * _UNITS_NS["h"]:
        raise UserError(f"{text!r} is not a duration.", "For example: 90s, 2m, 1.5h")
    return nanoseconds


def parse_ratio(text: str, what: str, low: float, high: float) -> float:
    """Read a share such as ``2%`` or ``0.02``.

    Args:
        text: what the user typed.
        what: the option's name, for the error.
        low: the value must be above this.
        high: the value must be below this.

    Returns:
        The share, 1.0 for a hundred per cent.

    Raises:
        UserError: it is not a number, or outside the limits.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text, re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not low < value < high:
        raise UserError(
            f"{text!r} is no value for {what}.", f"It is a share between {low:g} and {high:g}, e.g. 2% or 0.02."
        )
    return value


def parse_confidence(text: str) -> float:
    """Read a confidence such as ``95``, ``95%`` or ``0.95``.

    Raises:
        UserError: it isn't between 50 and 99.99 %.
    """
    bare = re.fullmatch(r"\s*\d{2}(\.\d+)?\s*", text, re.ASCII)
    return parse_ratio(f"{text}%" if bare else text, "--confidence", 0.5, 0.9999)


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
        help="host, vm or vm:KERNEL (generic, rt, or a kernel's path), or fake:SPEC.toml"
        "  [host; vm for what needs a machine of its own]",
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
