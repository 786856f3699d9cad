# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manifest of an experiment: machine, programs, and the versions of the tools that built them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swapstone.artifacts import (
    allocator_tools,
    c_library_version,
    compiler_version,
    load_generator_identity,
    loader_version,
    own_tools,
)
from swapstone.record import Manifest
from swapstone.run.prepare import Prepared
from swapstone.subjects import Program
from swapstone.targets import Target


def manifest_of(prepared: Prepared, target: Target, passes: Mapping[tuple[str, str], int]) -> Manifest:
    """Return the manifest: what an experiment is made of."""
    programs = [program for program in prepared.programs.values() if program.artifact]
    every = [each for program in programs for each in (program, *program.links)]
    artifacts = (*(program.artifact for program in every if program.artifact), *prepared.empty)
    return Manifest(
        machine=target.describe().facts(),
        tools=(*built_with(programs), *target.tools()),
        artifacts=artifacts,
        passes=tuple((suite, workload, count) for (suite, workload), count in passes.items()),
        image_differences=target.image_differences(),
    )


def built_with(programs: list[Program]) -> list[tuple[str, str]]:
    """Return pairs (tool, version) of what built the programs, and of their loaders, allocators and load generators."""
    recipes = {
        program.recipe
        for program in programs
        if program.artifact and program.artifact.command and program.recipe.command
    }
    compilers = sorted({recipe.command for recipe in recipes})
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
    tools += sorted({load_generator_identity(program.load_generator) for program in programs if program.load_generator})
    return tools
