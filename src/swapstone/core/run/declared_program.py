# SPDX-License-Identifier: MIT OR Apache-2.0
"""What bundled programs, packages, crates and image tools have in common: artifacts, environments and requests."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.model import Variant, Workload
from swapstone.core.record import Artifact
from swapstone.core.run.subject import BuildContext, Subject, TrialSpec
from swapstone.core.run.variant_program import LONGEST_PADDING, PADDING, Program, environment_bytes
from swapstone.core.wire import TrialRequest


def artifact_of(suite: str, workload: Workload, variant: Variant, built: Built) -> Artifact:
    """Return the manifest's entry of a built program."""
    return Artifact(
        suite=suite,
        workload=workload.name,
        variant=variant.label,
        path=str(built.path),
        sha256=built.sha256,
        command=built.command,
        sources=built.sources,
        sizes=built.sizes,
    )


def whole_environment(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the whole environment of a program: its recipe's, and the list of objects to preload.

    Colons, which separate its entries, pad the list to `Recipe.preload_bytes`. A variant that preloads nothing gets an unused variable
    of the same length. So the address of the stack does not depend on the length of an object's path.
    """
    preload = ":".join(recipe.preload)
    if not preload and not recipe.preload_bytes:
        return recipe.environment
    name = "LD_PRELOAD" if preload else "NO_PRELOAD"
    return (*recipe.environment, (name, preload.ljust(recipe.preload_bytes, ":")))


def _padded(program: Program, count: int) -> Program:
    environment = (*program.recipe.environment, (PADDING, "x" * min(count, LONGEST_PADDING)))
    recipe = msgspec.structs.replace(program.recipe, environment=environment)
    links = tuple(_padded(link, count) for link in program.links)
    return dataclasses.replace(program, recipe=recipe, links=links)


class DeclaredProgram(Subject):
    """The program of a workload that this project declares: bundled, a package, a crate or a tool of an image."""

    def equalize(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Add padding to the environments if a factor sets variables of different length."""
        sizes = {key: environment_bytes(program.recipe) for key, program in programs.items()}
        most = max(sizes.values(), default=0)
        if all(size == most for size in sizes.values()):
            return dict(programs)
        return {key: _padded(program, most - sizes[key]) for key, program in programs.items()}

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request: the number of passes, if it has passes, comes before the workload's arguments."""
        passes = (str(trial.passes),) if self.max_passes else ()
        return TrialRequest(
            id=trial.identity,
            arguments=(trial.program.path, *passes, *self.workload.arguments),
            environment=whole_environment(trial.program.recipe),
            cwd=trial.scratch,
            cpus=trial.pinned(self.workload.cpus),
            nice=trial.program.recipe.nice,
            timeout_ms=self.workload.timeout_ms,
            output_bytes=self.reader.output_bytes,
            disk_bytes=self.reader.disk_bytes,
            observe=trial.program.recipe.observe,
        )


class BuiltProgram(DeclaredProgram):
    """A declared program that is built for each variant."""

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program; on a target that needs no build, only name it."""
        if "runs_programs" not in context.target.offers:
            path = context.target.path_of(variant.applied_label, self.workload.name)
            return Program(path, recipe, None, context.target.inspect(path))
        return self.installed(variant, recipe, context, self.compile(variant, recipe, context))

    @abc.abstractmethod
    def compile(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Built:
        """Build the program in the cache.

        Raises:
            UserError: it does not build, or the variant is impossible for it.
        """

    def installed(
        self, variant: Variant, recipe: Recipe, context: BuildContext, built: Built, layout: int = 0
    ) -> Program:
        """Put a built program on the target. `layout` is the number of its link, or 0 for the plain one."""
        artifact = artifact_of(context.suite, self.workload, variant, built)
        if layout:
            artifact = msgspec.structs.replace(artifact, layout=layout, sizes=())
        return Program(context.target.put(built.path, built.beside), recipe, artifact, built.facts)
