"""The command lines that compilers record in what they make, when they are asked to."""

from __future__ import annotations

from swapstone.factors.base import ProgramFacts

RECORD = "-frecord-gcc-switches"
"""Makes gcc and clang write their command line into ``.GCC.command.line``: a section that is not loaded, so nothing measured changes."""


def with_recording(cflags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags for compiling under which the compiler records them."""
    return cflags if RECORD in cflags else (*cflags, RECORD)


def recorded(program: ProgramFacts) -> tuple[str, ...]:
    """Return the recorded command lines of a program: one for each that differs.

    Before version 11, gcc recorded each switch by itself; such entries begin with a hyphen and are left out.
    """
    return tuple(line for line in program.switches if not line.startswith("-"))
