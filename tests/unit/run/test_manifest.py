# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tools of a record's manifest: each once, in the order of their names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.core.factors import Recipe
from swapstone.parts.build.artifacts import builder
from swapstone.parts.build.build import Build

NUMBERS = (7, 3, 9, 1, 8, 2, 6, 4, 5)


def _program(number: int) -> Any:
    artifact = SimpleNamespace(command=("cc",), path=f"/program{number}")
    return SimpleNamespace(
        recipe=Recipe(pieces=(Build(command=(f"/bin/cc{number}", "-m32")),)),
        artifact=artifact,
        root="",
        load_generator=number,
    )


def test_tools_are_listed_once_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "compiler_version", lambda command: f"version of {command[0]}")
    monkeypatch.setattr(builder, "c_library_version", lambda recipe: ("libc", recipe.of(Build).command[0]))
    monkeypatch.setattr(
        builder, "loader_version", lambda path: ("loader", str(path)) if path != Path("/program5") else None
    )
    monkeypatch.setattr(builder, "load_generator_identity", lambda number: ("generator", f"version {number}"))
    monkeypatch.setattr(builder, "own_tools", lambda _: [])
    monkeypatch.setattr(builder, "allocator_tools", lambda _: ())
    assert builder.BUILDER.tools([_program(number) for number in (*NUMBERS, *NUMBERS)]) == [
        *((f"cc{number} -m32", f"version of /bin/cc{number}") for number in sorted(NUMBERS)),
        *(("libc", f"/bin/cc{number}") for number in sorted(NUMBERS)),
        *(("loader", f"/program{number}") for number in sorted(NUMBERS) if number != 5),
        *(("generator", f"version {number}") for number in sorted(NUMBERS)),
    ]


def test_only_what_built_a_program_is_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was not built has no compiler; one in a root file system has a loader of its own there."""
    monkeypatch.setattr(builder, "compiler_version", lambda command: f"version of {command[0]}")
    monkeypatch.setattr(builder, "c_library_version", lambda _: None)
    monkeypatch.setattr(builder, "loader_version", lambda path: ("loader", str(path)))
    one, two, three, four = (_program(number) for number in (1, 2, 3, 4))
    one.artifact.command, one.load_generator = (), None
    two.artifact, two.load_generator = None, None
    three.recipe, three.root, three.load_generator = Recipe(), "/root", None
    four.load_generator = None
    monkeypatch.setattr(
        builder, "own_tools", lambda recipes: [("own", recipe.of(Build).command[0]) for recipe in recipes]
    )
    monkeypatch.setattr(builder, "allocator_tools", lambda recipes: [("allocators", str(len(list(recipes))))])
    assert builder.BUILDER.tools([one, two, three, four]) == [
        ("cc4 -m32", "version of /bin/cc4"),
        *(("loader", f"/program{number}") for number in (1, 4)),
        *(("own", "/bin/cc4"), ("allocators", "4")),
    ]
