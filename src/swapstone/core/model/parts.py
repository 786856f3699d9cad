# SPDX-License-Identifier: MIT OR Apache-2.0
"""What parts provide: the parts in the folder ``parts``, and packages from elsewhere, which need no change here.

A package names its manifest, a `Part`, by an entry point of the group `GROUP`. What a part provides is imported where its kind is looked
up. docs/extending.md has an example of each kind.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from typing import Any

from swapstone.core.manifests import Part, shipped_parts
from swapstone.core.model.errors import UserError

__all__ = ["GROUP", "KINDS", "Part", "installed_parts", "load", "missing_parts", "parts_of", "provided"]

GROUP = "swapstone.parts"
KINDS = (
    "builder",
    "check",
    "context",
    "evidence",
    "examination",
    "experiment",
    "explainer",
    "factor",
    "findings",
    "list",
    "load-driver",
    "loads",
    "phrases",
    "program-facts",
    "query-table",
    "reference",
    "root",
    "settings",
    "sharing",
    "study-topic",
    "subject",
    "suite",
    "target",
    "topic",
)
_OUTSIDE = ("factor", "program-facts", "suite", "target")
"""The kinds that parts from elsewhere provide: to look for packages takes 25 ms, and commands that read records do without."""


@functools.cache
def installed_parts() -> tuple[Part, ...]:
    """Return the manifests of all parts from elsewhere, by name.

    Raises:
        UserError: one can't be read.
    """
    import importlib.metadata  # noqa: PLC0415 - takes 25 ms, and commands that read records do without

    found = []
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda each: each.name):
        part = load(point.name, point.value)
        if not isinstance(part, Part) or part.name != point.name or not part.provides.keys() <= set(_OUTSIDE):
            raise _broken(point.name, f"{point.value} is no manifest of this name with the kinds {', '.join(_OUTSIDE)}")
        found.append(part)
    return tuple(found)


def provided(kind: str, of: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a class or a protocol, and its instances
    """Return what all parts provide of a kind, those from elsewhere last.

    Args:
        kind: one of `KINDS`.
        of: the class that each object must have.

    Raises:
        UserError: a part or an object of it can't be loaded, or has another class.
    """
    parts = (*shipped_parts(), *(installed_parts() if kind in _OUTSIDE else ()))
    return tuple(load(part.name, place, of) for part in parts for place in part.provides.get(kind, ()))


def load(part: str, place: str, of: Any = object) -> Any:  # noqa: ANN401 - as `provided`
    """Return an object of a part.

    Args:
        part: its name.
        place: ``package.module:NAME``.
        of: the class that the object must have.

    Raises:
        UserError: there is no such object, or it has another class.
    """
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever an installed module raises while it is imported
        raise _broken(part, f"{place}: {type(error).__name__}: {error}") from error
    if not isinstance(found, of):
        raise _broken(part, f"{place} is no {of.__name__}")
    return found


def parts_of(names: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """Return the parts that provide any of some objects.

    Args:
        names: pairs (kind, the object's attribute `name`).
    """
    wanted = set(names)
    return tuple(
        part
        for part in (*shipped_parts(), *installed_parts())
        if any(
            (kind, getattr(load(part.name, place), "name", "")) in wanted
            for kind in _OUTSIDE
            for place in part.provides.get(kind, ())
        )
    )


def missing_parts(parts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return "NAME VERSION" of each of these parts, pairs (name, version), that is not installed."""
    known = {part.name for part in shipped_parts()}
    needed = [(name, version) for name, version in parts if name not in known]
    installed = {part.name for part in installed_parts()} if needed else set()
    return tuple(f"{name} {version}" for name, version in needed if name not in installed)


def _broken(part: str, problem: str) -> UserError:
    return UserError(f"The part {part} can't be used: {problem}.", "Install a version of it that fits, or remove it.")
