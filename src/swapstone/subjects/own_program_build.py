# SPDX-License-Identifier: MIT OR Apache-2.0
"""Building a user's own program for each variant, and making the variants' environments equally large."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.artifacts import (
    SOURCE_RECIPE,
    SourceBuilder,
    environment_padding,
    library_digests,
    sha256_of,
    stripped_sizes,
    with_layout_compiler,
    with_libraries,
)
from swapstone.factors import Evidence, Recipe, read_facts
from swapstone.factors.libc import LIBC
from swapstone.model import OWN_SUITE, OwnProgram, UnavailableError, UserError, Variant
from swapstone.model.directories import cache_dir
from swapstone.record import Artifact
from swapstone.subjects.own_program_carried import carried_files, uncarried_arguments
from swapstone.subjects.own_program_root import rooted_program
from swapstone.subjects.subject import BuildContext
from swapstone.subjects.variant_program import (
    LONGEST_PADDING,
    PADDING,
    POINTER_BYTES,
    Program,
    environment_bytes,
    stamp_of,
)
from swapstone.targets import Target
from swapstone.targets.carried_files import CarriedFiles


class OwnProgramBuild:
    """Builds a user's own program for one variant after another, or takes a built one. Its methods take the program `as_run`.

    Attributes:
        uncarried: of the last program, arguments that name files which a virtual machine does not have; None without such a machine.
    """

    def __init__(self) -> None:
        self._builder: SourceBuilder | None = None
        self.uncarried: tuple[str, ...] | None = None
        self._carried: dict[tuple[object, ...], CarriedFiles] = {}

    def base_recipe(self, own: OwnProgram, *, rooted: bool = False) -> Recipe:
        """Return the recipe to which a variant's levels are applied. A program that is not built here has a C library already.

        Args:
            own: the program.
            rooted: whether it is in a root file system of its own, and no file of this machine.
        """
        environment = {**dict(SOURCE_RECIPE.environment), **dict(own.environment)}
        recipe = msgspec.structs.replace(SOURCE_RECIPE, environment=tuple(environment.items()))
        if not own.build and not rooted:
            facts = read_facts(Path(own.arguments[0]))
            libc = LIBC.observe(Evidence(interp=facts.interp, objects=())) if facts else None
            recipe = msgspec.structs.replace(recipe, libc=libc or recipe.libc)
        return recipe

    def program(
        self, own: OwnProgram, workload: str, variant: Variant, recipe: Recipe, context: BuildContext
    ) -> Program:
        """Build a variant's program and its further links, if it is built at all, and put it on the target.

        Args:
            own: the program.
            workload: its name.
            variant: whose program it is.
            recipe: compiler and flags, the levels applied and resolved.
            context: target, layouts and callbacks.

        Raises:
            UserError: it does not build, or a level can't be applied to it.
        """
        recipe = with_libraries(recipe, own.libraries, context.notify)
        program = self._program(own, workload, variant, recipe, context)
        links = []
        for number, seed in enumerate(context.layout_seeds, start=1):
            context.progress(f"{workload} {variant.label} layout {number} of {len(context.layout_seeds)}")
            shuffled = with_layout_compiler(recipe, seed, cache_dir())
            link = self._program(own, workload, variant, shuffled, context, layout=number)
            links.append(dataclasses.replace(link, added=(environment_padding(seed),)))
        _require_different_links(variant, links)
        return dataclasses.replace(program, links=tuple(links))

    def _program(
        self,
        own: OwnProgram,
        workload: str,
        variant: Variant,
        recipe: Recipe,
        context: BuildContext,
        *,
        layout: int = 0,
    ) -> Program:
        artifact = Artifact(
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
        if recipe.root:
            program = rooted_program(own, recipe, artifact, context.target)
            return dataclasses.replace(program, launch_bytes=_launch_bytes(own, recipe))
        if own.build:
            artifact, folder = self._built(own, variant, recipe, context, artifact)
        else:
            artifact, folder = _taken(own, artifact), own.directory
        facts = read_facts(Path(artifact.path).resolve())
        _check_preload(artifact.path, recipe, static=facts is not None and facts.interp is None)
        target, path = context.target, artifact.path
        if "shares_files" in target.offers:
            path = target.put(Path(path))
        else:
            self._carry(own, path, folder, recipe, target)
            facts = target.inspect(target.real_path(path))
        return Program(
            path, recipe, artifact, facts, folder, stamp_of(artifact.path), launch_bytes=_launch_bytes(own, recipe)
        )

    def _carry(self, own: OwnProgram, path: str, folder: str, recipe: Recipe, target: Target) -> None:
        """Give the program and its files to a target without this machine's files."""
        key = (path, folder, own.stdin, own.files, recipe.environment, recipe.preload)
        if key not in self._carried:
            environment, preload = recipe.environment, recipe.preload
            carried = carried_files(own, path, folder, target.architecture, environment=environment, preload=preload)
            target.put_files(carried)
            self._carried[key] = carried
        self.uncarried = uncarried_arguments(own, folder, self._carried[key])

    def _built(
        self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext, artifact: Artifact
    ) -> tuple[Artifact, str]:
        """Build the program in its copy of the sources; return its artifact, and the copy."""
        if self._builder is None:
            self._builder = SourceBuilder(own, rebuild=context.rebuild)
        label = f"{variant.label} layout {artifact.layout}" if artifact.layout else variant.label
        builder = self._builder.with_program(own)
        built = builder.build(recipe, lambda log: context.keep_log(label, log), context.notify)
        artifact = msgspec.structs.replace(
            artifact,
            path=str(built.path),
            sha256=built.sha256,
            command=built.command,
            sources=(*built.sources, *library_digests(recipe)),
            sizes=() if artifact.layout else built.sizes,
        )
        return artifact, str(built.folder)


def _taken(own: OwnProgram, artifact: Artifact) -> Artifact:
    """Return the artifact of a program that is not built here."""
    path = own.arguments[0]
    digest, sizes = sha256_of(Path(path)), stripped_sizes(Path(path).resolve())
    return msgspec.structs.replace(artifact, path=path, sha256=digest, sizes=sizes)


def _launch_bytes(own: OwnProgram, recipe: Recipe) -> int:
    """Count what arguments and environment put on the stack: each text with its zero byte, and a pointer to it (execve(2))."""
    arguments = sum(len(os.fsencode(text)) + 1 + POINTER_BYTES for text in own.arguments[1:])
    return arguments + environment_bytes(recipe)


def _require_different_links(variant: Variant, links: list[Program]) -> None:
    digests = [link.artifact.sha256 for link in links if link.artifact]
    if len(set(digests)) < len(digests):
        raise UserError(
            f"Of {len(digests)} layouts of {variant.label}, only {len(set(digests))} differ: the order of functions is shuffled in the "
            "objects that {cc} compiles with -c, and this build seems to make none.",
            "Let the build compile each source with -c and link the objects, or leave --layouts out.",
        )


def _check_preload(path: str, recipe: Recipe, *, static: bool) -> None:
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
