# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the command line prints passes through one function, and errors, notes and tracebacks cannot control the terminal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from swapstone.cli import main, output
from swapstone.cli.display import PlainDisplay, TerminalDisplay, print_note
from swapstone.core.model import NothingComparableError, UserError
from swapstone.core.model.errors import unknown
from tests.e2e.cli import swapstone
from tests.unit import builders
from tests.unit.model.test_safe_text import HOSTILE, steering

CLI = Path(output.__file__).parent
EVIL = " ".join(HOSTILE.values())

# They print texts of this program alone.
OWN_TEXTS = {"docs.py", "shell_completion.py"}


def test_one_function_prints() -> None:
    """`click.echo` is called in `output`, where Swapstone's own pages are printed, and for constants."""
    for path in CLI.glob("*.py"):
        if path.name in OWN_TEXTS | {"output.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            assert name != "print", path
            if name in {"click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}:
                assert [ast.unparse(each) for each in node.args] == ["MESSAGE"], (path.name, ast.unparse(node))


def test_lines_stay_and_control_characters_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    output.echo(f"one\n{EVIL}\ttwo")
    output.echo(EVIL, err=True)
    output.echo_labelled("damaged: ", EVIL)
    printed = capsys.readouterr()
    assert printed.out.startswith("one\n") and "\ttwo" in printed.out
    assert not steering(printed.out + printed.err, kept="\n\t")


@pytest.mark.parametrize("kind", [UserError, NothingComparableError])
def test_errors(capsys: pytest.CaptureFixture[str], kind: type[UserError]) -> None:
    """The dump of a failed first trial is the message of one."""
    assert main.report_error(kind(f"Its first lines:\n{EVIL}", f"Try: {EVIL}")) in {2, 4}
    printed = capsys.readouterr().err
    assert printed.startswith("error: Its first lines:\n")
    assert not steering(printed, kept="\n\t")


def test_the_traceback_of_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError(EVIL)
    except RuntimeError as error:
        assert main.report_error(error) == 1
    printed = capsys.readouterr().err
    assert "RuntimeError" in printed and "Please report it" in printed
    assert not steering(printed, kept="\n\t")


def test_too_little_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.report_error(MemoryError()) == 2
    assert capsys.readouterr().err.startswith("error: There is not enough memory")


def test_a_name_of_a_record_adds_no_line_to_an_error() -> None:
    error = unknown("workload", "b", ["a\nerror: forged", "\x1b[2Jc"])
    assert str(error).splitlines()[1] == "Known: \\x1b[2Jc, a\\x0aerror: forged. `swapstone list workloads` lists all."


@pytest.mark.slow
def test_a_mistake_in_the_command_line(tmp_path: Path) -> None:
    """An argument may be a name of a folder from elsewhere."""
    name = EVIL.replace("\x00", "").replace("\udcff", "")
    for arguments in ((name,), ("show", name), ("show", "--metric"), (f"--{name}",), ("list", name)):
        printed = swapstone(tmp_path, *arguments, expect=2).stderr
        assert printed and not steering(printed, kept="\n\t")


def test_notes_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    print_note(EVIL)
    for display in (PlainDisplay(print_note), TerminalDisplay()):
        display.experiment_started(builders.experiment(), EVIL)
        display.note(EVIL)
        display.building(0, 2, EVIL)
        display.building(1, 2, EVIL)
        display.part_started(1, 2, "name", EVIL)
        display.part_ended("failed", EVIL, None)
        display.experiment_ended()
    printed = capsys.readouterr()
    assert not steering(printed.out + printed.err, kept="\n\t")
    assert "\\u202e" in printed.err and "\\u202e" in printed.out
