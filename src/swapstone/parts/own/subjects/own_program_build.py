# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program that is built from its sources for each variant, or carried to a machine without this one's files."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import Evidence, Recipe, is_root_factor, read_facts
from swapstone.core.model import Experiment, OwnProgram, UserError, UserSupplied, Variant, Workload
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.safe_text import safe
from swapstone.core.record import Artifact
from swapstone.core.subjects.own_program import UserProgram
from swapstone.core.subjects.own_program_check import check_built
from swapstone.core.subjects.own_program_start import new_artifact, program_file, taken
from swapstone.core.subjects.subject import BuildContext, Subject, SubjectKind, TrialSpec
from swapstone.core.subjects.variant_program import Program
from swapstone.core.targets import Capabilities, Target
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.parts.build.artifacts.libraries import library_digests, with_libraries
from swapstone.parts.build.artifacts.link_layouts import environment_padding, with_layout_compiler
from swapstone.parts.build.artifacts.replaced_flags import replaced_flags_warning
from swapstone.parts.build.artifacts.source_build import SourceBuilder
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.libc import LIBC
from swapstone.parts.build.subjects.own_program_carried import carried_files, uncarried_arguments
from swapstone.parts.own.subjects.own_program_libraries import wrong_library
from swapstone.parts.own.subjects.own_program_source_check import (
    check_carried,
    check_programs,
    check_recipes,
    check_sources,
)


class OwnProgramBuild:
    """Builds a user's own program for one variant after another, or takes a built one. Its methods take the program `as_run`.

    Attributes:
        uncarried: of the last program, arguments that name files which a virtual machine does not have; None without such a machine.
    """

    def __init__(self) -> None:
        self._builder: SourceBuilder | None = None
        self.uncarried: tuple[str, ...] | None = None
        self._carried: dict[tuple[object, ...], CarriedFiles] = {}

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
        warning = replaced_flags_warning(self._own.build, Path(self._own.source)) if self._own.source else ""
        return (*filter(None, [warning]), *super().notes())

    def base_recipe(self, variant: Variant, default: Recipe) -> Recipe:
        """Return the recipe with the user's environment, and the C library of a program that is not built here."""
        recipe, own = super().base_recipe(variant, default), self._as_run(variant)
        if own.build:
            return msgspec.structs.replace(recipe, architecture=default.architecture)
        rooted = any(is_root_factor(name) for name, _ in variant.applied)
        facts = None if rooted else read_facts(Path(own.arguments[0]))
        libc = LIBC.observe(Evidence(interp=facts.interp, objects=())) if facts else None
        return recipe.changed(Build, libc=libc or recipe.of(Build).libc)

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
            f"{' '.join(program.recipe.of(Build).command)!r}; the program was built by {compiler}, its loader is {loader}"
        )

    def wrong_files(self, trial: TrialSpec, evidence: Evidence) -> str:
        """Return a sentence if the process used another build of a library than ``--with`` requested."""
        return wrong_library(trial.program.recipe, evidence)


def _missing_files_hint(uncarried: tuple[str, ...]) -> str:
    """Return what to try if a program failed in a machine, which has few files."""
    named = " ".join(f"--files {shlex.quote(safe(name))}" for name in uncarried)
    return f"; the machine has the program, its libraries and what --files names{f': add {named}' if named else ''}"


SUBJECT = SubjectKind(UserSupplied, SourceProgram)
