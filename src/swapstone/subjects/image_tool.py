# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that the image of a virtual machine brings, such as cyclictest."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from swapstone.factors import Recipe
from swapstone.model import ImageTool, Variant, WireError, Workload
from swapstone.subjects.declared_program import DeclaredProgram
from swapstone.subjects.subject import BuildContext, Measured, TrialSpec
from swapstone.subjects.variant_program import Program
from swapstone.wire import AgentAnswer, TrialRequest
from swapstone.workloads import TOOL_READERS


class ImageProgram(DeclaredProgram):
    """A program of a virtual machine's image, measured unchanged.

    Args:
        workload: what it does.
        origin: its path and the format of its output.
    """

    needs_compiler = False
    output_is_evidence: ClassVar[bool] = True

    def __init__(self, workload: Workload, origin: ImageTool) -> None:
        super().__init__(workload)
        self._origin = origin

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Return the program in the image; nothing is built."""
        del variant
        return Program(self._origin.path, recipe, None, context.target.inspect(self._origin.path))

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request. On several processors, a tool that has arguments for that may use all of them, isolated ones too."""
        request, several = super().request(trial), self._origin.several
        if len(trial.cpus) < 2 or not several:
            return request
        words = (str(len(trial.cpus)), f"{min(trial.cpus)}-{max(trial.cpus)}")
        arguments = tuple(_filled(word, words) for word in several)
        return msgspec.structs.replace(request, arguments=(request.arguments[0], *arguments), cpus=trial.cpus)

    def read(self, answer: AgentAnswer) -> Measured:
        """Read the tool's own format."""
        try:
            figures = TOOL_READERS[self._origin.reader](self.workload, answer.stdout)
        except WireError as error:
            raise WireError(f"its output is unreadable: {error.message}") from error
        return Measured(
            figures.samples,
            histogram=figures.histogram,
            by_processor=figures.by_processor,
            series=figures.series,
            seen=figures.seen,
        )


def _filled(word: str, words: tuple[str, str]) -> str:
    """Replace the placeholders of `ImageTool.several`."""
    return word.replace("{processors}", words[0]).replace("{list}", words[1])
