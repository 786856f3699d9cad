# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linking: dynamic or static."""

from __future__ import annotations

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.parts.build.build import Build


class Linking:
    """Whether a loader maps a program's libraries at the start, or its file contains them."""

    name = "linking"
    stage = Stage.LINK
    shown_by_loader = True
    description = "how libraries are linked"
    levels: tuple[Level, ...] = (
        Level(name="dynamic", description="the loader maps them at the start"),
        Level(name="static", description="the program's file contains them (-static)"),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the linking."""
        return recipe.changed(Build, linking=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the process: whether it has a loader and maps objects other than its program.

        A static program may be position-independent (``-static-pie``): it has a dynamic section, but no loader and no DT_NEEDED.

        Returns:
            ``dynamic`` or ``static``; another text for a process without a loader that maps objects, such as a static glibc program that
            calls dlopen; None if no mapped object was observed.
        """
        program = evidence.program
        if evidence.interp or (program is not None and (program.interp or program.needed)):
            return "dynamic"
        if not evidence.objects:  # not even the program: the agent could not read the maps
            return None
        return "static" if len(evidence.objects) == 1 else "static with loaded objects"


LINKING = Linking()
