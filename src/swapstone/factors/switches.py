# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command lines that compilers record in object files (``-frecord-gcc-switches``)."""

from __future__ import annotations

import re

from swapstone.factors.factor import ProgramFacts

RECORD = "-frecord-gcc-switches"
"""Makes gcc and clang write their command line to ``.GCC.command.line``. The section is not loaded, so it changes no measurement."""

# The beginning of each compiler's recorded command line.
_BEGINS = {"gcc": re.compile(r"^GNU "), "clang": re.compile(r"^\S*clang\S* ")}


def with_recording(cflags: tuple[str, ...]) -> tuple[str, ...]:
    """Return compiler flags with `RECORD`."""
    return cflags if RECORD in cflags else (*cflags, RECORD)


def recorded(program: ProgramFacts) -> tuple[tuple[str, str], ...]:
    """Return the pairs (compiler, command line) that a program records, without duplicates.

    gcc before version 11 records each word as a line of its own; those are ignored.
    """
    return tuple((name, line) for line in program.switches for name, pattern in _BEGINS.items() if pattern.match(line))
