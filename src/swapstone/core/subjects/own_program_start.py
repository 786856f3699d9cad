# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a user's own program is started without a build, and how the variants' environments become equally large."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.core.artifacts.program_size import stripped_sizes
from swapstone.core.artifacts.source_tree import sha256_of
from swapstone.core.factors import Recipe, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import OWN_SUITE, OwnProgram, UnavailableError, UserError, Variant
from swapstone.core.record import Artifact
from swapstone.core.subjects.variant_program import (
    LONGEST_PADDING,
    PADDING,
    POINTER_BYTES,
    Program,
    environment_bytes,
    stamp_of,
)
from swapstone.core.targets import Target


def own_recipe(own: OwnProgram) -> Recipe:
    """Return the recipe of a program that is not built here, with the user's environment."""
    environment = {**dict(SOURCE_RECIPE.environment), **dict(own.environment)}
    return msgspec.structs.replace(SOURCE_RECIPE, environment=tuple(environment.items()))


def new_artifact(workload: str, variant: Variant, layout: int = 0) -> Artifact:
    """Return the manifest's entry of a variant's program, whose file is not known yet."""
    return Artifact(
        suite=OWN_SUITE,
        workload=workload,
        variant=variant.label,
        path="",
        sha256="",
        command="",
        sources=(),
        sizes=(),
        layout=layout,
    )


def taken(own: OwnProgram, artifact: Artifact) -> Artifact:
    """Return the artifact of a program that is not built here."""
    path = own.arguments[0]
    digest, sizes = sha256_of(Path(path)), stripped_sizes(Path(path).resolve())
    return msgspec.structs.replace(artifact, path=path, sha256=digest, sizes=sizes)


def program_file(own: OwnProgram, recipe: Recipe, artifact: Artifact, folder: str, target: Target) -> Program:
    """Return the program of a file of this machine, which is put on a target that has the files of this machine.

    Args:
        own: the program.
        recipe: the levels applied and resolved.
        artifact: of the file.
        folder: in which it runs.
        target: where it runs.

    Raises:
        UserError: a level can't be applied to it.
    """
    facts = read_facts(Path(artifact.path).resolve())
    check_preload(artifact.path, recipe, static=facts is not None and facts.interp is None)
    path = target.put(Path(artifact.path)) if "shares_files" in target.offers else artifact.path
    return Program(
        path, recipe, artifact, facts, folder, stamp_of(artifact.path), launch_bytes=launch_bytes(own, recipe)
    )


def launch_bytes(own: OwnProgram, recipe: Recipe) -> int:
    """Count what arguments and environment put on the stack: each text with its zero byte, and a pointer to it (execve(2))."""
    arguments = sum(len(os.fsencode(text)) + 1 + POINTER_BYTES for text in own.arguments[1:])
    return arguments + environment_bytes(recipe)


def check_preload(path: str, recipe: Recipe, *, static: bool) -> None:
    """Raise a `UserError` if the objects of a recipe can't be preloaded into a program."""
    if not recipe.preload:
        return
    if static:
        raise UnavailableError(f"{path} is linked statically: no loader would load {recipe.preload[0]} into it.")
    if "LD_PRELOAD" in dict(recipe.environment):
        raise UserError("--env LD_PRELOAD would replace what a factor preloads.", "Leave it out.")


def with_equal_environments(programs: Mapping[str, Program]) -> dict[str, Program]:
    """Add to each variant's environment what is preloaded, and padding, so that the stack's address does not depend on a path's length.

    Args:
        programs: of one workload, by label.

    Returns:
        The same programs, each with equally many additions; none if no variant needs any.
    """
    preloads = any(program.recipe.preload for program in programs.values())
    sizes = {key: _stack_bytes(program) for key, program in programs.items()}
    most = max(sizes.values(), default=0)
    uneven = any(size != most for size in sizes.values())

    def with_added(key: str, program: Program) -> Program:
        preload = (("LD_PRELOAD", _preloaded(program.recipe)),) if preloads else ()
        added = (*preload, *(((PADDING, "x" * min(most - sizes[key], LONGEST_PADDING)),) if uneven else ()))
        # The padding of a layout is what the layout varies: it comes on top.
        links = tuple(dataclasses.replace(link, added=(*added, *link.added)) for link in program.links)
        return dataclasses.replace(program, added=added, links=links)

    return {key: with_added(key, program) for key, program in programs.items()}


def _stack_bytes(program: Program) -> int:
    """Count what a variant puts on the stack: the path twice (argv[0] and AT_EXECFN), preloaded objects, arguments and environment."""
    return 2 * len(os.fsencode(program.path)) + len(os.fsencode(_preloaded(program.recipe))) + program.launch_bytes


def _preloaded(recipe: Recipe) -> str:
    return ":".join(recipe.preload)


def script_notes(own: OwnProgram) -> tuple[str, ...]:
    """Return a note for each program that is a script: its interpreter, and what it executes, are measured too."""
    paths = () if own.build or own.shell else [line.words[0] for line in own.commands]
    heads = {path: _first_line(path) for path in dict.fromkeys(paths)}
    return tuple(
        f"{path} is a script for {head}: what it executes is measured too." for path, head in heads.items() if head
    )


def _first_line(path: str) -> str:
    """Return the interpreter that a file names in its first line; empty if it names none."""
    try:
        with Path(path).open("rb") as handle:
            head = handle.readline(256)
    except OSError:
        return ""
    return head[2:].strip().decode(errors="replace") if head.startswith(b"#!") else ""
