# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command as the user has to type it: ``./swapstone`` in a checkout, ``swapstone`` where it is installed, ``python -m swapstone``.

Messages below the command line contain ``swapstone COMMAND``. `as_typed` replaces the name when a message is printed. So no record, export
or report file contains the name by which one user started the program.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, MutableMapping, Sequence
from pathlib import Path

NAME = "swapstone"
VARIABLE = "SWAPSTONE_COMMAND"
"""The path by which the launcher of a checkout was started; the launcher sets it."""


INSTALL = 'here=$(dirname "$(readlink -f "$0")"); . "$here/tools/setup.sh"; setup_these $1; shift; exec "$0" "$@"'
"""A script of the shell: its name is the path of the launcher, its arguments are the missing programs as one word, and its arguments."""


class _Typed:
    """The name in use; replaced by `set_command_name` at the start."""

    name = NAME
    launcher = ""
    pattern = re.compile(r"(?!)")


def started_as(arguments: Sequence[str], interpreter: Sequence[str], environment: MutableMapping[str, str]) -> str:
    """Return the command by which this process was started.

    Args:
        arguments: `sys.argv`.
        interpreter: `sys.orig_argv`: the interpreter with its options, as typed.
        environment: loses `VARIABLE`, so that no program that is started later inherits it.
    """
    path = _Typed.launcher = environment.pop(VARIABLE, "")
    if not path and Path(arguments[0]).name == "__main__.py":
        return shlex.join([interpreter[0], "-m", NAME])
    return shlex.quote(_short(path or arguments[0]))


def launcher() -> str:
    """Return the path by which the launcher of this checkout was started; empty where another command started this process."""
    return _Typed.launcher if Path(_Typed.launcher).resolve() == Path(__file__).resolve().parents[3] / NAME else ""


def _short(path: str) -> str:
    """Return the name of a program on PATH, a path below the current folder with ``./``, or else the path as it is."""
    name = Path(path).name
    found = shutil.which(name)
    if "/" not in path or (found and os.path.realpath(found) == os.path.realpath(path)):
        return name
    try:
        folder = str(Path.cwd())
    except FileNotFoundError:  # the current folder was removed
        return path
    whole = os.path.normpath(Path(folder) / path)
    if os.path.commonpath([whole, folder]) != folder:
        return path
    below = os.path.relpath(whole, folder)
    return below if "/" in below else f"./{below}"


def set_command_name(commands: Iterable[str], name: str = "") -> str:
    """Set what `as_typed` prints.

    Args:
        commands: the names of all subcommands.
        name: the command; empty for the one by which this process was started.

    Returns:
        The command.
    """
    _Typed.name = name or started_as(sys.argv, sys.orig_argv, os.environ)
    _Typed.pattern = re.compile(rf"(?<![\w./-]){NAME} (?=(?:{'|'.join(map(re.escape, commands))}|--help)\b)")
    return _Typed.name


def as_typed(text: str) -> str:
    """Return a text in which ``swapstone COMMAND`` has the name by which this process was started."""
    return _Typed.pattern.sub(lambda _: f"{_Typed.name} ", text)
