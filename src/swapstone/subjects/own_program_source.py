# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program that is built from its sources for each variant, or carried to a machine without this one's files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from swapstone.factors import ROOT_FACTORS, Evidence, Recipe
from swapstone.model import Experiment, OwnProgram, UserSupplied, Variant, Workload
from swapstone.model.safe_text import safe
from swapstone.subjects.own_program import UserProgram
from swapstone.subjects.own_program_build import OwnProgramBuild
from swapstone.subjects.own_program_check import check_built
from swapstone.subjects.own_program_libraries import wrong_library
from swapstone.subjects.own_program_notes import source_notes
from swapstone.subjects.own_program_source_check import check_carried, check_programs, check_recipes, check_sources
from swapstone.subjects.subject import BuildContext, Subject, SubjectKind, TrialSpec
from swapstone.subjects.variant_program import Program
from swapstone.targets import Capabilities
from swapstone.wire import AgentAnswer, ProcessOutcome


class SourceProgram(UserProgram):
    """An own program with what this part adds: its build, its libraries, and its way to other machines."""

    def __init__(self, workload: Workload, origin: UserSupplied) -> None:
        super().__init__(workload, origin)
        self._build = OwnProgramBuild()

    def join(self, first: Subject) -> None:
        """Share the build too."""
        super().join(first)
        assert isinstance(first, SourceProgram)
        self._build = first._build

    def check_program(self, every: Sequence[OwnProgram], experiment: Experiment, target: Capabilities) -> None:
        """Raise if the program can't be built, or carried to the target."""
        if self._own.build:
            check_sources(self._own, every, experiment)
        else:
            check_built(self._own, every, experiment)
        if "shares_files" not in target.offers:
            check_carried(self._own, every, experiment)

    def notes(self) -> tuple[str, ...]:
        """Return notes on the sources and the build command too."""
        return (*source_notes(self._own), *super().notes())

    def base_recipe(self, variant: Variant, default: Recipe) -> Recipe:
        """Return the recipe with the user's environment, and the C library of a program that is not built here."""
        rooted = any(name in ROOT_FACTORS for name, _ in variant.applied)
        recipe = self._build.base_recipe(self._as_run(variant), rooted=rooted)
        return msgspec.structs.replace(recipe, architecture=default.architecture) if self._own.build else recipe

    def check_recipes(self, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> None:
        """Raise if what distinguishes two variants does not reach the build command."""
        if self._own.build:
            check_recipes(self._own, variants, recipes)

    def started(self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program in a copy of its sources, or take it without building."""
        return self._build.program(own, self.workload.name, variant, recipe, context)

    def equalize(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Add what is preloaded, and padding, to the environments.

        Raises:
            UserError: the build ignores what the variants differ in.
        """
        check_programs(self._own, programs)
        return super().equalize(programs)

    def advice(self, answer: AgentAnswer) -> str:
        """Return what to try after a failure, if that is known."""
        uncarried = self._build.uncarried
        if uncarried is not None and answer.outcome is ProcessOutcome.EXITED and answer.code:
            return _missing_files_hint(uncarried)
        return super().advice(answer)

    def explain_wrong_level(self, program: Program) -> str:
        """Return how the program was built, to find out why another level was in force than requested."""
        if not self._own.build:
            return ""
        facts = program.facts
        compiler = ", ".join(facts.comments) if facts and facts.comments else "an unnamed compiler"
        loader = (facts.interp or "none") if facts else "none: it is a script"
        return (
            f"; does the build ignore {{cc}}, {{cflags}} or {{ldflags}}, or find files of an earlier build? {{cc}} was "
            f"{' '.join(program.recipe.command)!r}; the program was built by {compiler}, its loader is {loader}"
        )

    def wrong_files(self, trial: TrialSpec, evidence: Evidence) -> str:
        """Return a sentence if the process used another build of a library than ``--with`` requested."""
        return wrong_library(trial.program.recipe, evidence)


def _missing_files_hint(uncarried: tuple[str, ...]) -> str:
    """Return what to try if a program failed in a machine, which has few files."""
    named = " ".join(f"--files {shlex.quote(safe(name))}" for name in uncarried)
    return f"; the machine has the program, its libraries and what --files names{f': add {named}' if named else ''}"


SUBJECT = SubjectKind(UserSupplied, SourceProgram)
