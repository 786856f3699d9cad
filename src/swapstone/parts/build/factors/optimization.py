# SPDX-License-Identifier: MIT OR Apache-2.0
"""The compiler's optimization level."""

from __future__ import annotations

import re

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import recorded, with_recording

_SWITCH = re.compile(r"-O\w*")
_SPELLINGS = {"": "O0", "-O": "O1"}


class Optimization:
    """The -O switch that programs are compiled with."""

    name = "optimization"
    stage = Stage.COMPILE
    description = "the compiler's -O switch"
    unseen = "Its file does not record the compiler's options: a build that ignores CFLAGS also ignores -frecord-gcc-switches."
    levels: tuple[Level, ...] = (
        Level(name="O0", description="no optimization"),
        Level(name="O1", description="optimizations that need little compile time"),
        Level(name="O2", description="the default of most distributions"),
        Level(name="O3", description="more inlining, unrolling and vectors than O2"),
        Level(name="Os", description="for size"),
        Level(name="Og", description="optimizations that don't hinder debugging"),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Replace the recipe's -O switch by the level's, and make the compiler record its command line."""
        others = [flag for flag in recipe.of(Build).cflags if not _SWITCH.fullmatch(flag)]
        first = next((at for at, flag in enumerate(recipe.of(Build).cflags) if _SWITCH.fullmatch(flag)), len(others))
        cflags = (*others[:first], f"-{level}", *others[first:])
        return recipe.changed(Build, cflags=with_recording(cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the last -O switch of each recorded command line.

        Objects without a record, such as those of libraries, are ignored.

        Returns:
            A level's name, or the switch as recorded; several joined by ``+`` if they differ; None if nothing is recorded.
        """
        if evidence.program is None:
            return None
        levels = {_level_of(line) for _, line in recorded(evidence.program)}
        return "+".join(sorted(levels)) or None


def _level_of(line: str) -> str:
    """Return the level of one command line: its last -O switch, as compilers interpret it."""
    switch = next((word for word in reversed(line.split()) if _SWITCH.fullmatch(word)), "")
    return _SPELLINGS.get(switch, switch.removeprefix("-"))


OPTIMIZATION = Optimization()
