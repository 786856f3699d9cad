"""The C compiler."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage
from swapstone.factors.switches import recorded, with_recording

# What each compiler leaves in .comment.
_COMMENTS = {"gcc": re.compile(r"^GCC: "), "clang": re.compile(r"\bclang version ")}


class Compiler:
    """Which C compiler a program is compiled with."""

    name = "compiler"
    stage = Stage.COMPILE
    description = "the C compiler"
    unseen = (
        "Its file names no compiler: don't remove the section .comment, and pass on the flags that the build is given."
    )
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
        """Name the level in the recipe, and have the compiler record what it does."""
        return msgspec.structs.replace(recipe, compiler=level, cflags=with_recording(recipe.cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the compiler by the recorded command lines, or else by the names that compilers leave in ``.comment``.

        The start-up objects and libraries of a system are compiled by gcc whatever compiles the program, so without recorded command
        lines gcc's name tells nothing when clang's is there too.

        Returns:
            A level's name; several joined by ``+`` when the recorded command lines are of several compilers; None when no name is left.
        """
        if evidence.program is None:
            return None
        seen = sorted({name for name, _ in recorded(evidence.program)})
        if seen:
            return "+".join(seen)
        left = {level for level, sign in _COMMENTS.items() if any(map(sign.search, evidence.program.comments))}
        return "clang" if "clang" in left else "gcc" if left else None


COMPILER = Compiler()
