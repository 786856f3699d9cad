# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the files of base and head make of each run, and which acceptances are of this change."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.parts.gate.gate import Change
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository

ACCEPT = '[[accept]]\nrun = "small"\nmetric = "instructions"\nsize = "2%"\nreason = "one more check"\n'


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git")
    return SmallRepository(tmp_path / "small")


def test_each_kind_of_a_run(small: SmallRepository) -> None:
    def kinds() -> dict[str, str]:
        return Change(small.folder, "main").kinds()

    small.edit("swapstone.toml", "[run.small]", '[run.small]\nfail = { instructions = "50%" }')
    assert kinds() == {"small": "same"}, "a limit is no part of a run's definition"
    small.commit(**{"bench/small": "290000\n"})
    assert kinds() == {"small": "redefined"}
    small.edit("swapstone.toml", "[run.small]", "[run.tiny]")
    assert kinds() == {"small": "gone", "tiny": "new"}, "another name"


def test_an_acceptance_is_for_one_change(small: SmallRepository) -> None:
    small.edit("swapstone.toml", "[run.small]", f"{ACCEPT}[run.small]")
    assert [each.reason for each in Change(small.folder, "main").acceptances()] == ["one more check"]
    small.git("branch", "-q", "-f", "main")
    small.edit("work.c", "turns", "turns_")
    assert Change(small.folder, "main").acceptances() == ()
