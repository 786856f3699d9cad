# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mistakes in an own program that is built from its sources, or carried to another machine, that show before anything is built."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.core.artifacts.placeholders import placeholders
from swapstone.core.factors import Recipe, find_factor
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import Experiment, FactorLevels, OwnProgram, UserError, Variant, placeholders_in
from swapstone.core.model.architectures import machine_of
from swapstone.core.subjects.variant_program import Program
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.parts.build.artifacts.command_names import may_read_environment
from swapstone.parts.build.build import Build
from swapstone.parts.build.subjects.own_program_carried import carried_files, check_files

_FILES = ("cmake_toolchain", "meson_cross")
_PLACEHOLDERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("cc", ("cxx", *_FILES), ("libc", "compiler", "command")),
    ("cflags", ("cxxflags", *_FILES), ("cflags",)),
    ("ldflags", _FILES, ("linking", "ldflags")),
)
"""Each placeholder, others that have the same effect, and the fields of a recipe that reach a build through it."""


def check_sources(own: OwnProgram, every: Sequence[OwnProgram], experiment: Experiment) -> None:
    """Raise if an own program can't be built.

    Args:
        own: with its placeholders.
        every: `as_run`, for each variant.
        experiment: its factors are used.

    Raises:
        UserError: the message states what is wrong, and the hint what to try.
    """
    for each in every:
        _check_source(each)
    _check_placeholders(own, experiment.factors)


def check_carried(own: OwnProgram, every: Sequence[OwnProgram], experiment: Experiment) -> None:
    """Raise if the files of an own program can't be carried to a machine without this one's; arguments and errors as `check_sources`."""
    architecture = machine_of(experiment.architecture)
    check_files(own)
    different = {(each.arguments[0], each.stdin, each.files, each.environment): each for each in every}
    together = CarriedFiles({})
    for each in () if own.build else different.values():
        carried = carried_files(each, each.arguments[0], each.directory, architecture, environment=each.environment)
        together = together.joined(carried)


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
