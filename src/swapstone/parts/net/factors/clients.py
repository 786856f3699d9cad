# SPDX-License-Identifier: MIT OR Apache-2.0
"""The number of clients of an HTTP server: connections that are open at once. docs/factors.md explains it."""

from __future__ import annotations

import re

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import UserError
from swapstone.parts.net.factors.netstack import stack_level

VARIABLE = "CLIENTS"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

MOST = 1000
"""Each client needs a file descriptor, of which 1024 are usual."""
_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_SEEN = "clients"


class Clients:
    """The number of clients of an HTTP server."""

    name = "clients"
    stage = Stage.LAUNCH
    description = "connections that the client of an HTTP server has at once"
    unseen = "Only workloads with HTTP on a network stack have clients: add `--suite netstack-clients`."
    levels: tuple[Level, ...] = (
        stack_level("1", "one request after another"),
        stack_level("10", "10 connections; any number up to 1000"),
        stack_level("100", "100 connections, as the suite netstack has"),
    )
    forms: tuple[Level, ...] = (stack_level("1000", "1000 connections"),)

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a number.

        Raises:
            UserError: the number is not from 1 to `MOST`.
        """
        if _NUMBER.fullmatch(text) is None or int(text) > MOST:
            raise UserError(
                f"The number of clients is 1 to {MOST}, and not {text!r}.",
                "For example: swapstone compare clients=1,10,100",
            )
        return stack_level(text, f"{text} connections")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest."""
        variable = (VARIABLE, level.rjust(len(str(MOST))))
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, variable))

    def observe(self, evidence: Evidence) -> str | None:
        """Return how many connections the client had open at once, as it counted them; None if it reports none."""
        return dict(evidence.seen).get(_SEEN)


CLIENTS = Clients()
