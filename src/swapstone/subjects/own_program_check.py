# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mistakes in a user's own program that show before anything is built."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from swapstone.artifacts import SOURCE_RECIPE, may_read_environment, placeholders
from swapstone.factors import Recipe, Stage, find_factor
from swapstone.model import (
    Experiment,
    FactorLevels,
    OwnProgram,
    UnavailableError,
    UserError,
    Variant,
    Workload,
    placeholders_in,
)
from swapstone.model.architectures import machine_of
from swapstone.subjects.image_root import root_levels
from swapstone.subjects.own_program_carried import carried_files, check_files
from swapstone.subjects.own_program_root import check_rooted
from swapstone.subjects.own_program_variant import as_run
from swapstone.subjects.variant_program import Program
from swapstone.targets import Capabilities
from swapstone.targets.carried_files import CarriedFiles

_BUILD_EXAMPLE = "--build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR"

_FILES = ("cmake_toolchain", "meson_cross")
_PLACEHOLDERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("cc", ("cxx", *_FILES), ("libc", "compiler", "command")),
    ("cflags", ("cxxflags", *_FILES), ("cflags",)),
    ("ldflags", _FILES, ("linking", "ldflags")),
)
"""Each placeholder, others that have the same effect, and the fields of a recipe that reach a build through it."""


def check_own(own: OwnProgram, workload: Workload, experiment: Experiment, target: Capabilities) -> None:
    """Raise if a user's own program can't be measured.

    Args:
        own: with its placeholders.
        workload: one of its workloads.
        experiment: its factors are used.
        target: where it runs.

    Raises:
        UserError: the message states what is wrong, and the hint what to try.
    """
    _check_target(own, target)
    every = [as_run(own, workload, variant) for variant in _variants(experiment)]
    for path in dict.fromkeys(each.stdin for each in every if each.stdin):
        if not os.access(path, os.R_OK) or not Path(path).is_file():
            raise UserError(f"--input {path} can't be read.", "Name a file that exists and that you may read.")
    if root_levels(experiment):
        check_rooted(own, every, experiment, target)
        return
    if own.build:
        for each in every:
            _check_source(each)
        _check_placeholders(own, experiment.factors)
    else:
        _check_built(own, experiment, dict.fromkeys(each.arguments[0] for each in every))
    if "shares_files" not in target.offers:
        architecture = machine_of(experiment.architecture)
        check_files(own)
        different = {(each.arguments[0], each.stdin, each.files, each.environment): each for each in every}
        together = CarriedFiles({})
        for each in () if own.build else different.values():
            carried = carried_files(each, each.arguments[0], each.directory, architecture, environment=each.environment)
            together = together.joined(carried)


def _variants(experiment: Experiment) -> Iterator[Variant]:
    names = [choice.factor for choice in experiment.factors]
    for levels in itertools.product(*(choice.levels for choice in experiment.factors)):
        yield Variant(levels=tuple(zip(names, levels, strict=True)))


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
            getattr(one.recipe, field) != getattr(other.recipe, field) for field in ("command", "cflags", "ldflags")
        )
        compiled = one.facts is not None  # a script may start different programs
        if differ and compiled and one.artifact and other.artifact and one.artifact.sha256 == other.artifact.sha256:
            raise UserError(
                f"The build gave the same program for {label} and {other_label}: it ignores the compiler and the flags, in which they "
                "differ.",
                "It finds them in the environment (CC, CFLAGS, LDFLAGS). Where it sets its own, name them: "
                "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}",
            )


def _check_target(own: OwnProgram, target: Capabilities) -> None:
    hint = "Leave --target out: your program runs on this machine."
    if "runs_programs" not in target.offers:
        raise UserError(
            f"The target {target.name} makes up the answers of the workloads of this project; it can't simulate a program of yours.",
            hint,
        )
    if target.offers.isdisjoint({"shares_files", "carries_files"}):
        raise UserError(
            f"A program of yours can't run on the target {target.name}: it may need files that are missing there.", hint
        )
    if "shares_files" not in target.offers:
        _check_options(own, target)
    for given, option in ((own.files, "--files"), (own.memory_bytes, "--memory")):
        if given and "boots" not in target.offers:
            raise UserError(
                f"{option} is for virtual machines; on the target {target.name} the program finds this machine's files and memory.",
                f"Leave {option} out, or add --target vm.",
            )


def _check_options(own: OwnProgram, target: Capabilities) -> None:
    """Refuse options that need this machine's files or a shell.

    Raises:
        UnavailableError: one is given; the message gives the reason.
    """
    bare = "each trial has a machine of its own, which has no shell"
    same = "Each trial starts from the same files: name them with --files."
    gone, printed = "the files of a machine are gone with it", "Let the program print what is to be compared."
    programs = "the machine has no shell, and not the programs that it would start"
    for given, option, why, hint in (
        (own.setup, "--setup", bare, f"Leave --setup out. {same}"),
        (own.prepare, "--prepare", bare, f"Leave --prepare out. {same}"),
        (own.conclude, "--conclude", bare, f"Leave --conclude out. {same}"),
        (own.shell, "--shell", programs, "Name the program itself."),
        (own.output not in {"", os.devnull}, "--output FILE", gone, printed),
        (own.artifacts, "--artifact", gone, printed),
    ):
        if given:
            raise UnavailableError(f"{option} is unavailable on the target {target.name}: {why}.", hint)


def _check_source(own: OwnProgram) -> None:
    source, typed = Path(own.source), Path(own.arguments[0])
    hint = "--source names the folder that holds the sources; it is copied and not changed."
    if not source.is_dir():
        raise UserError(f"The source folder {source} is {'no folder' if source.exists() else 'not there'}.", hint)
    if not os.access(source, os.R_OK | os.X_OK):
        raise UserError(f"The source folder {source} can't be read.", hint)
    if not any(source.iterdir()):
        raise UserError(f"The source folder {source} is empty.", hint)
    if not typed.is_absolute() and ".." in typed.parts:
        raise UserError(
            f"{typed} leads out of the copy in which it is built.", "Name the program by its path inside the sources."
        )


def _check_built(own: OwnProgram, experiment: Experiment, paths: Iterable[str]) -> None:
    """Check a program that is not built here."""
    if experiment.layouts:
        raise UserError(
            "--layouts links a program anew, and yours is not built here.", f"Let it be built: {_BUILD_EXAMPLE}"
        )
    for choice in experiment.applied_factors:
        if find_factor(choice.factor).stage in {Stage.COMPILE, Stage.LINK}:
            raise UserError(
                f"The factor {choice.factor} acts when a program is built, and yours is not built here.",
                f"Let it be built: {_BUILD_EXAMPLE}. "
                "Factors whose stage is launch (swapstone list factors) work on built programs.",
            )
    for path in paths:
        _check_program(path)
    if not Path(own.directory).is_dir():
        raise UserError(f"The folder {own.directory}, in which the program runs, is not there any more.")


def _check_program(path: str) -> None:
    file = Path(path)
    if not file.exists():
        hint = "Name it by its path, or build it: --build COMMAND --source DIR"
        if any(character.isspace() for character in file.name):
            hint = "--program takes a path, and -- its arguments. To compare command lines: swapstone compare 'COMMAND' 'COMMAND'"
        raise UserError(f"There is no program {path}.", hint)
    if not file.is_file():
        raise UserError(f"{path} is no file that can be executed.", "Name the program itself.")
    if not os.access(file, os.X_OK):
        raise UserError(f"{path} can't be executed.", f"If it is a program: chmod +x {path}")


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
            getattr(one, field) != getattr(other, field) for field in fields
        ):
            variable = placeholder.upper()
            raise UserError(
                f"The levels of {factor} differ in {{{placeholder}}}, and --build doesn't use it: it would build the same program twice.",
                f"Add it where the build takes it, for make: {variable}={{{placeholder}}}",
            )
