# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that changed their name accept the former one, which help does not show."""

from __future__ import annotations

import click

from swapstone.cli.main import cli

ROOT = click.Context(cli, info_name="swapstone")


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
