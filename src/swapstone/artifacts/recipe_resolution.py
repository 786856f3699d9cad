"""From the names in a recipe to what this machine has: compiler commands, flags, objects to preload."""

from __future__ import annotations

import msgspec

from swapstone.artifacts.allocators import Tell, with_allocator
from swapstone.artifacts.toolchain import compiler_command, linking_flags
from swapstone.factors import Recipe
from swapstone.factors.allocator import DEFAULT
from swapstone.model import UnavailableError


def resolve_recipe(recipe: Recipe, tell: Tell = lambda _: None) -> Recipe:
    """Turn the names in a recipe, once every factor has spoken, into commands, flags and objects; fetch and build what is needed.

    Args:
        recipe: for a program that isn't built here, `libc` must be the one that `program_libc` reads from it.
        tell: called with a line for the user when something takes its time.

    Raises:
        UnavailableError: this combination doesn't exist or can't be made here; says why.
    """
    if recipe.architecture and recipe.allocator != DEFAULT:
        raise UnavailableError(
            f"Allocators are built for this machine's processor only, not for {recipe.architecture}."
        )
    provided = msgspec.structs.replace(
        recipe, command=compiler_command(recipe), ldflags=(*recipe.ldflags, *linking_flags(recipe))
    )
    return with_allocator(provided, tell)
