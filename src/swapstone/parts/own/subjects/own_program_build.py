# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program that is built from its sources for each variant, or carried to a machine without this one's files.

The programs that a build command starts decide whether compilers and flags can be read from the environment.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath

import msgspec

from swapstone.core.artifacts.placeholders import placeholders
from swapstone.core.factors import Evidence, ProgramFacts, Recipe, find_factor, is_root_factor, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import (
    Experiment,
    FactorLevels,
    OwnProgram,
    UserError,
    UserSupplied,
    Variant,
    Workload,
    placeholders_in,
    refuse,
)
from swapstone.core.model.architectures import machine_of
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.safe_text import safe
from swapstone.core.record import Artifact
from swapstone.core.run.own_program import UserProgram, new_artifact, program_file, roots_of_parts, taken
from swapstone.core.run.own_program_variant import check_built
from swapstone.core.run.subject import BuildContext, Subject, TrialSpec
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Capabilities, Target
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.parts.build.artifacts.libraries import library_digests, with_libraries
from swapstone.parts.build.artifacts.library_table import LIBRARIES
from swapstone.parts.build.artifacts.link_layouts import environment_padding, with_layout_compiler
from swapstone.parts.build.artifacts.program_closure import needs_newer_musl
from swapstone.parts.build.artifacts.replaced_flags import replaced_flags_warning
from swapstone.parts.build.artifacts.source_build import SourceBuilder
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.build.factors.libc import LIBC
from swapstone.parts.build.subjects.own_program_carried import carried_files, check_files, uncarried_files

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPERATORS = ";&|()\n"
_WITHOUT_BUILD = {
    *(
        "cd",
        "cp",
        "mv",
        "rm",
        "mkdir",
        "ln",
        "echo",
        "true",
        "test",
        "touch",
        "chmod",
        "install",
        "sed",
        "cat",
        "printf",
    ),
    *("cc", "gcc", "clang", "c++", "g++", "clang++", "musl-gcc", "ld", "ar", "ranlib", "strip", "export", "set"),
}
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")


def command_names(build: str) -> tuple[str, ...]:
    """Return the names of the programs that a build command starts, without folders, in order.

    Args:
        build: for ``/bin/sh -c``. A command that can't be split into words is one name.
    """
    lexer = shlex.shlex(build.replace("\n", " ; "), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    names: list[str] = []
    starts = True
    try:
        for word in lexer:
            if set(word) <= set(_OPERATORS):
                starts = True
            elif (
                starts and not _ASSIGNMENT.match(word) and word not in {"then", "do", "else", "if", "!", "env", "exec"}
            ):
                names.append(PurePath(word).name)
                starts = False
    except ValueError:
        return (build,)
    return tuple(names)


def may_read_environment(build: str) -> bool:
    """Return whether a build command starts anything but compilers and simple tools: e.g. make, cmake or a script.

    Such a program can read ``CC``, ``CFLAGS`` and the others from the environment.
    """
    return any(name not in _WITHOUT_BUILD and not _PLACEHOLDER.fullmatch(name) for name in command_names(build))


def wrong_library(recipe: Recipe, evidence: Evidence) -> str:
    """Return a sentence if the process did not use the libraries that were built for it.

    Each object of a library that Swapstone builds has a text with a digest of all its inputs in ``.comment``. A linker copies it into
    every program and shared object that contains such an object.

    Args:
        recipe: of the program; names the texts.
        evidence: the program's file and the files of the mapped objects.

    Returns:
        A sentence on the first library of which another file was mapped, or whose text was in no file; empty if there is none.
    """
    files: list[ProgramFacts] = [*((evidence.program,) if evidence.program else ()), *evidence.libraries]
    for ident in recipe.of(Build).libraries:
        name = ident.split()[2]
        stems = tuple(f"lib{link}.so" for link in LIBRARIES[name].links)
        other = next(
            (f for f in files if Path(f.path).name.startswith(stems) and ident not in f.of(BuildFacts).comments), None
        )
        if other is not None:
            return (
                f"--with {name} was requested, but the process had {other.path} mapped, which was not built for it; "
                "does the build ignore {cflags} or {ldflags}?"
            )
        if not any(ident in file.of(BuildFacts).comments for file in files):
            return (
                f"--with {name} was requested, but no file of the process contains it. Leave {name} out if the program does not use it; "
                "else the build ignores {cflags} or {ldflags}, or removes the section .comment"
            )
    return ""


_FILES = ("cmake_toolchain", "meson_cross")
_PLACEHOLDERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("cc", ("cxx", *_FILES), ("libc", "compiler", "command")),
    ("cflags", ("cxxflags", *_FILES), ("cflags",)),
    ("ldflags", _FILES, ("linking", "ldflags")),
)
"""Each placeholder, others that have the same effect, and the fields of a recipe that reach a build through it."""


def check_carried(own: OwnProgram, every: Sequence[OwnProgram], experiment: Experiment) -> None:
    """Raise if the files of an own program can't be carried to a machine without this one's; see `SourceProgram.check_program`."""
    architecture = machine_of(experiment.architecture)
    check_files(own)
    different = {(each.arguments[0], each.stdin, each.files, each.environment): each for each in every}
    for each in () if own.build else different.values():
        carried_files(each, each.arguments[0], each.directory, architecture, environment=each.environment)


def check_recipes(own: OwnProgram, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> None:
    """Check that what distinguishes the variants reaches the build.

    Args:
        own: its build command.
        variants: all of the experiment.
        recipes: by label, resolved. Variants that are unavailable here are missing.

    Raises:
        UserError: two variants would be built by the same command though their recipes differ.
    """
    if may_read_environment(own.build):
        return  # the programs are compared after the build
    used = placeholders_in(own.build)
    for one, other in itertools.combinations([v for v in variants if v.label in recipes], 2):
        differing = [name for name, level in one.levels if other.level(name) != level]
        if len(differing) == 1:
            _require_placeholders(used, differing[0], recipes[one.label], recipes[other.label])


def check_programs(own: OwnProgram, programs: Mapping[str, Program]) -> None:
    """Check that builds with different compilers or flags gave different programs.

    Args:
        own: its build command.
        programs: what was built, by the variants' labels.

    Raises:
        UserError: two are the same file.
    """
    for (label, one), (other_label, other) in itertools.combinations(programs.items() if own.build else (), 2):
        differ = any(
            getattr(one.recipe.of(Build), field) != getattr(other.recipe.of(Build), field)
            for field in ("command", "cflags", "ldflags")
        )
        compiled = one.facts is not None  # a script may start different programs
        if differ and compiled and one.artifact and other.artifact and one.artifact.sha256 == other.artifact.sha256:
            raise UserError(
                f"The build gave the same program for {label} and {other_label}: it ignores the compiler and the flags, in which they "
                "differ.",
                "It finds them in the environment (CC, CFLAGS, LDFLAGS). Where it sets its own, name them: "
                "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}",
            )


def _too_old_a_musl(program: str) -> str:
    """As `needs_newer_musl`, of a program that is a file of this machine."""
    try:
        return needs_newer_musl(program)
    except (OSError, ValueError, UserError):
        return ""


def _check_source(own: OwnProgram) -> None:
    source, typed = Path(own.source), Path(own.arguments[0])
    hint = "--source names the folder that holds the sources; it is copied and not changed."
    refuse(
        (
            not source.is_dir(),
            f"The source folder {source} is {'no folder' if source.exists() else 'not there'}.",
            hint,
        ),
        (not os.access(source, os.R_OK | os.X_OK), f"The source folder {source} can't be read.", hint),
    )
    refuse(
        (not any(source.iterdir()), f"The source folder {source} is empty.", hint),
        (
            not typed.is_absolute() and ".." in typed.parts,
            f"{typed} leads out of the copy in which it is built.",
            "Name the program by its path inside the sources.",
        ),
    )


def _check_placeholders(own: OwnProgram, factors: Iterable[FactorLevels]) -> None:
    """Check with the names that factors put in a recipe; `check_recipes` repeats it with resolved recipes."""
    used = placeholders(own.build, (choice.factor[1:-1] for choice in factors if choice.factor.startswith("{")))
    if may_read_environment(own.build):
        return
    for choice in factors:
        factor = find_factor(choice.factor)
        first, *others = (factor.apply(level, SOURCE_RECIPE) for level in choice.levels)
        for other in others:
            _require_placeholders(used, choice.factor, first, other)


def _require_placeholders(used: frozenset[str], factor: str, one: Recipe, other: Recipe) -> None:
    for placeholder, alike, fields in _PLACEHOLDERS:
        if not used.intersection((placeholder, *alike)) and any(
            getattr(one.of(Build), field) != getattr(other.of(Build), field) for field in fields
        ):
            variable = placeholder.upper()
            raise UserError(
                f"The levels of {factor} differ in {{{placeholder}}}, and --build doesn't use it: it would build the same program twice.",
                f"Add it where the build takes it, for make: {variable}={{{placeholder}}}",
            )


class OwnProgramBuild:
    """Builds a user's own program for one variant after another, or takes a built one. Its methods take the program `as_run`.

    Attributes:
        uncarried: of the last program, given its standard error: `uncarried_files`; None without a virtual machine.
    """

    def __init__(self) -> None:
        self._builder: SourceBuilder | None = None
        self.uncarried: Callable[[bytes], tuple[str, ...]] | None = None
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
        artifact = new_artifact(context.suite, workload, variant, layout)
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
        self.uncarried = functools.partial(uncarried_files, self._carried[key])

    def built(
        self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext, artifact: Artifact
    ) -> tuple[OwnProgram, Artifact]:
        """Build the program; return it as a program of the folder of its build, and its artifact."""
        artifact, folder = self._built(own, variant, recipe, context, artifact)
        program = f"./{os.path.relpath(artifact.path, folder)}"
        return msgspec.structs.replace(own, directory=folder, arguments=(program, *own.arguments[1:])), artifact

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
            for each in every:
                _check_source(each)
            _check_placeholders(self._own, experiment.factors)
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
        root = next((level for name, level in variant.applied if is_root_factor(name)), "")
        if root:
            libc = roots_of_parts()[0].library(own, root, default.architecture or os.uname().machine)
        else:
            facts = read_facts(Path(own.arguments[0]))
            libc = LIBC.observe(Evidence(interp=facts.interp, objects=())) if facts else None
        return recipe.changed(Build, libc=libc or recipe.of(Build).libc)

    def check_recipes(self, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> None:
        """Raise if what distinguishes two variants does not reach the build command."""
        if self._own.build:
            check_recipes(self._own, variants, recipes)

    def made(
        self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext
    ) -> tuple[OwnProgram, Artifact]:
        """Build the program on this machine; a root has the folder of its build as the working folder."""
        own, artifact = super().made(own, variant, recipe, context)
        if not own.build:
            return own, artifact
        return self._build.built(own, variant, with_libraries(recipe, own.libraries, context.notify), context, artifact)

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
        if answer.outcome is ProcessOutcome.SIGNALED and not self._own.build:
            own = self._own
            started = (
                *own.arguments[:1],
                *(path for _, path in own.programs),
                *(line.words[0] for line in own.commands),
            )
            if old := next(filter(None, map(_too_old_a_musl, dict.fromkeys(started))), ""):
                return f"; {old}: compare in a root that has it, such as rootfs=docker:alpine:3.20"
        if uncarried is not None and answer.outcome is ProcessOutcome.EXITED and answer.code:
            named = " ".join(f"--files {shlex.quote(safe(name))}" for name in uncarried(answer.stderr))
            return f"; the machine has the program, its libraries, and what arguments and --files name{f': add {named}' if named else ''}"
        return super().advice(answer)

    def explain_wrong_level(self, program: Program) -> str:
        """Return how the program was built, to find out why another level was in force than requested."""
        if not self._own.build:
            return ""
        facts = program.facts
        compiler = ", ".join(facts.of(BuildFacts).comments if facts else ()) or "an unnamed compiler"
        loader = (facts.interp or "none") if facts else "none: it is a script"
        return (
            f"; does the build ignore {{cc}}, {{cflags}} or {{ldflags}}, or find files of an earlier build? {{cc}} was "
            f"{' '.join(program.recipe.of(Build).command)!r}; the program was built by {compiler}, its loader is {loader}"
        )

    def wrong_files(self, trial: TrialSpec, evidence: Evidence) -> str:
        """Return a sentence if the process used another build of a library than ``--with`` requested."""
        return wrong_library(trial.program.recipe, evidence)
