"""The command lines that compilers record in what they make, when they are asked to."""

from __future__ import annotations

import re

from swapstone.factors.base import ProgramFacts

RECORD = "-frecord-gcc-switches"
"""Makes gcc and clang write their command line into ``.GCC.command.line``: a section that is not loaded, so nothing measured changes."""

# How each compiler begins the command line that it records.
_BEGINS = {"gcc": re.compile(r"^GNU "), "clang": re.compile(r"^\S*clang\S* ")}


def with_recording(cflags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags for compiling under which the compiler records them."""
    return cflags if RECORD in cflags else (*cflags, RECORD)


def recorded(program: ProgramFacts) -> tuple[tuple[str, str], ...]:
    """Return pairs (compiler, command line) that are recorded in a program: one for each line that differs.

    Before version 11, gcc recorded each word by itself; nothing can be told from those, and they are left out.
    """
    return tuple((name, line) for line in program.switches for name, sign in _BEGINS.items() if sign.match(line))
