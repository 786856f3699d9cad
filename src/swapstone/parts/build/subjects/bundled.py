# SPDX-License-Identifier: MIT OR Apache-2.0
"""C programs of this project, under ``native/workloads/``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.model import Copy, Source, Variant, Workload
from swapstone.core.run.machine_config import probe_request, require_real_time
from swapstone.core.run.subject import BuildContext, BuiltProgram, whole_environment
from swapstone.core.run.variant_program import Program
from swapstone.core.wire import TrialRequest
from swapstone.parts.build.artifacts.link_layouts import environment_padding
from swapstone.parts.build.artifacts.workload_build import build_layouts, build_whole, build_workload

MOST_PASSES = 1000
"""The largest number of passes that calibration may choose: the output is below the agent's limit, as a pass takes at most 60 bytes."""


class Bundled(BuiltProgram):
    """A C program of this project. With the harness it prints one line for each pass, else named figures.

    Args:
        workload: what it does.
        origin: its source.
    """

    runs = Source
    empty_programs = True
    output_is_evidence: ClassVar[bool] = True

    def __init__(self, workload: Workload, origin: Source) -> None:
        super().__init__(workload)
        self._origin = origin
        self.max_passes = MOST_PASSES if origin.harness else 0

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program, and the links that take turns if the experiment has layouts."""
        program = super().build(variant, recipe, context)
        if self._origin.reader and "runs_loads" in context.target.offers:
            require_real_time(self.workload.name, context.target, self._probe(program, context.target.scratch()))
        if not context.layout_seeds or program.artifact is None:
            return program
        return dataclasses.replace(program, links=self._links(variant, recipe, context))

    def compile(self, variant: Variant, recipe: Recipe, _context: BuildContext) -> Built:
        """Compile and link the source with the harness."""
        return build_workload(self.workload, recipe, relinked=variant.copy is Copy.RELINKED)

    def with_symbols(self, program: Program, folder: Path, *, like: str) -> Path | None:
        """Build the source without stripping it; None if that gives other code."""
        return build_whole(self.workload, program.recipe, folder, like=like)

    def _probe(self, program: Program, folder: str) -> TrialRequest:
        """Return a request for a single wake-up, which shows whether the target permits the program."""
        interval, _ = self.workload.arguments
        return probe_request((program.path, interval, "1"), folder, whole_environment(program.recipe))

    def _links(self, variant: Variant, recipe: Recipe, context: BuildContext) -> tuple[Program, ...]:
        """Return one program for each seed. Each has an environment of another size."""
        links = []
        builds = build_layouts(self.workload, recipe, context.layout_seeds)
        for number, (seed, built) in enumerate(zip(context.layout_seeds, builds, strict=True), start=1):
            padded = (*recipe.environment, environment_padding(seed))
            padded_recipe = msgspec.structs.replace(recipe, environment=padded)
            links.append(self.installed(variant, padded_recipe, context, built, layout=number))
        return tuple(links)
