# SPDX-License-Identifier: MIT OR Apache-2.0
"""Command lines: told apart from factors, split, named, and refused where a shell would be needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import CommandLine, UserError
from swapstone.core.session.command_lines import command_lines, executable, shell_character, split_arguments
from swapstone.core.session.command_text import shown_command

HERE = Path("/project")


def lines(
    *texts: str, names: tuple[str, ...] = (), shell: bool = False, built: bool = False
) -> tuple[CommandLine, ...]:
    return command_lines(texts, names, HERE, shell=shell, built=built)


@pytest.mark.parametrize("text", ["libc=glibc,musl", "libc = glibc, musl", "env:A=1,2", "{n}=1,2", "program=a,b"])
def test_a_registered_name_before_an_equals_sign_is_a_factor(text: str) -> None:
    assert split_arguments([text]) == ((text,), ())


@pytest.mark.parametrize("text", ["./a x=1", "FOO=1 ./prog", "ls", "./a", "/bin/ls", "ls -l", "./a=b", "{tool} x"])
def test_other_texts_are_commands(text: str) -> None:
    assert split_arguments([text, "libc=glibc,musl"]) == (("libc=glibc,musl",), (text,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("libcc=glibc,musl", "there is no factor 'libcc'"),
        ("libcc=glibc, musl", "there is no factor 'libcc'"),
        ("FOO=1", "as a command it has no program"),
        ("libc", "The factor libc has no levels"),
        ("no-such-program", "is neither FACTOR=LEVELS nor a program on your PATH"),
        ("", "A command is empty"),
        (" \t", "A command is empty"),
    ],
)
def test_an_ambiguous_or_mistyped_argument_is_an_error_that_shows_both_forms(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        split_arguments([text])
    assert message in error.value.message
    assert "swapstone compare libc=glibc,musl" in error.value.hint
    assert "swapstone compare './old --fast' './new --fast'" in error.value.hint


def test_a_mistyped_factor_names_the_near_one_and_the_option_for_a_variable() -> None:
    with pytest.raises(UserError) as error:
        split_arguments(["libcc=a,b"])
    assert error.value.hint.startswith("Did you mean 'libc'?")
    assert "--vary env:libcc=A,B" in error.value.hint


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("a | b", "|"),
        ("a > f", ">"),
        ("a < f", "<"),
        ("a; b", ";"),
        ("a && b", "&"),
        ("ls *.c", "*"),
        ("ls a?", "?"),
        ("ls [ab]", "["),
        ("echo $HOME", "$"),
        ('echo "$HOME"', "$"),
        ("echo `id`", "`"),
        ("ls ~/x", "~"),
        ("a\nb", "\n"),
        ("echo '*' \"|;\" \\* 'a$b'", ""),
        ("grep end$ f", ""),
        ("ls a~ [", ""),
        ("./a {N} x=1 'ü'", ""),
    ],
)
def test_characters_of_the_shell_are_found_outside_of_quotes(text: str, character: str) -> None:
    assert shell_character(text) == character


def test_shell_syntax_is_an_error_with_the_remedy() -> None:
    with pytest.raises(UserError) as error:
        lines("sort < f", "ls")
    assert "'<' is a redirection; --input FILE gives it a standard input" in error.value.message
    assert "--shell runs each command by /bin/sh -c; the shell is then measured and observed too" in error.value.hint
    assert [line.words for line in lines("sort < f", "ls", shell=True)] == [("sort < f",), ("ls",)]


def test_programs_are_found_like_execvp_and_relative_to_the_folder() -> None:
    first, second = lines("./a 'x y' -n", "../b/c")
    assert first.words == ("/project/a", "x y", "-n")
    assert second.words == ("/b/c",)
    assert lines("true", "false")[0].words[0].endswith("/bin/true")
    assert lines("./a", "b/c", built=True)[1].words == ("b/c",)


def test_a_program_that_is_not_on_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no program 'nosuch' on your PATH"):
        lines("nosuch a", "ls")
    (tmp_path / "nosuch").touch()
    with pytest.raises(UserError) as error:
        command_lines(["nosuch a", "ls"], (), tmp_path, shell=False, built=False)
    assert error.value.hint == "There is one in this folder: write ./nosuch"


def test_assignments_before_the_program_are_its_environment() -> None:
    (line, _) = lines("A=1 B='x y' ./prog C=3", "./prog")
    assert line.environment == (("A", "1"), ("B", "x y"))
    assert line.words == ("/project/prog", "C=3")
    with pytest.raises(UserError, match="sets variables and has no program"):
        lines("A=1 B=2", "./prog")


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (("./old --fast", "./new --fast"), ["old", "new"]),
        (("sleep 0.1", "sleep 0.2"), ["sleep-0.1", "sleep-0.2"]),
        (("python3 a.py", "python3 b.py"), ["python3-a.py", "python3-b.py"]),
        (("ls", "ls -l"), ["ls", "ls-l"]),
        (("A=1 ./p", "A=2 ./p"), ["p-A-1", "p-A-2"]),
        (("/x/p", "/y/p"), ["x", "y"]),
        (("./old/p{N}", "./new/p{N}"), ["old", "new"]),
        (("/x/a/p", "/x/b/q/p"), ["a", "q"]),
        (("/ü/p", "/é/p"), ["p-1", "p-2"]),
        (("./p 'ü'", "./p '\x1b[31m'"), ["p", "p-31m"]),
        (("./p " + "x" * 90 + "1", "./p " + "x" * 90 + "2"), ["p-" + "x" * 30 + "-1", "p-" + "x" * 30 + "-2"]),
    ],
)
def test_labels_are_short_different_and_safe(texts: tuple[str, ...], labels: list[str]) -> None:
    assert [line.name for line in lines(*texts)] == labels


def test_names_replace_labels() -> None:
    assert [line.name for line in lines("./a", "./b", names=("old version", "neu ü"))] == ["old version", "neu ü"]


@pytest.mark.parametrize("name", ["", " a", "-n", "a,b", "a=b", "a/b", "{a}", "a\nb", "a\0b", "\x1b[31m", "x" * 61])
def test_a_name_that_reports_could_not_print_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match="is no name for a command"):
        lines("./a", "./b", names=("a", name))


def test_names_and_commands_must_be_different_and_equally_many() -> None:
    with pytest.raises(UserError, match="There are 2 commands and 1 names"):
        lines("./a", "./b", names=("a",))
    with pytest.raises(UserError, match="Two commands have the name 'a'"):
        lines("./a", "./b", names=("a", "a"))
    with pytest.raises(UserError) as error:
        lines("./a", "./a")
    assert "--null" in error.value.hint


def test_quotes_that_do_not_match_are_an_error() -> None:
    with pytest.raises(UserError, match="The quotes of the command"):
        lines("./a 'x", "./b")


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["./a", "{N}"], "'./a {N}'"), (["a", "x y"], "\"a 'x y'\""), (["a", "$x"], "'a '\"'\"'$x'\"'\"''")],
)
def test_a_command_is_shown_as_one_argument(words: list[str], shown: str) -> None:
    assert shown_command(words) == shown


def test_a_shim_of_pyenv_is_followed_to_the_version_that_it_would_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, work = tmp_path / ".pyenv", tmp_path / "work" / "deep"
    work.mkdir(parents=True)
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    monkeypatch.chdir(work)
    for path in ("shims", "versions/3.11.7/bin", "versions/3.12.1/bin", "versions/3.9/bin"):
        (root / path).mkdir(parents=True)
        (root / path / "python9").write_text("#!/bin/sh\n")
        (root / path / "python9").chmod(0o755)
    monkeypatch.setenv("PATH", str(root / "shims"))

    def found() -> str:
        return executable("python9", work).removeprefix(f"{root}/")

    assert found() == "shims/python9"  # the version is not known
    (root / "version").write_text("3.11.7\n3.9\n")
    assert found() == "versions/3.11.7/bin/python9"
    (work.parent / ".python-version").write_text("3.12.1\n")
    assert found() == "versions/3.12.1/bin/python9"
    monkeypatch.setenv("PYENV_VERSION", "3.9:3.11.7")
    assert found() == "versions/3.9/bin/python9"
    for none in ("system", "..", "../versions/3.9", "3.99"):
        monkeypatch.setenv("PYENV_VERSION", none)
        assert found() == "shims/python9"
