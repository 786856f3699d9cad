# SPDX-License-Identifier: MIT OR Apache-2.0
"""How options are declared: each once, as a field of the settings of its owner (`swapstone.core.session.options`).

The command line with its help and completion, the keys of study files and their JSON Schema, and the Python API are made from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from swapstone.core.model import UserError

_KEY = "option"


@attrs.frozen
class Option:
    """How an option is written and described.

    Attributes:
        flags: on the command line, the first one in messages; empty for what is no option there.
        help: what it does, with its default in brackets.
        metavar: what stands for its value in the help; empty for a flag.
        group: the heading of the help under which it stands.
        form: its type in a study file.
        example: a line of a study file; empty for an option that study files don't have.
        repeats: whether it may be given several times on the command line.
        choices: all its values; empty if they are not a fixed few.
        complete: what a shell completes: an entry of `swapstone.cli.shell_completion.COMPLETIONS`; empty for nothing.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    group: str = ""
    form: Any = str
    example: str = ""
    repeats: bool = False
    choices: tuple[str, ...] = ()
    complete: str = ""


class Piece:
    """The settings of one owner: a frozen class of attrs whose fields are `declared`."""


def declared(flags: str, group: str, help: str, example: str = "", form: Any = str, **more: Any) -> dict[str, Option]:  # noqa: ANN401 - those of `Option`
    """Return the metadata of a field.

    Args:
        flags: separated by spaces, followed by what stands for the value in the help.
        group: as of `Option`.
        help: as of `Option`.
        example: as of `Option`.
        form: as of `Option`.
        **more: the other attributes of `Option`.
    """
    words = flags.split()
    metavar = " ".join(word for word in words if not word.startswith("-"))
    names = tuple(word for word in words if word.startswith("-"))
    return {_KEY: Option(names, help, metavar, group, form, example, **more)}


def options_of(settings: type) -> Iterator[tuple[str, Option]]:
    """Yield each option of a class of settings with the name of its field."""
    for field in attrs.fields(settings):
        if _KEY in field.metadata:
            yield field.name, field.metadata[_KEY]


def flag_of(settings: type, name: str) -> str:
    """Return how an option is written on the command line, or in a study file if it is none there."""
    option = dict(options_of(settings))[name]
    return option.flags[0] if option.flags else name


def given_of(settings: Any) -> dict[str, object]:  # noqa: ANN401 - any class of settings
    """Return the options whose value is not the default, by the name of the field."""
    fields = attrs.fields_dict(type(settings))
    return {
        name: getattr(settings, name)
        for name, _ in options_of(type(settings))
        if getattr(settings, name) != fields[name].default
    }


def between(low: int, high: int) -> Callable[[object, attrs.Attribute[int | None], int | None], None]:
    """Return a check that a number is None or within limits.

    Raises:
        UserError: by the check.
    """

    def check(settings: object, field: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None and not low <= value <= high:
            flag = flag_of(type(settings), field.name)
            raise UserError(f"{flag} {value} is not between {low} and {high}.", f"For example: {flag} {low}")

    return check
