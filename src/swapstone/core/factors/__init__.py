# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factors that experiments can vary: one file each, named in the manifest of a part."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from swapstone.core.factors.elf_file import facts_of, facts_of_parts, read_facts
from swapstone.core.factors.factor import (
    Evidence,
    Factor,
    Level,
    PartFacts,
    ProgramFacts,
    Recipe,
    Stage,
    TakesPaths,
    TakesTexts,
    require_known_attributes,
)
from swapstone.core.factors.free_factor import (
    COMMAND_FACTOR,
    COMMAND_LINE,
    NOT_OBSERVED,
    PROGRAM,
    SESSION_FACTOR,
    NamedByUser,
    free_factor,
    is_unobserved,
)
from swapstone.core.factors.priority import PRIORITY, PRIORITY_VARIABLE, level_of_stat
from swapstone.core.factors.priority import SEEN as PRIORITY_SEEN
from swapstone.core.model import FactorLevels, UserError, Variant, refuse, unknown
from swapstone.core.model.parts import provided


@functools.cache
def all_factors() -> tuple[Factor, ...]:
    """Return every factor, in the order of ``list factors``.

    Raises:
        UserError: a part can't be loaded, or a factor has an attribute that is not in the contract.
    """
    factors = (*provided("factor", Factor), PRIORITY)
    for factor in factors:
        require_known_attributes(factor)
    return factors


__all__ = [
    "COMMAND_FACTOR",
    "COMMAND_LINE",
    "NOT_OBSERVED",
    "PRIORITY",
    "PRIORITY_SEEN",
    "PRIORITY_VARIABLE",
    "PROGRAM",
    "Evidence",
    "Factor",
    "Level",
    "PartFacts",
    "ProgramFacts",
    "Recipe",
    "Stage",
    "TakesPaths",
    "TakesTexts",
    "all_factors",
    "check_values",
    "facts_of",
    "facts_of_parts",
    "find_factor",
    "find_level",
    "free_factor",
    "free_levels",
    "is_root_factor",
    "is_unobserved",
    "level_of_stat",
    "parse_choice",
    "read_facts",
    "recipe_of",
]


def find_factor(name: str) -> Factor:
    """Return a factor by its name.

    Raises:
        UserError: there is none; names the nearest.
    """
    for factor in (*all_factors(), PROGRAM, COMMAND_FACTOR, SESSION_FACTOR):
        if factor.name == name:
            return factor
    if (free := free_factor(name)) is not None:
        return free
    raise unknown("factor", name, [factor.name for factor in all_factors()])


def is_root_factor(name: str) -> bool:
    """Return whether the levels of a factor are root file systems of an own program.

    Raises:
        UserError: there is no such factor.
    """
    return getattr(find_factor(name), "is_root", False)


def find_level(factor: Factor, name: str) -> Level:
    """Return a factor's level by its name; for a factor that accepts paths, by a path, which contains a slash.

    Raises:
        UserError: there is none; names the nearest.
    """
    if "\0" in name:  # a study's file can have one
        raise UserError(f"{name!r} can't be a level: it has a zero byte.", "Remove it from the study's file.")
    if isinstance(factor, NamedByUser):
        return Level(name=name, description="defined by the user")
    if "/" in name and isinstance(factor, TakesPaths):
        return factor.level_of_path(name)
    for level in factor.levels:
        if level.name == name:
            return level
    if isinstance(factor, TakesTexts) and (taken := factor.level_of_text(name)) is not None:
        return taken
    raise unknown("level", name, [level.name for level in factor.levels])


def parse_choice(text: str) -> FactorLevels:
    """Parse the levels of one factor, e.g. ``libc=glibc,musl``.

    Args:
        text: ``FACTOR=BASELINE,CANDIDATE[,...]``.

    Raises:
        UserError: the text has another form, an unknown factor or level, only one level, or a level twice.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise UserError(f"{text!r} is not FACTOR=BASELINE,CANDIDATE.", "For example: swapstone compare libc=glibc,musl")
    factor = find_factor(name.strip())
    refuse(
        (
            factor is PROGRAM,
            "The levels of the factor program are your programs.",
            "Name each by its path: --program baseline=./old --program candidate=./new",
        ),
        (
            factor is COMMAND_FACTOR,
            "The levels of the factor command are your command lines.",
            "Write each as one argument: swapstone compare './old --fast' './new --fast'",
        ),
        (
            factor is SESSION_FACTOR,
            "The levels of the factor session are an earlier session and this one.",
            "Name the record of the earlier one: swapstone compare --against RECORD ./prog",
        ),
    )
    if free_factor(factor.name) is not None:
        return free_levels(factor.name, rest.split(","))
    levels = [find_level(factor, level.strip()).name for level in rest.split(",")]
    if len(levels) < 2:
        others = [level.name for level in factor.levels if level.name not in levels]
        raise UserError(
            f"{text!r} has only one level; a comparison needs two.",
            f"For example: swapstone compare {factor.name}={levels[0]},{others[0] if others else 'OTHER'}\n"
            f"To use it in every run: --hold {factor.name}={levels[0]}",
        )
    refuse(*((levels.count(level) > 1, f"{text!r} names {level!r} twice.", _NULL) for level in levels))
    return FactorLevels(factor=factor.name, levels=tuple(levels))


_NULL = "To learn how often a level differs from itself by chance, add --null instead."

LONGEST_VALUE = 200
"""Number of characters of a level of a free factor: reports print it."""


def free_levels(name: str, values: Sequence[str]) -> FactorLevels:
    """Return a free factor with its levels.

    Args:
        name: ``{NAME}`` or ``env:NAME``.
        values: as typed, the baseline first.

    Raises:
        UserError: there is only one, one is twice, empty, too long or not printable.
    """
    check_values(name, values)
    if len(values) < 2:
        raise UserError(
            f"{name} has only one value; a comparison needs two.",
            f"Separate them by commas: {name.strip('{}')}={values[0]},OTHER",
        )
    return FactorLevels(factor=name, levels=tuple(values))


def check_values(name: str, values: Sequence[str]) -> None:
    """Check values of a free factor or of a parameter: their text is part of names in reports.

    Raises:
        UserError: one is twice, empty, too long or not printable.
    """
    for value in values:
        what = f"has more than {LONGEST_VALUE} characters" if value.isprintable() else "is not printable"
        refuse(
            (
                not value,
                f"{name} has an empty value.",
                "To leave an argument out, write the command lines: './a' './a --fast'",
            ),
            (
                not value.isprintable() or len(value) > LONGEST_VALUE,
                f"A value of {name} {what}: {value[:40]!a}.",
                "Write it to a file, and vary the name of the file.",
            ),
        )
    refuse(*((list(values).count(value) > 1, f"{name} has the value {value!r} twice.", _NULL) for value in values))


def recipe_of(variant: Variant, base: Recipe) -> Recipe:
    """Apply every level of a variant to a recipe, factor by factor, and add what the factors observe."""
    recipe = base
    for name, level in variant.applied:
        factor = find_factor(name)
        needed = (*recipe.observe, *getattr(factor, "observes", ()))
        recipe = msgspec.structs.replace(factor.apply(level, recipe), observe=tuple(dict.fromkeys(needed)))
    return recipe
