# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parts from elsewhere: packages that add factors, suites with works of a new kind, and targets, without a change here.

A package names its manifest, a `Part`, by an entry point of the group `GROUP`. The manifest is read where any of these kinds is looked
up; what it provides is imported then, and by no command that only reads records. docs/extending.md has an example of each.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from swapstone.model.errors import UserError
from swapstone.model.frozen_struct import FrozenStruct

GROUP = "swapstone.parts"
KINDS = ("factor", "suite", "target")


class Part(FrozenStruct, frozen=True, kw_only=True):
    """The manifest of a part.

    Attributes:
        name: as the entry point's.
        version: of the part; records keep it.
        provides: by one of `KINDS`, where each object is: ``package.module:NAME``.
    """

    name: str
    version: str
    provides: Mapping[str, tuple[str, ...]]


@functools.cache
def installed_parts() -> tuple[Part, ...]:
    """Return the manifests of all installed parts, by name.

    Raises:
        UserError: one can't be read.
    """
    import importlib.metadata  # noqa: PLC0415 - takes 25 ms, and commands that read records do without

    found = []
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda each: each.name):
        part = load(point.name, point.value)
        if not isinstance(part, Part) or part.name != point.name or not part.provides.keys() <= set(KINDS):
            raise _broken(point.name, f"{point.value} is no manifest of this name with the kinds {', '.join(KINDS)}")
        found.append(part)
    return tuple(found)


def provided(kind: str, of: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a class or a protocol, and its instances
    """Return what all installed parts provide of a kind.

    Args:
        kind: one of `KINDS`.
        of: the class that each object must have.

    Raises:
        UserError: a part or an object of it can't be loaded, or has another class.
    """
    return tuple(load(part.name, place, of) for part in installed_parts() for place in part.provides.get(kind, ()))


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
    except Exception as error:  # whatever a stranger's module raises while it is imported
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
        for part in installed_parts()
        if any(
            (kind, getattr(load(part.name, place), "name", "")) in wanted
            for kind, places in part.provides.items()
            for place in places
        )
    )


def missing_parts(parts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return "NAME VERSION" of each of these parts, pairs (name, version), that is not installed."""
    needed = tuple(parts)
    installed = {part.name for part in installed_parts()} if needed else set()
    return tuple(f"{name} {version}" for name, version in needed if name not in installed)


def _broken(part: str, problem: str) -> UserError:
    return UserError(
        f"The installed part {part} can't be used: {problem}.", "Install a version of it that fits, or remove it."
    )
