# SPDX-License-Identifier: MIT OR Apache-2.0
"""The locale, time zone and home folder of the user's shell: which programs get them, and the note where they don't."""

from __future__ import annotations

import os

from swapstone.core.model import WALL_CLOCK, Experiment, refuse
from swapstone.core.model.safe_text import safe
from swapstone.core.targets import find_target_kind

_NAMES = frozenset({"HOME", "LANG", "TZ"})
_ALL = "LC_ALL"
_FIXED = frozenset({"", "C", "POSIX"})
"""Values of a locale that programs without the shell's have, too (POSIX, 8.2)."""


def inherited_environment(target: str, clock: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that an own program gets from this shell, as pairs (name, value): on the wall clock of this machine.

    ``LC_ALL`` is always among them, and empty if the shell has none, because a set one is preferred to all others.

    Raises:
        UserError: one is not UTF-8.
    """
    here = "runs_instruments" in find_target_kind(target).opens.offers
    if not here or clock != WALL_CLOCK:
        return ()
    found = {_ALL: "", **_of_shell()}
    refuse(
        *(
            (
                value.encode(errors="ignore").decode() != value,
                f"{name} is not UTF-8: a record can't store it.",
                f"Set another one, or none: unset {name}",
            )
            for name, value in found.items()
        )
    )
    return tuple(sorted(found.items()))


def fixed_environment_note(experiment: Experiment) -> str:
    """Return a note if programs get another locale or time zone than this shell has; empty if not.

    Args:
        experiment: whose programs will run.
    """
    own = experiment.own
    if experiment.simulated or (own is not None and own.inherited):
        return ""
    lines = () if own is None else (*own.environment, *(pair for line in own.commands for pair in line.environment))
    given = {name for name, _ in lines} | {each.factor.removeprefix("env:") for each in experiment.factors}
    shell = {name: value for name, value in _of_shell().items() if name != "HOME" and name not in given}
    if shell.get(_ALL) or _ALL in given:  # it is preferred to the other names of the locale
        shell = {name: value for name, value in shell.items() if name in {_ALL, "TZ"}}
    other = {name: value for name, value in sorted(shell.items()) if value not in _FIXED}
    gets = " and ".join([*([f"{_ALL}=C"] if other.keys() - {"TZ"} else []), *(["no TZ"] if "TZ" in other else [])])
    shown = ", ".join(f"{name}={value}" for name, value in other.items())
    whose, more = (
        ("The suites' programs get", "") if own is None else ("Your program gets", " --env NAME=VALUE sets one.")
    )
    return f"{whose} {gets}, not {safe(shown)} of this shell.{more}" if other else ""


def _of_shell() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith("LC_")}
