# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor `program`: the level is the file that was started, not the requested one."""

from __future__ import annotations

import pytest

from swapstone.core.factors import PROGRAM, Evidence, ProgramFacts, Recipe, find_factor, find_level, parse_choice
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build

NAMED = (("old", "/a/old"), ("new", "/a/new"))
ELF = ProgramFacts(path="/b/new", interp="/lib/ld.so")


@pytest.mark.parametrize(
    ("evidence", "seen"),
    [
        (Evidence(interp=None, objects=("/b/new", "/lib/x"), program=ELF, started="/a/new", named=NAMED), "new"),
        (Evidence(interp=None, objects=("/usr/bin/dash",), started="/a/old", named=NAMED), "old"),  # a script
        (Evidence(interp=None, objects=("/b/other",), program=ELF, started="/a/new", named=NAMED), "another program, /b/other,"),
        (Evidence(interp=None, objects=("/x (deleted)",), program=ELF, started="/a/new", named=NAMED), "another program, /x (deleted),"),
        (Evidence(interp=None, objects=(), program=ELF, started="/a/new", named=NAMED), None),  # no objects were observed
        (Evidence(interp=None, objects=("/b/new",), program=ELF, started="", named=NAMED), None),
        (Evidence(interp=None, objects=("/b/new",), program=ELF, started="/a/third", named=NAMED), None),
    ],
)  # fmt: skip
def test_the_started_program_is_observed(evidence: Evidence, seen: str | None) -> None:
    assert PROGRAM.observe(evidence) == seen


def test_any_name_is_a_level_but_typed_levels_are_refused() -> None:
    assert find_factor("program") is PROGRAM
    assert find_level(PROGRAM, "anything").name == "anything"
    assert PROGRAM.apply("anything", Recipe(pieces=(Build(libc="musl"),))) == Recipe(pieces=(Build(libc="musl"),))
    with pytest.raises(UserError, match="are your programs") as caught:
        parse_choice("program=a,b")
    assert "--program baseline=./old" in caught.value.hint
