# SPDX-License-Identifier: MIT OR Apache-2.0
"""A click command that accepts another command line after ``--``."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.core import ParameterSource

from swapstone.cli.options import GROUPS

_META = "swapstone.program"


_GROUPS = {
    **GROUPS,
    "The smallest memory that suffices": ("fit_memory", "fit_resolution", "as_json"),
    "Record": ("out", "resume", "trust", "every", "fail_if"),
}
"""Headings with the names of the options (their function's parameters), in the order of help."""


class CompareCommand(click.Command):
    """Stores what follows the first ``--``, and lists the options of a comparison in named groups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store what follows the first ``--``: click would drop the mark and join the two parts."""
        ctx.meta[_META] = None
        if "--" in args:
            mark = args.index("--")
            args, ctx.meta[_META] = args[:mark], tuple(args[mark + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the program to the line of usage."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ARG...]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the options by group; those in no group come last."""
        records = {
            param.name: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
        }
        for title, names in _GROUPS.items():
            if shown := [records.pop(name) for name in names if name in records]:
                with formatter.section(title):
                    formatter.write_dl(shown)
        if records:
            with formatter.section("Options"):
                formatter.write_dl(list(records.values()))


def typed_option(ctx: click.Context, meant: Callable[[str], bool]) -> str | None:
    """Return the first parameter on the command line that is meant, by its name; None if there is none."""
    typed = (
        each for each in ctx.command.params if ctx.get_parameter_source(each.name or "") is not ParameterSource.DEFAULT
    )
    return next((each.opts[0] for each in typed if meant(each.name or "")), None)


def program_of(ctx: click.Context) -> tuple[str, ...] | None:
    """Return what stood after ``--``; None where there was none."""
    found: tuple[str, ...] | None = ctx.meta.get(_META)
    return found
