# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the programs of variants are built: the contract `Builder`, by compilers and by packages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.program_size import SIZE_METRICS
from swapstone.core.artifacts.tool_versions import compiler_version, loader_version
from swapstone.core.factors import Recipe
from swapstone.core.model import Copy, UserError, Variant
from swapstone.core.model.architectures import find_architecture
from swapstone.core.record import Artifact
from swapstone.core.run.builder import Builder
from swapstone.core.run.declared_program import artifact_of
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Target
from swapstone.parts.build.artifacts.allocators import allocator_tools
from swapstone.parts.build.artifacts.carried_c_library import carried_c_library, linked_for_folder, needs_c_library
from swapstone.parts.build.artifacts.libraries import parse_libraries
from swapstone.parts.build.artifacts.own_toolchain import own_tools
from swapstone.parts.build.artifacts.recipe_resolution import check_recipe, resolve_recipe
from swapstone.parts.build.artifacts.servers import load_generator_identity
from swapstone.parts.build.artifacts.toolchain import check_compiler, compiler_programs
from swapstone.parts.build.artifacts.workload_build import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    build_empty,
    c_library_version,
)
from swapstone.parts.build.build import Build


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
