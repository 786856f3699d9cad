# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors that a user can cause and correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from swapstone.core.model.safe_text import safe

Found = TypeVar("Found")


class UserError(Exception):
    """A request of the user can't be carried out.

    Args:
        message: what failed, in one or two sentences.
        hint: what to do about it, printed on its own line. May be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UnavailableError(UserError):
    """This machine or target can't do what was requested, though another could."""


class NothingComparableError(UserError):
    """What should be compared failed when it was built or first run, so that there is no result: the exit status is 4."""


class RecordError(UserError):
    """A record is missing, damaged, locked, or of another schema version."""


class WireError(UserError):
    """The output of an agent or a workload violates its protocol."""


_LISTS = {
    "factor": "factors",
    "level": "levels",
    "workload": "workloads",
    "suite": "suites",
    "load": "loads",
    "target": "targets",
    "study": "studies",
    "record": "records",
    "published study": "published",
    "published suite": "published",
}
"""The argument of `swapstone list` that lists each kind."""


_MOST_NAMES = 12
"""A hint has this many names of a longer list."""


def check_distinct(values: Iterable[str], message: str, hint: str) -> None:
    """Check that no value occurs twice; ``{}`` in the message and the hint stands for the first one that does.

    Raises:
        UserError: with this message and hint.
    """
    given = list(values)
    if (twice := next((value for value in given if given.count(value) > 1), None)) is not None:
        raise UserError(message.format(twice), hint.format(twice))


def refuse(*reasons: tuple[object, str, str]) -> None:
    """Raise a `UserError` for the first condition that holds.

    Args:
        *reasons: triples (condition, message, hint).

    Raises:
        UserError: a condition is true.
    """
    for condition, message, hint in reasons:
        if condition:
            raise UserError(message, hint)


def unknown(kind: str, name: str, known: Iterable[str], described: Mapping[str, str] | None = None) -> UserError:
    """Return the error for a name that is not in a registry, with similar names and those that exist.

    Args:
        kind: what the name should have been, e.g. ``"workload"``.
        name: the name given by the user.
        known: every valid name.
        described: what the user types and what it is for, one line each; None for a list of names alone.

    Returns:
        A `UserError` to raise. Its hint has up to three similar names, and the known names, shortened to `_MOST_NAMES` of them.
    """
    names = sorted(set(map(safe, known)))  # names of a record may come from elsewhere
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    parts = ["Did you mean " + " or ".join(map(repr, near)) + "?"] if near else []
    if described:
        width = max(map(len, described))
        parts.append("\n".join(["Known:", *(f"  {usage:{width}}  {what}" for usage, what in described.items())]))
        return UserError(f"There is no {kind} named {name!r}.", " ".join(parts))
    left = len(names) - _MOST_NAMES
    shown = ", ".join(names if left <= 1 else names[:_MOST_NAMES]) or "none"
    parts.append(f"Known: {shown} and {left} more." if left > 1 else f"Known: {shown}.")
    parts += [f"`swapstone list {_LISTS[kind]}` lists all."] if kind in _LISTS else []
    return UserError(f"There is no {kind} named {name!r}.", " ".join(parts))


def find_named(kind: str, name: str, known: Mapping[str, Found]) -> Found:
    """Return what has a name.

    Args:
        kind: what it is, for the error.
        name: as the user typed it.
        known: all that exist, by name.

    Raises:
        UserError: nothing has this name.
    """
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]
