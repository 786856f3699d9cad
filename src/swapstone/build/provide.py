"""From the names in a recipe to what this machine has: compiler commands, flags, objects to preload."""

from __future__ import annotations

import msgspec

from swapstone.build.toolchain import compiler_command, linking_flags
from swapstone.factors import Recipe


def provide(recipe: Recipe) -> Recipe:
    """Turn the names in a recipe, once every factor has spoken, into commands, flags and objects; fetch and build what is needed.

    Raises:
        UnavailableError: this combination doesn't exist or can't be made here; says why.
    """
    return msgspec.structs.replace(
        recipe, command=compiler_command(recipe), ldflags=(*recipe.ldflags, *linking_flags(recipe))
    )
