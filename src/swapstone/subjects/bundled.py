# SPDX-License-Identifier: MIT OR Apache-2.0
"""C programs of this project, under ``native/workloads/``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import msgspec

from swapstone.artifacts import Built, build_layouts, build_workload, environment_padding
from swapstone.factors import Recipe
from swapstone.model import Copy, Source, Variant, WireError, Workload
from swapstone.subjects.declared_program import BuiltProgram, whole_environment
from swapstone.subjects.real_time import MOST_TOOL_BYTES, probe_request, read_tool, require_real_time
from swapstone.subjects.subject import BuildContext, Measured
from swapstone.subjects.variant_program import Program
from swapstone.wire import AgentAnswer, TrialRequest, decode_workload_report
from swapstone.workloads import read_named_figures, samples_of


class Bundled(BuiltProgram):
    """A C program of this project. With the harness it prints one line for each pass, else named figures.

    Args:
        workload: what it does.
        origin: its source.
    """

    empty_programs = True
    output_is_evidence: ClassVar[bool] = True

    def __init__(self, workload: Workload, origin: Source) -> None:
        super().__init__(workload)
        self._origin = origin
        self.max_passes = origin.max_passes if origin.harness else 0
        if origin.reader:
            self.output_bytes = MOST_TOOL_BYTES

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program, and the links that take turns if the experiment has layouts."""
        program = super().build(variant, recipe, context)
        if self._origin.reader and context.target.runs_loads:
            require_real_time(self.workload.name, context.target, self._probe(program, context.target.scratch()))
        if not context.layout_seeds or program.artifact is None:
            return program
        return dataclasses.replace(program, links=self._links(variant, recipe, context))

    def compile(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Built:
        """Compile and link the source with the harness."""
        del context
        return build_workload(self._origin, recipe, relinked=variant.copy is Copy.RELINKED)

    def _probe(self, program: Program, folder: str) -> TrialRequest:
        """Return a request for a single wake-up, which shows whether the target permits the program."""
        interval, _ = self.workload.arguments
        return probe_request((program.path, interval, "1"), folder, whole_environment(program.recipe))

    def _links(self, variant: Variant, recipe: Recipe, context: BuildContext) -> tuple[Program, ...]:
        """Return one program for each seed. Each has an environment of another size."""
        links = []
        builds = build_layouts(self._origin, recipe, context.layout_seeds)
        for number, (seed, built) in enumerate(zip(context.layout_seeds, builds, strict=True), start=1):
            padded = (*recipe.environment, environment_padding(seed))
            padded_recipe = msgspec.structs.replace(recipe, environment=padded)
            links.append(self.installed(variant, padded_recipe, context, built, layout=number))
        return tuple(links)

    def read(self, answer: AgentAnswer) -> Measured:
        """Read the report of the harness (docs/wire.md, section 3), named figures (section 4), or the format of a tool."""
        if self._origin.reader:
            return read_tool(self.workload, self._origin.reader, answer)
        return self._read_report(answer) if self._origin.harness else self._read_figures(answer)

    def _read_report(self, answer: AgentAnswer) -> Measured:
        try:
            report = decode_workload_report(answer.stdout)
        except WireError as error:
            raise WireError(f"its report is unreadable: {error.message}") from error
        if report.name != self.workload.name:
            raise WireError(f"the program reports as {report.name!r}, not as {self.workload.name!r}")
        if report.error:
            raise WireError(f"it reports an error: {report.error}")
        declared = {metric.name for metric in self.workload.metrics}
        every = samples_of(report, dict(answer.facts), self.workload.operation_bytes)
        samples = tuple(sample for sample in every if sample.metric in declared)
        return Measured(samples, check=report.check, mapped=report.mapped, malloc=report.malloc)

    def _read_figures(self, answer: AgentAnswer) -> Measured:
        return figures_of(self.workload, self._origin.file.partition(".")[0], answer)


def figures_of(workload: Workload, program: str, answer: AgentAnswer) -> Measured:
    """Read named figures.

    Raises:
        WireError: the output is cut off, another program's, or a figure is missing or unknown.
    """
    try:
        figures = read_named_figures(workload, program, answer.stdout)
    except WireError as error:
        raise WireError(f"its output is unreadable: {error.message}") from error
    return Measured(figures.samples, series=figures.series, seen=figures.seen)
