"""From the names in a recipe to what this machine has: compiler commands, flags, objects to preload."""

from __future__ import annotations

import msgspec

from swapstone.build.allocators import Tell, with_allocator
from swapstone.factors import Recipe
from swapstone.model import UnavailableError

_COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("cc", "glibc"): ("cc",),
    ("cc", "musl"): ("musl-gcc",),
}
"""(compiler, C library) to the command."""


def provide(recipe: Recipe, tell: Tell = lambda _: None) -> Recipe:
    """Turn the names in a recipe, once every factor has spoken, into commands, flags and objects; fetch and build what is needed.

    Args:
        recipe: for a program that isn't built here, `libc` must be the one that `program_libc` reads from it.
        tell: called with a line for the user when something takes its time.

    Raises:
        UnavailableError: this combination doesn't exist or can't be made here; says why.
    """
    command = _COMMANDS.get((recipe.compiler, recipe.libc))
    if command is None:
        raise UnavailableError(f"There is no way to compile for {recipe.libc} with {recipe.compiler}.")
    return with_allocator(msgspec.structs.replace(recipe, command=command), tell)
