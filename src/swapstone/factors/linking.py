"""How a program gets at its libraries: linked dynamically or statically."""

from __future__ import annotations

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage


class Linking:
    """Whether a program's libraries are mapped by a loader when it starts, or are part of its file."""

    name = "linking"
    stage = Stage.LINK
    description = "how libraries are linked"
    levels: tuple[Level, ...] = (
        Level(name="dynamic", description="the loader maps them at the start"),
        Level(name="static", description="they are in the program's file (-static)"),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, linking=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the process: whether it has a loader and has mapped objects beside its program.

        A static program may be position-independent (``-static-pie``): it has a dynamic section, but no loader and no needs.

        Returns:
            ``dynamic`` or ``static``; another text for a process without a loader that has mapped objects all the same, as a static
            glibc program does that loads objects; None when nothing was seen mapped.
        """
        program = evidence.program
        if evidence.interp or (program is not None and (program.interp or program.needed)):
            return "dynamic"
        if not evidence.objects:  # not even the program: the agent could not look
            return None
        return "static" if len(evidence.objects) == 1 else "static with loaded objects"


LINKING = Linking()
