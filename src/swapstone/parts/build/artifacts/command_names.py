# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which programs a build command starts: whether one of them can read compilers and flags from the environment."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS = ";&|()\n"
_WITHOUT_BUILD = {
    *(
        "cd",
        "cp",
        "mv",
        "rm",
        "mkdir",
        "ln",
        "echo",
        "true",
        "test",
        "touch",
        "chmod",
        "install",
        "sed",
        "cat",
        "printf",
    ),
    *("cc", "gcc", "clang", "c++", "g++", "clang++", "musl-gcc", "ld", "ar", "ranlib", "strip", "export", "set"),
}
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")


def command_names(build: str) -> tuple[str, ...]:
    """Return the names of the programs that a build command starts, without folders, in order.

    Args:
        build: for ``/bin/sh -c``. A command that can't be split into words is one name.
    """
    lexer = shlex.shlex(build.replace("\n", " ; "), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    names: list[str] = []
    starts = True
    try:
        for word in lexer:
            if set(word) <= set(_OPERATORS):
                starts = True
            elif (
                starts and not _ASSIGNMENT.match(word) and word not in {"then", "do", "else", "if", "!", "env", "exec"}
            ):
                names.append(PurePath(word).name)
                starts = False
    except ValueError:
        return (build,)
    return tuple(names)


def may_read_environment(build: str) -> bool:
    """Return whether a build command starts anything but compilers and simple tools: e.g. make, cmake or a script.

    Such a program can read ``CC``, ``CFLAGS`` and the others from the environment.
    """
    return any(name not in _WITHOUT_BUILD and not _PLACEHOLDER.fullmatch(name) for name in command_names(build))
