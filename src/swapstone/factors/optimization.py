"""How much the compiler optimizes."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage
from swapstone.factors.switches import recorded, with_recording

_SWITCH = re.compile(r"-O\w*")
_SPELLINGS = {"": "O0", "-O": "O1"}


class Optimization:
    """The -O switch that programs are compiled with."""

    name = "optimization"
    stage = Stage.COMPILE
    description = "the compiler's -O switch"
    unseen = "Nothing in its file says how it was compiled: a build that ignores CFLAGS leaves out -frecord-gcc-switches too."
    levels: tuple[Level, ...] = (
        Level(name="O0", description="nothing is optimized"),
        Level(name="O1", description="what costs little compile time"),
        Level(name="O2", description="what most distributions build with"),
        Level(name="O3", description="more inlining, unrolling and vectors than O2"),
        Level(name="Os", description="for size"),
        Level(name="Og", description="what doesn't disturb debugging"),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Put the level's switch in the place of the recipe's, and have the compiler record it."""
        others = [flag for flag in recipe.cflags if not _SWITCH.fullmatch(flag)]
        first = next((at for at, flag in enumerate(recipe.cflags) if _SWITCH.fullmatch(flag)), len(others))
        cflags = (*others[:first], f"-{level}", *others[first:])
        return msgspec.structs.replace(recipe, cflags=with_recording(cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the last -O switch of each recorded command line.

        Objects without a record, such as those of libraries, don't count.

        Returns:
            A level's name, or the switch as it was spelled; several joined by ``+`` when they differ; None when nothing is recorded.
        """
        if evidence.program is None:
            return None
        seen = {_level_of(line) for _, line in recorded(evidence.program)}
        return "+".join(sorted(seen)) or None


def _level_of(line: str) -> str:
    """Return the level of one command line: its last -O switch, as the compilers take it."""
    switch = next((word for word in reversed(line.split()) if _SWITCH.fullmatch(word)), "")
    return _SPELLINGS.get(switch, switch.removeprefix("-"))


OPTIMIZATION = Optimization()
