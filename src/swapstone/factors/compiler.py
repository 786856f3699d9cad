# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C compiler."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.factors.switches import recorded, with_recording

# The name of each compiler in .comment.
_COMMENTS = {"gcc": re.compile(r"^GCC: "), "clang": re.compile(r"\bclang version ")}


class Compiler:
    """The C compiler that compiles a program."""

    name = "compiler"
    stage = Stage.COMPILE
    description = "the C compiler"
    unseen = "Its file names no compiler: don't remove the section .comment, and pass CFLAGS to the compiler."
    levels: tuple[Level, ...] = (
        Level(name="gcc", description="the GNU C compiler", needs=("gcc",), package="gcc"),
        Level(
            name="clang",
            description="LLVM's C compiler, with gcc's start-up objects",
            needs=("clang",),
            package="clang",
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the compiler, and make it record its command line."""
        return msgspec.structs.replace(recipe, compiler=level, cflags=with_recording(recipe.cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the compiler by the recorded command lines, or else by the names in ``.comment``.

        gcc compiles the start-up objects and libraries of a system, so without recorded command lines its name proves nothing if
        clang's is present.

        Returns:
            A level's name; several joined by ``+`` if command lines of several compilers are recorded; None if there is no name.
        """
        if evidence.program is None:
            return None
        compilers = sorted({name for name, _ in recorded(evidence.program)})
        if compilers:
            return "+".join(compilers)
        named = {level for level, pattern in _COMMENTS.items() if any(map(pattern.search, evidence.program.comments))}
        return "clang" if "clang" in named else "gcc" if named else None


COMPILER = Compiler()
