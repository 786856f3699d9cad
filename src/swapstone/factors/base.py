"""The contract of a factor: what can be swapped, and how what was really in force is seen."""

from __future__ import annotations

import enum
from typing import Protocol

from swapstone.model import Noun


class Stage(enum.Enum):
    """Where a factor acts."""

    COMPILE = "compile"
    LINK = "link"
    BOOT = "boot"
    LAUNCH = "launch"


class Level(Noun, frozen=True, kw_only=True):
    """One value of a factor.

    Attributes:
        name: as users type it.
        describes: one line.
        needs: commands that must be on PATH for it.
        package: the Debian package that brings them.
    """

    name: str
    describes: str
    needs: tuple[str, ...] = ()
    package: str = ""


class Recipe(Noun, frozen=True, kw_only=True):
    """Everything that decides how a program is built and started. Factors turn one recipe into another.

    Attributes:
        compiler: the C compiler's command.
        cflags: flags for compiling.
        ldflags: flags for linking.
        environment: pairs (name, value): the whole environment of the program.
        nice: priority, -20..19.
    """

    compiler: tuple[str, ...] = ("cc",)
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    nice: int = 0


class Evidence(Noun, frozen=True, kw_only=True):
    """What was seen of the process that was measured.

    Attributes:
        interp: its PT_INTERP, or None when it has none or none could be read.
        objects: files that were mapped executable at its end.
        mapped: files that the measuring child itself says it has mapped; empty for programs that don't report it.
        facts: the agent's named integers.
    """

    interp: str | None
    objects: tuple[str, ...]
    mapped: tuple[str, ...] = ()
    facts: tuple[tuple[str, int], ...] = ()

    def fact(self, name: str) -> int | None:
        """Return one of the agent's integers, or None if it could not be read."""
        return dict(self.facts).get(name)


class Factor(Protocol):
    """What is varied. One instance per factor; it holds no state.

    Attributes:
        name: as users type it.
        stage: where it acts.
        describes: one line for ``list factors``.
        levels: in the order of ``list levels``.
    """

    name: str
    stage: Stage
    describes: str
    levels: tuple[Level, ...]

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Return the recipe with this level in it.

        Args:
            level: one of `levels`' names.
            recipe: what the factors before this one made.
        """
        ...

    def observe(self, evidence: Evidence) -> str | None:
        """Say which level was in force in the process that ran.

        Args:
            evidence: what was seen of it.

        Returns:
            A level's name; any other text when something else was in force (it is shown to the user); or None when the evidence
            doesn't tell. Only the level that was asked for lets the run count.
        """
        ...
