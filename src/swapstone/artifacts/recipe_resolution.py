# SPDX-License-Identifier: MIT OR Apache-2.0
"""Resolve the names in a recipe to commands, flags and objects of this machine."""

from __future__ import annotations

import msgspec

from swapstone.artifacts.allocators import Notify, with_allocator
from swapstone.artifacts.toolchain import compiler_command, linking_flags
from swapstone.factors import Recipe
from swapstone.factors.allocator import DEFAULT
from swapstone.model import UnavailableError


def resolve_recipe(recipe: Recipe, notify: Notify = lambda _: None) -> Recipe:
    """Resolve a recipe to which all factors have been applied; fetch and build what it needs.

    Args:
        recipe: for a program that is not built here, `libc` must be the result of `program_libc`.
        notify: called with a line for the user before a long step.

    Raises:
        UnavailableError: the combination does not exist or can't be built here.
    """
    if recipe.architecture and recipe.allocator != DEFAULT:
        raise UnavailableError(
            f"Allocators are built for this machine's architecture only, not for {recipe.architecture}."
        )
    provided = msgspec.structs.replace(
        recipe, command=compiler_command(recipe), ldflags=(*recipe.ldflags, *linking_flags(recipe))
    )
    return with_allocator(provided, notify)
