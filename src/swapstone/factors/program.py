"""Programs that the user named, as they are: ``--program baseline=./old --program candidate=./new``."""

from __future__ import annotations

from swapstone.factors.base import Evidence, Level, Recipe, Stage


class Program:
    """Which of the programs that the user named is started. Its levels are the user's, so the registry lists none."""

    name = "program"
    stage = Stage.LAUNCH
    description = "programs of your own, as they are: --program NAME=PATH"
    levels: tuple[Level, ...] = ()

    def apply(self, level: str, recipe: Recipe) -> Recipe:  # noqa: ARG002 - the path is the experiment's, not the recipe's
        """Return the recipe as it is: a program that is taken as it is has been built already."""
        return recipe

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the file that was started.

        Returns:
            The level whose path was started, when its file did not change and, for a program that isn't a script, is among the
            objects that the process had mapped at its end. Other text when the process had become another program; None when the
            file or the objects are not known.
        """
        level = next((level for level, path in evidence.named if path == evidence.started), None)
        if level is None or evidence.program is None:  # a script's process is that of its interpreter
            return level
        if not evidence.objects:
            return None
        if evidence.program.path not in evidence.objects:
            return f"another program, {evidence.objects[0]},"
        return level


PROGRAM = Program()
