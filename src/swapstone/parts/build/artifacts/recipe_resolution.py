# SPDX-License-Identifier: MIT OR Apache-2.0
"""Resolve the names in a recipe to commands, flags and objects of this machine."""

from __future__ import annotations

from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError, refuse
from swapstone.parts.build.artifacts.allocators import Notify, check_allocator, with_allocator
from swapstone.parts.build.artifacts.libraries import with_c_library
from swapstone.parts.build.artifacts.library_table import C_LIBRARIES
from swapstone.parts.build.artifacts.toolchain import compiler_command, float_compiler, linking_flags
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.allocator import DEFAULT
from swapstone.parts.build.factors.libc import INSTALLED


def check_recipe(recipe: Recipe, *, preloads: bool = True) -> None:
    """Refuse, before anything is fetched or built, a recipe that can't be resolved.

    Args:
        recipe: to which all factors have been applied.
        preloads: whether a shared object of this machine can be preloaded there.

    Raises:
        UnavailableError: the combination does not exist.
    """
    if recipe.of(Build).float_abi:
        float_compiler(recipe)
    named, by_path = recipe.of(Build).allocator != DEFAULT, "/" in recipe.of(Build).allocator
    refuse(
        (
            bool(recipe.architecture) and recipe.of(Build).libc in C_LIBRARIES,
            f"{recipe.of(Build).libc} is built for this machine's architecture only, not for {recipe.architecture}.",
            "Compare libc=glibc,musl there.",
        ),
        (
            bool(recipe.architecture) and by_path,
            f"A shared object as allocator works on this machine's architecture only, not on {recipe.architecture}.",
            "",
        ),
        (
            named and not preloads and recipe.of(Build).linking != "static",
            "An allocator can't be preloaded into a program of this target.",
            "Add --hold linking=static: an allocator that is linked in works there.",
        ),
        (
            named and recipe.of(Build).libc not in INSTALLED and not by_path,
            f"The allocator {recipe.of(Build).allocator} is built for the installed C libraries only, not for {recipe.of(Build).libc}.",
            "Name a shared object that you built for it: allocator=default,/path/to/libNAME.so",
        ),
        kind=UnavailableError,
    )
    if named and not by_path:
        check_allocator(recipe.of(Build).allocator, recipe.of(Build).libc, recipe.architecture)


def resolve_recipe(recipe: Recipe, notify: Notify = lambda _: None) -> Recipe:
    """Resolve a recipe to which all factors have been applied; fetch and build what it needs.

    Args:
        recipe: for a program that is not built here, `libc` must be that of its loader.
        notify: called with a line for the user before a long step.

    Raises:
        UnavailableError: the combination does not exist or can't be built here.
    """
    check_recipe(recipe)
    recipe = with_c_library(recipe, notify)
    provided = recipe.changed(
        Build, command=compiler_command(recipe, notify), ldflags=(*recipe.of(Build).ldflags, *linking_flags(recipe))
    )
    return with_allocator(provided, notify)
