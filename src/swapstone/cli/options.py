# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.session.option_table import Option, options_of
from swapstone.core.session.options import PIECES

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def chain(*decorators: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Return several click decorators as one, in the order in which help lists them."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


FAIL_IF = click.option(
    "--fail-if",
    multiple=True,
    metavar="[METRIC=]worse[:MARGIN]",
    help="End with status 3 if a candidate is worse by more than MARGIN, and with 4 if a row gave no result; repeatable.",
)
OUT = click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]")

DECLARED: Mapping[str, Option] = {
    name: option for piece in PIECES.values() for name, option in options_of(piece) if option.flags
}
"""Every option of a comparison, by the name of its field."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for name, option in DECLARED.items() if option.group == group)
    for group in dict.fromkeys(option.group for option in DECLARED.values())
}
"""The names of the options by the heading of the help."""


def declared(*names: str, **helps: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator for options of the table.

    Args:
        *names: of their fields; without any, all of them. An option of a part that is not installed is left out.
        **helps: another text for an option that means something else here, by its name.
    """
    return chain(*(_click_option(name, helps.get(name, "")) for name in names or DECLARED if name in DECLARED))


def _click_option(name: str, text: str) -> Callable[[Any], Any]:
    option = DECLARED[name]
    kind = click.Choice(option.choices) if option.choices else int if option.metavar == "N" else str
    is_flag = not (option.metavar or option.choices)
    settings: dict[str, Any] = {"is_flag": True} if is_flag else {"type": kind, "multiple": option.repeats}
    return click.option(
        *option.flags,
        name,
        metavar=option.metavar or None,
        help=text or option.help,
        shell_complete=COMPLETIONS[option.complete] if option.complete else None,
        **settings,
    )
