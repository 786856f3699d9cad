# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command lines that compilers record in object files (``-frecord-gcc-switches``)."""

from __future__ import annotations

from swapstone.core.factors.factor import ProgramFacts
from swapstone.parts.build.factors.build_facts import BuildFacts

RECORD = "-frecord-gcc-switches"
"""Makes gcc and clang write their command line to ``.GCC.command.line``. The section is not loaded, so it changes no measurement."""


def with_recording(cflags: tuple[str, ...]) -> tuple[str, ...]:
    """Return compiler flags with `RECORD`."""
    return cflags if RECORD in cflags else (*cflags, RECORD)


def recorded(program: ProgramFacts) -> tuple[tuple[str, str], ...]:
    """Return the pairs (compiler, command line) that a program records, without duplicates.

    gcc before version 11 records each word as a line of its own; those are ignored.
    """
    found = ((_compiler_of(line), line) for line in program.of(BuildFacts).switches)
    return tuple((name, line) for name, line in found if name)


def _compiler_of(line: str) -> str:
    """Return the compiler that records such a command line; empty for another line."""
    if line.startswith("GNU "):
        return "gcc"
    first, blank, _ = line.partition(" ")
    return "clang" if blank and "clang" in first and not any(map(str.isspace, first)) else ""
