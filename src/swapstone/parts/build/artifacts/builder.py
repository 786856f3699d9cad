# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the programs of variants are built: the contract `Builder`, by compilers and by packages.

Machines that don't have the loader and the shared objects of a C library get copies: programs are linked to use those in a folder there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.program_size import SIZE_METRICS
from swapstone.core.artifacts.tool_versions import compiler_version, first_line, loader_version
from swapstone.core.factors import Recipe
from swapstone.core.model import Copy, UnavailableError, UserError, Variant
from swapstone.core.model.architectures import find_architecture
from swapstone.core.record import Artifact
from swapstone.core.run.builder import Builder
from swapstone.core.run.subject import artifact_of
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Target
from swapstone.parts.build.artifacts.allocators import allocator_tools
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, cross_compiler, musl_specs
from swapstone.parts.build.artifacts.libraries import parse_libraries
from swapstone.parts.build.artifacts.own_toolchain import installed_musl, own_tools
from swapstone.parts.build.artifacts.recipe_resolution import check_recipe, resolve_recipe
from swapstone.parts.build.artifacts.sdk_files import loader_of
from swapstone.parts.build.artifacts.servers import load_generator_identity
from swapstone.parts.build.artifacts.toolchain import check_compiler, compiler_programs, cross_prefix
from swapstone.parts.build.artifacts.workload_build import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    build_empty,
    c_library_version,
)
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


def base_recipe(architecture: str) -> Recipe:
    """Return the recipe from which factors start, for the machines of an experiment.

    Args:
        architecture: as the experiment has it.
    """
    machine = find_architecture(architecture).machine if architecture else ""
    return (
        BASE_RECIPE
        if machine in {"", os.uname().machine}
        else msgspec.structs.replace(BASE_RECIPE, architecture=machine)
    )


class _Builder(Builder):
    sizes = SIZE_METRICS
    empty = tuple((EMPTY_SUITE, program) for program in EMPTY_PROGRAMS)

    base_recipe = staticmethod(base_recipe)
    parse_libraries = staticmethod(parse_libraries)
    check_recipe = staticmethod(check_recipe)
    check_compiler = staticmethod(check_compiler)
    programs = staticmethod(compiler_programs)
    resolve = staticmethod(resolve_recipe)

    def with_carried_loader(self, recipe: Recipe, target: Target, notify: Callable[[str], None]) -> Recipe:
        if not needs_c_library(recipe):
            return recipe
        loader, files = carried_c_library(recipe, notify)
        return linked_for_folder(recipe, loader, target.install(files, f"C library of {min(files)}"))

    def empty_programs(self, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> Iterator[Artifact]:
        for variant in variants:
            if variant.copy is not Copy.FIRST or variant.label not in recipes:
                continue
            varied = "linking" in dict(variant.applied) or recipes[variant.label].of(Build).linking == "static"
            for program in (program for program in EMPTY_PROGRAMS if (program is EMPTY_AS_VARIED) == varied):
                with contextlib.suppress(UserError):
                    yield artifact_of(EMPTY_SUITE, program, variant, build_empty(program, recipes[variant.label]))

    def tools(self, programs: Sequence[Program]) -> list[tuple[str, str]]:
        recipes = {
            program.recipe
            for program in programs
            if program.artifact and program.artifact.command and program.recipe.of(Build).command
        }
        compilers = sorted({recipe.of(Build).command for recipe in recipes})
        tools = [(" ".join((Path(name).name, *rest)), compiler_version((name, *rest))) for name, *rest in compilers]
        # A C library has the version that its loader prints: the loader of a dynamic program of the same recipe, and the one that a
        # user's own program names.
        loaders = {*map(c_library_version, recipes)}
        loaders |= {
            loader_version(Path(program.artifact.path)) for program in programs if program.artifact and not program.root
        }
        tools += sorted(found for found in loaders if found is not None)
        tools += own_tools(recipes)
        tools += allocator_tools(program.recipe for program in programs)
        tools += sorted(
            {load_generator_identity(program.load_generator) for program in programs if program.load_generator}
        )
        return tools


BUILDER = _Builder()
