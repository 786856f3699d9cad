# SPDX-License-Identifier: MIT OR Apache-2.0
"""The loader and shared objects of a C library, for machines that don't have them: programs are linked to use copies in a folder there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, cross_compiler, musl_specs
from swapstone.parts.build.artifacts.own_toolchain import installed_musl
from swapstone.parts.build.artifacts.sdk_files import loader_of
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.build.build import Build

_OF_GLIBC = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1")


def needs_c_library(recipe: Recipe) -> bool:
    """Return whether programs of a recipe need a loader and shared objects."""
    return bool(recipe.of(Build).command) and recipe.of(Build).linking != "static"


def carried_c_library(recipe: Recipe, notify: Callable[[str], None]) -> tuple[str, dict[str, Path]]:
    """Return the C library with which a recipe's dynamic programs run on a machine that does not have it.

    Args:
        recipe: resolved.
        notify: called with a line for the user before a download.

    Returns:
        The name of its loader, and files of this machine by their names: the loader and shared objects.

    Raises:
        UnavailableError: its files are not known, or not installed.
        UserError: musl of another architecture can't be fetched.
    """
    machine = recipe.architecture or os.uname().machine
    if recipe.of(Build).libc not in {"glibc", "musl"} or recipe.of(Build).float_abi or machine not in CROSS_COMPILERS:
        raise UnavailableError(
            f"The shared objects of {recipe.of(Build).libc} can't be carried to another machine.",
            "Add --hold linking=static.",
        )
    loader = Path(loader_of(CROSS_COMPILERS[machine], recipe.of(Build).libc)).name
    if recipe.of(Build).libc == "musl":
        return loader, {loader: _musl(recipe, notify)}
    files: dict[str, Path] = {}
    for name in (loader, *_OF_GLIBC):
        path = Path(first_line([f"{cross_prefix(recipe.architecture)}gcc", f"-print-file-name={name}"]))
        if path.is_absolute() and path.is_file():
            files[name] = path.resolve()
    if missing := {loader, "libc.so.6"} - files.keys():
        raise UnavailableError(f"The shared objects of glibc for {machine} are not installed: {min(missing)}.")
    return loader, files


def _musl(recipe: Recipe, notify: Callable[[str], None]) -> Path:
    if recipe.architecture:
        cross = cross_compiler(recipe.architecture)
        specs = musl_specs(cross.name, cross.musl, cross.prefix, notify)
        return specs.parent / "lib" / cross.musl / "libc.so"
    loader = installed_musl().loader
    if not loader:
        raise UnavailableError("The loader of musl is not installed.", "On Debian: sudo apt-get install musl")
    return Path(loader).resolve()


def linked_for_folder(recipe: Recipe, loader: str, folder: str) -> Recipe:
    """Return a recipe whose programs use the loader and shared objects of a folder.

    Args:
        recipe: resolved.
        loader: its name there.
        folder: absolute path on the machine that runs the programs, without commas.
    """
    flags = (f"-Wl,--dynamic-linker={folder}/{loader}", f"-Wl,-rpath,{folder}")
    return recipe.changed(Build, ldflags=(*recipe.of(Build).ldflags, *flags))
