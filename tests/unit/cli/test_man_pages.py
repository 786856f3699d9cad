# SPDX-License-Identifier: MIT OR Apache-2.0
"""Man pages: every command has one, every option is in it, and groff accepts it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from swapstone.cli.main import COMMANDS, cli
from swapstone.cli.man_pages import man_command, man_pages
from swapstone.core.model import UserError
from tests.programs import needs

ROOT = click.Context(cli, info_name="swapstone")
PAGES = dict(man_pages(cli, ROOT))


def _commands(command: click.Command, name: str, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _commands(found, f"{name}-{child}", context)


EVERY = dict(_commands(cli, "swapstone", ROOT))


def test_every_command_has_a_page() -> None:
    assert set(PAGES) == set(EVERY)
    assert {f"swapstone-{name}" for name in COMMANDS} <= set(PAGES) and "swapstone-image-build" in PAGES


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_option_and_example_is_in_the_page(name: str) -> None:
    page = PAGES[name].replace("\\-", "-").replace("\\(aq", "'").replace("\\(ti", "~").replace("\\e", "\\")
    for param in EVERY[name].get_params(ROOT):
        for option in param.opts if isinstance(param, click.Option) else ():
            assert re.search(rf"^\\fB.*{re.escape(option)}\b", page, re.MULTILINE), f"{option} is missing"
    for line in (EVERY[name].help or "").splitlines():
        if line.strip().startswith("swapstone "):
            assert line.strip() in page
    assert not re.search(r"--drive\b(?!-)", page) and "--versus" not in page  # hidden aliases
    heads = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    assert heads == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"]


@needs("groff")
@pytest.mark.parametrize("name", ["swapstone", "swapstone-compare", "swapstone-image-build"])
def test_groff_formats_it_without_warnings(name: str) -> None:
    command = ["groff", "-man", "-ww", "-Tutf8"]
    result = subprocess.run(command, input=PAGES[name], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    plain = re.sub(".\b|\x1b\\[[0-9;]*m", "", result.stdout)
    assert name.replace("-", " ") in plain and "EXIT STATUS" in plain


def test_what_roff_would_interpret_is_escaped() -> None:
    command = click.Command("x", help="\b\nExamples:\n.hidden 'a' \\n --b", params=[])
    (page,) = dict(man_pages(command, click.Context(command, info_name="x"), "x")).values()
    assert "\\&.hidden \\(aqa\\(aq \\en \\-\\-b" in page


def test_pages_are_written_to_a_folder(tmp_path: Path) -> None:
    cli.main(["man", "--out", str(tmp_path / "man1")], standalone_mode=False)
    assert {path.name for path in (tmp_path / "man1").iterdir()} == {f"{name}.1" for name in PAGES}
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (["--out", str(tmp_path / "file" / "x")], "can't be written"),
        (["nothing"], "no command"),
    ):
        with pytest.raises(UserError, match=message):
            cli.main(["man", *arguments], standalone_mode=False)
    assert man_command.name == "man"
