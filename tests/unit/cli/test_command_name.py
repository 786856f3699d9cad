# SPDX-License-Identifier: MIT OR Apache-2.0
"""Messages name the command as the user has to type it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.cli.command_name import NAME, VARIABLE, as_typed, set_command_name, started_as
from swapstone.core.report.document import Commands, Document, Paragraph, Section, with_texts
from tests.e2e.cli import swapstone

COMMANDS = ("show", "compare")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    set_command_name(COMMANDS, NAME)


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_name_is_what_the_user_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, installed = _program(tmp_path / "checkout" / NAME), _program(tmp_path / "bin" / NAME)
    monkeypatch.setenv("PATH", str(installed.parent))

    def name(folder: Path, started: str) -> str:
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        return started_as(["/x/swapstone/__main__.py"], ["python3", "-m"], {VARIABLE: started})

    assert name(program.parent, "./swapstone") == "./swapstone"
    assert name(program.parent, str(program)) == "./swapstone"
    assert name(tmp_path, "checkout/swapstone") == "checkout/swapstone"
    assert name(tmp_path / "other", str(program)) == str(program)
    assert name(tmp_path / "other", "../checkout/swapstone") == "../checkout/swapstone"
    assert name(tmp_path / "other", str(installed)) == "swapstone"
    assert name(tmp_path / "a b", str(_program(tmp_path / "a b" / "x y"))) == "'./x y'"


def test_without_the_launcher_the_name_comes_from_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = _program(tmp_path / "bin" / NAME)
    monkeypatch.setenv("PATH", str(installed.parent))
    assert started_as(["/a/swapstone/__main__.py"], [".venv/bin/python", "-m"], {}) == ".venv/bin/python -m swapstone"
    assert started_as([str(installed)], ["python3", str(installed)], {}) == "swapstone"


def test_only_commands_are_replaced_and_programs_do_not_inherit_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/swapstone")
    set_command_name(COMMANDS)
    assert VARIABLE not in os.environ
    assert as_typed("See `swapstone show last`.") == "See `/nowhere/swapstone show last`."
    for text in (
        "swapstone 0.1",
        "swapstone showing",
        "./swapstone show",
        "my-swapstone show",
        "the swapstone compared",
    ):
        assert as_typed(text) == text
    assert as_typed(as_typed("swapstone compare")) == "/nowhere/swapstone compare"


def test_a_document_names_the_command_in_every_block() -> None:
    set_command_name(COMMANDS, "./swapstone")
    shown = with_texts(
        Document(
            title="x",
            overview=(Paragraph("Next: swapstone compare a=b,c"),),
            closing=(Section(title="Record", blocks=(Commands(commands=(("page", "swapstone show r"),)),)),),
        ),
        as_typed,
    )
    assert shown.overview == (Paragraph("Next: ./swapstone compare a=b,c"),)
    assert shown.closing[0].blocks == (Commands(commands=(("page", "./swapstone show r"),)),)


@pytest.mark.slow
def test_hints_help_and_usage_of_a_checkout_name_the_launcher(tmp_path: Path) -> None:
    def run(*arguments: str, expect: int = 0) -> str:
        result = swapstone(tmp_path, *arguments, expect=expect, **{VARIABLE: "./swapstone"})
        return result.stdout + result.stderr

    assert "`./swapstone list records` lists" in run("show", "nonexistent", expect=2)
    page = run("compare", "--help")
    assert "Usage: ./swapstone compare " in page
    assert "    ./swapstone compare libc=glibc,musl\n" in page
    assert " swapstone " not in page and "`swapstone " not in page
    assert "`./swapstone list loads`" in " ".join(page.split())
