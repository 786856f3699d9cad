# SPDX-License-Identifier: MIT OR Apache-2.0
"""Command lines that are compared: told apart from factors, split into words, and named."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import ADMINISTRATORS
from swapstone.core.factors import all_factors
from swapstone.core.model import CommandLine, UserError, check_distinct, placeholders_in, refuse, unknown
from swapstone.core.model.substitution import NAME

FORMS = (
    "A factor is FACTOR=BASELINE,CANDIDATE, for example: swapstone compare libc=glibc,musl\n"
    "A command is one quoted argument, for example: swapstone compare './old --fast' './new --fast'"
)
SHELL_HINT = (
    "--shell runs each command by /bin/sh -c; the shell is then measured and observed too. "
    "A character that is meant literally is quoted inside the command: \"grep 'a*' FILE\"."
)
_SHIMMED = {"pyenv": "python", "rbenv": "ruby", "nodenv": "node"}
"""Programs that manage versions of an interpreter by scripts in its place, and how the file with a folder's version begins."""

_MOST_VERSION_CHARACTERS = 200
LONGEST_LABEL = 32
LONGEST_NAME = 60

_ASSIGNMENT = re.compile(rf"({NAME})=(.*)", re.ASCII | re.DOTALL)
_SPECIAL = {
    "|": "a pipe",
    "&": "&",
    ";": ";",
    "<": "a redirection; --input FILE gives it a standard input",
    ">": "a redirection; --output FILE takes its standard output",
    "(": "a subshell",
    ")": "a subshell",
    "$": "a variable or substitution; write its value, or set it with 'NAME=VALUE ./prog'",
    "`": "a substitution; write its value",
    "\n": "a second line",
    "*": "a pattern for file names; write the names",
    "?": "a pattern for file names; write the names",
    "[": "a pattern for file names; write the names",
    "~": "a home folder; write its path",
}
"""Characters with a meaning for the shell, outside of quotes (POSIX, Shell Command Language 2.2), and what each stands for."""


_LITERAL = re.compile(r"""\\(?:.|\Z)|'[^']*(?:'|\Z)|"(?:\\(?:.|\Z)|[^"\\])*(?:"|\Z)""", re.DOTALL)
"""What a shell takes literally, but for $ and ` in double quotes."""


def split_arguments(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tell factors and command lines apart.

    Args:
        texts: the arguments of `swapstone compare`.

    Returns:
        The factors, ``NAME=LEVELS``, and the command lines.

    Raises:
        UserError: a text is neither, or may be both.
    """
    factors = [text for text in texts if _is_factor(text)]
    commands = [text for text in texts if not _is_factor(text)]
    for text in commands:
        _require_command(text)
    return tuple(factors), tuple(commands)


def _is_factor(text: str) -> bool:
    name, equals, _ = text.partition("=")
    known = {*(factor.name for factor in all_factors()), "program", "command"}
    return bool(equals) and (name.strip() in known or (name.startswith(("env:", "{")) and not re.search(r"\s", name)))


def _require_command(text: str) -> None:
    """Raise a `UserError` for a text that looks like a factor, or names no program."""
    name, equals, _ = text.partition("=")
    if not text.strip():
        raise UserError("A command is empty.", FORMS)
    names = [factor.name for factor in all_factors()]
    hint = unknown("factor", name, names).hint if equals else ""
    near = hint.partition("?")[0] + "? " if "Did you mean" in hint else ""
    mistyped = equals and near and re.fullmatch(NAME, name, re.ASCII) and "/" not in text
    if (re.search(r"\s", text) and not mistyped) or "/" in (name if equals else text):
        return
    refuse(
        (
            equals,
            f"{text!r} is neither: there is no factor {name!r}, and as a command it has no program.",
            f"{near}`swapstone list factors` prints them.\n{FORMS}\n"
            f"To vary an environment variable: --vary env:{name}=A,B. To set one: '{text} ./prog'",
        ),
        (text in names, f"The factor {text} has no levels.", FORMS),
        (
            shutil.which(text) is None and not placeholders_in(text),
            f"{text!r} is neither FACTOR=LEVELS nor a program on your PATH.",
            FORMS,
        ),
    )


def command_lines(
    texts: Sequence[str], names: Sequence[str], folder: Path, *, shell: bool, built: bool
) -> tuple[CommandLine, ...]:
    """Return command lines as a record stores them.

    Args:
        texts: as typed, the baseline first.
        names: of the option ``--name``: one for each text, or none.
        folder: where relative paths start.
        shell: whether ``/bin/sh -c`` runs them.
        built: whether their programs stay as typed: a build makes them, or a root file system has them.

    Raises:
        UserError: one is malformed, two are the same, or names are missing.
    """
    hint = "To learn how often a program seems to differ from itself, give it once with a factor, and add --null."
    check_distinct(texts, "The command {!r} is given twice.", hint)
    words = [text.split() if shell else _checked_words(text) for text in texts]
    labels = _given_names(names, texts) or _labels(words)
    if shell:
        return tuple(CommandLine(name=label, words=(text,)) for label, text in zip(labels, texts, strict=True))
    return tuple(_line(label, each, folder, built=built) for label, each in zip(labels, words, strict=True))


def _line(label: str, words: Sequence[str], folder: Path, *, built: bool) -> CommandLine:
    count = _assignments(words)
    pairs = [(match[1], match[2]) for word in words[:count] if (match := _ASSIGNMENT.fullmatch(word))]
    if count == len(words):
        raise UserError(
            f"The command {shlex.join(words)!r} sets variables and has no program.",
            f"Add the program: '{shlex.join(words)} ./prog'. To vary one alone: --vary env:{pairs[0][0]}=A,B -- ./prog"
            if pairs
            else FORMS,
        )
    if not built:
        _require_found(words[count], folder)
    program = words[count] if built else executable(words[count], folder)
    return CommandLine(name=label, words=(program, *words[count + 1 :]), environment=tuple(dict(pairs).items()))


def _require_found(program: str, folder: Path) -> None:
    """Raise a `UserError` for a name without a slash that is not on PATH, as execvp(3) fails then."""
    if "/" in program or placeholders_in(program) or found_program(program):
        return
    here = (folder / program).is_file()
    hint = (
        f"There is one in this folder: write ./{program}" if here else f"Name it by its path, or install it.\n{FORMS}"
    )
    raise UserError(f"There is no program {program!r} on your PATH.", hint)


def _assignments(words: Sequence[str]) -> int:
    """Return the number of words such as ``NAME=VALUE`` before the program."""
    return next((at for at, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word)), len(words))


def found_program(name: str) -> str | None:
    """Return where a program without a slash in its name is: on PATH, or in a folder that an administrator's PATH has.

    Servers are in these folders, and on Debian a user's PATH lacks them.
    """
    return shutil.which(name) or shutil.which(name, path=ADMINISTRATORS)


def executable(program: str, folder: Path) -> str:
    """Return a program's absolute path without following links, as execvp(3) finds it; the file need not exist.

    A name with a placeholder and without a slash stays: what it is depends on the variant.
    """
    if "/" not in program:
        if placeholders_in(program):
            return program
        found = found_program(program)
        if found:
            return behind_shim(os.path.normpath(Path.cwd() / found))
    return os.path.normpath(folder / program)


def behind_shim(path: str) -> str:
    """Return the program that a shim of pyenv, rbenv or nodenv starts: ROOT/versions/VERSION/bin/NAME for ROOT/shims/NAME.

    The version is that of PYENV_VERSION, of .python-version in the working folder or above it, or of ROOT/version, and so on. A shim
    of which it is not known stays.
    """
    shim = Path(path)
    root = shim.parent.parent
    tool = root.name.removeprefix(".")
    if shim.parent.name != "shims" or tool not in _SHIMMED:
        return path
    here = Path.cwd()
    files = [folder / f".{_SHIMMED[tool]}-version" for folder in (here, *here.parents)] + [root / "version"]
    texts = [os.environ.get(f"{tool.upper()}_VERSION", "")]
    texts += [file.read_text(errors="replace")[:_MOST_VERSION_CHARACTERS] for file in files if file.is_file()]
    version = next((re.split(r"[\s:]", text.strip())[0] for text in texts if text.strip()), "")
    found = root / "versions" / version / "bin" / shim.name
    return str(found) if re.fullmatch(r"\w[\w.+-]*", version) and os.access(found, os.X_OK) else path


def _checked_words(text: str) -> list[str]:
    if found := shell_character(text):
        raise UserError(
            f"The command {text!r} contains shell syntax: {found!r} is {_SPECIAL[found]}.",
            f"A command is executed without a shell. {SHELL_HINT}",
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"The quotes of the command {text!r} don't match: {error}.", FORMS) from error
    if not words or not words[0]:
        raise UserError(f"The command {text!r} has no program.", FORMS)
    return words


def shell_character(text: str) -> str:
    """Return the first character that a shell would not take literally; empty if there is none."""
    shown = _LITERAL.sub(
        lambda quoted: _in_double_quotes(quoted[0]) if quoted[0][0] == '"' else "x" * len(quoted[0]), text
    )
    found = ((char, text[at - 1] if at else " ", text[at:]) for at, char in enumerate(shown) if char in _SPECIAL)
    return next((char for char, before, rest in found if _has_meaning(char, before, rest)), "")


def _in_double_quotes(text: str) -> str:
    """Return a text in double quotes with a letter for each character that the shell takes literally there."""
    return re.sub(r"\\.|[^$`]", lambda literal: "x" * len(literal[0]), text, flags=re.DOTALL)


def _has_meaning(char: str, before: str, rest: str) -> bool:
    if char == "~":
        return before.isspace()
    if char == "[":
        return "]" in rest.split(maxsplit=1)[0]
    return char != "$" or rest[1:2].isalnum() or rest[1:2] in set("{(_?#@*!$-")


def _given_names(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    if not names:
        return []
    if len(names) != len(texts):
        raise UserError(
            f"There are {len(texts)} commands and {len(names)} names.",
            "Give each its --name, in the same order: './a' './b' --name old --name new",
        )
    for name in names:
        wrong = next((char for char in name if not char.isprintable() or char in ",=/{}"), "")
        if not name or wrong or name != name.strip() or name.startswith("-") or len(name) > LONGEST_NAME:
            raise UserError(
                f"--name {name[:LONGEST_NAME]!a} is no name for a command.",
                f"A name has up to {LONGEST_NAME} printable characters, does not begin with '-', and has none of , = / {{ }}.",
            )
    check_distinct(names, "Two commands have the name {!r}.", "Give each its own --name.")
    return list(names)


def _labels(commands: Sequence[Sequence[str]]) -> list[str]:
    """Return short, different labels: the programs' names with the words that not all commands have, or the folders that differ."""
    ordered = [(*words[(at := _assignments(words)) :], *words[:at]) for words in commands]
    common = frozenset.intersection(*(frozenset(words[1:]) for words in ordered))
    programs = [_safe(words[0]) for words in ordered]
    for longest in (0, 1, 2, 3, None):
        texts = [
            "-".join((program, *map(_safe, [word for word in words[1:] if word not in common][:longest])))
            for program, words in zip(programs, ordered, strict=True)
        ]
        labels = [re.sub(r"-+", "-", text)[:LONGEST_LABEL].strip("-.") or "command" for text in texts]
        if len(set(labels)) == len(labels):
            return labels
    for parts in zip(*(words[0].split("/")[::-1] for words in ordered), strict=False):
        folders = [_safe(part)[:LONGEST_LABEL].strip("-.") for part in parts]
        if all(folders) and len(set(folders)) == len(folders):
            return folders
    return [f"{label}-{number}" for number, label in enumerate(labels, start=1)]


def _safe(word: str) -> str:
    """Return a word with the characters of a label; of a path its last part."""
    last = word.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", last)
