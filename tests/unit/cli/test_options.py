# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that changed their name accept the former one, which help does not show."""

from __future__ import annotations

import re

import click
import pytest

from swapstone.cli.main import cli

ROOT = click.Context(cli, info_name="swapstone")


@pytest.mark.parametrize(
    ("command", "former", "name"),
    [
        ("compare", "--drive", "load_generator"),
        ("explain", "--versus", "candidate"),
        ("profile", "--versus", "candidate"),
    ],
)
def test_a_former_name_is_a_hidden_alias(command: str, former: str, name: str) -> None:
    found = cli.get_command(ROOT, command)
    assert found is not None
    arguments = ["last"] if command != "compare" else []
    for option in (former, f"--{name.replace('_', '-')}"):
        context = found.make_context(command, [*arguments, option, "x"])
        assert context.params[name] == "x"
        assert found.make_context(command, [*arguments, f"{option}=y"]).params[name] == "y"
    text = found.get_help(click.Context(found, info_name=command))
    assert not re.search(rf"{former}\b(?!-)", text) and f"--{name.replace('_', '-')}" in text


def test_every_command_has_help_with_an_example() -> None:
    def check(command: click.Command, path: str) -> None:
        assert "Example" in (command.help or command.epilog or ""), path
        assert all(param.help for param in command.params if isinstance(param, click.Option)), path
        for name, child in command.commands.items() if isinstance(command, click.Group) else ():
            check(child, f"{path} {name}")

    for name in cli.list_commands(ROOT):
        command = cli.get_command(ROOT, name)
        assert command is not None
        check(command, name)
