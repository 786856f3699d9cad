"""The one family of errors that a user can cause and mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user asked for can't be done as asked.

    Args:
        message: what failed, in one or two sentences.
        hint: what to try next; printed on its own line. May be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UnavailableError(UserError):
    """This machine (or target) can't do what was asked, though another could."""


class RecordError(UserError):
    """A record is missing, damaged, locked, or of another schema version."""


class WireError(UserError):
    """What an agent or a workload printed is not what its protocol allows."""


_LISTS = {
    "factor": "factors",
    "level": "levels",
    "workload": "workloads",
    "suite": "suites",
    "load": "loads",
    "study": "studies",
    "record": "records",
    "published study": "published",
    "published suite": "published",
}
"""What `swapstone list` calls the list of each kind that it can show."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Build the error for a name that is not in a registry, with the nearest names.

    Args:
        kind: what the name should have been, e.g. ``"workload"``.
        name: what the user typed.
        known: every valid name.

    Returns:
        A `UserError` to raise; its hint gives up to three near names, or the whole list when none is near.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    known_names = ", ".join(names) or "none"
    hint = "Did you mean " + " or ".join(map(repr, near)) + "?" if near else f"Known: {known_names}."
    more = f" `swapstone list {_LISTS[kind]}` shows them all." if kind in _LISTS else ""
    return UserError(f"There is no {kind} named {name!r}.", hint + more)
