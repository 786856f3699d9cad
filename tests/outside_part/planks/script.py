# SPDX-License-Identifier: MIT OR Apache-2.0
"""A new kind of work: a script of the shell, which prints a number."""

from __future__ import annotations

from swapstone.core.factors import Recipe
from swapstone.core.model import Sample, UserError, Variant
from swapstone.core.run.subject import BuildContext, DeclaredProgram
from swapstone.core.run.variant_program import Program
from swapstone.core.wire import AgentAnswer
from swapstone.core.wire.output_reading import Measured, OutputReader


class CountedLines(OutputReader):
    """Reads the number."""

    def read(self, answer: AgentAnswer) -> Measured:
        """Return the number, and how long the process took."""
        text = answer.stdout.strip()
        if not text.isdigit():
            raise UserError("its output is no number")
        wall = float(dict(answer.facts)["wall_ns"])
        return Measured((Sample(metric="lines", values=(float(text),)), Sample(metric="wall", values=(wall,))))


class Script(DeclaredProgram):
    """Runs the script by the shell of the target."""

    needs_compiler = False

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Name the shell: nothing is built."""
        del variant
        return Program("/bin/sh", recipe, None, context.target.inspect("/bin/sh"))
