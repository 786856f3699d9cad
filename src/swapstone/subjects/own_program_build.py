# SPDX-License-Identifier: MIT OR Apache-2.0
"""Building a user's own program for each variant, and making the variants' environments equally large."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from swapstone.artifacts import (
    SourceBuilder,
    environment_padding,
    library_digests,
    with_layout_compiler,
    with_libraries,
)
from swapstone.factors import Evidence, Recipe, read_facts
from swapstone.factors.libc import LIBC
from swapstone.model import OwnProgram, UserError, Variant
from swapstone.model.directories import cache_dir
from swapstone.record import Artifact
from swapstone.subjects.own_program_carried import carried_files, uncarried_arguments
from swapstone.subjects.own_program_start import new_artifact, own_recipe, program_file, taken
from swapstone.subjects.subject import BuildContext
from swapstone.subjects.variant_program import (
    Program,
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
        recipe = own_recipe(own)
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
        artifact = new_artifact(workload, variant, layout)
        if own.build:
            artifact, folder = self._built(own, variant, recipe, context, artifact)
        else:
            artifact, folder = taken(own, artifact), own.directory
        program = program_file(own, recipe, artifact, folder, context.target)
        if "shares_files" not in context.target.offers:
            self._carry(own, program.path, folder, recipe, context.target)
            facts = context.target.inspect(context.target.real_path(program.path))
            program = dataclasses.replace(program, facts=facts)
        return program

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


def _require_different_links(variant: Variant, links: list[Program]) -> None:
    digests = [link.artifact.sha256 for link in links if link.artifact]
    if len(set(digests)) < len(digests):
        raise UserError(
            f"Of {len(digests)} layouts of {variant.label}, only {len(set(digests))} differ: the order of functions is shuffled in the "
            "objects that {cc} compiles with -c, and this build seems to make none.",
            "Let the build compile each source with -c and link the objects, or leave --layouts out.",
        )
