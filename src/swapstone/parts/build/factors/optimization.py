# SPDX-License-Identifier: MIT OR Apache-2.0
"""The compiler's optimization level, or other flags of it."""

from __future__ import annotations

import re

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import recorded, with_recording

_SWITCH = re.compile(r"-O\w*")
_SPELLINGS = {"": "O0", "-O": "O1"}
_FLAG = re.compile(r"-(O\w*|[fmg][\w=.+-]*|-param=[\w=-]+)", re.ASCII)
"""What a compiler records. It records no macros, and paths can't be part of a level."""

_NATIVE = "=native"
"""The end of a flag that gcc replaces by what it found of this machine."""


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

    forms: tuple[Level, ...] = (
        Level(
            name="FLAGS", description="any flags that begin with -O, -f, -m, -g or --param=, e.g. '-O3 -march=native'"
        ),
    )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of flags, separated by single blanks; None for other texts. See `TakesTexts`.

        Raises:
            UserError: a flag is none that a compiler records.
        """
        words = text.split()
        if not text.startswith("-"):
            return None
        if wrong := next((word for word in words if not _FLAG.fullmatch(word)), ""):
            raise UserError(
                f"{wrong[:80]!a} can't be a part of a level of optimization: no program records it.",
                "Flags begin with -O, -f, -m, -g or --param=. Others are values: --vary flags='-DA=1,-DA=2' with {flags} in --build",
            )
        if len(words) == 1 and (level := next((each for each in self.levels if f"-{each.name}" == words[0]), None)):
            return level
        return Level(name=" ".join(words), description="flags of the user")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Replace the recipe's -O switch by the level's, and make the compiler record its command line. Flags without one keep it."""
        words = level.split() if level.startswith("-") else [f"-{level}"]
        cflags = recipe.of(Build).cflags
        switches = [at for at, flag in enumerate(cflags) if _SWITCH.fullmatch(flag)]
        first = switches[0] if switches else len(cflags)
        if not any(map(_SWITCH.fullmatch, words)):
            words = [*(cflags[at] for at in switches), *words]
        others = [flag for flag in cflags if not _SWITCH.fullmatch(flag)]
        cflags = (*others[:first], *words, *others[first:])
        return recipe.changed(Build, cflags=with_recording(cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the last -O switch of each recorded command line.

        Objects without a record, such as those of libraries, are ignored.

        Returns:
            A level's name, or the switch as recorded; several joined by ``+`` if they differ; None if nothing is recorded. Requested flags
            if each command line has them.
        """
        if evidence.program is None:
            return None
        flags, lines = evidence.flags_of(self.name), [line for _, line in recorded(evidence.program)]
        if flags and lines and all(_has(line, flags) for line in lines):
            return flags
        levels = set(map(_level_of, lines))
        return "+".join(sorted(levels)) or None


def _level_of(line: str) -> str:
    """Return the level of one command line: its last -O switch, as compilers interpret it."""
    switch = next((word for word in reversed(line.split()) if _SWITCH.fullmatch(word)), "")
    return _SPELLINGS.get(switch, switch.removeprefix("-"))


def _has(line: str, flags: str) -> bool:
    """Return whether a command line has all flags, and their -O switch last."""
    words = line.split()
    found = (
        any(word.startswith(flag.removesuffix("native")) for word in words) if flag.endswith(_NATIVE) else flag in words
        for flag in flags.split()
    )
    switched = any(map(_SWITCH.fullmatch, flags.split()))
    return all(found) and (not switched or _level_of(line) == _level_of(flags))


OPTIMIZATION = Optimization()
