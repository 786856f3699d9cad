# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone bisect` with a small repository, from arguments to exit status."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.contract.vm_images import need_emulator
from tests.e2e.cli import swapstone
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git", "make", "cc")
    made = SmallRepository(tmp_path / "small")
    made.git("tag", "start")
    return made


def bisect(small: SmallRepository, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    state = {"XDG_STATE_HOME": str(small.folder.parent / "state"), "GIT_CEILING_DIRECTORIES": ""}
    return swapstone(small.folder, "bisect", *arguments, expect=expect, **state)


def test_nothing_is_built_without_trust(small: SmallRepository, tmp_path: Path) -> None:
    small.edit("Makefile", "\tcc", f"\ttouch {tmp_path}/built\n\tcc")
    planned = bisect(small, "start..", "--dry-run").stdout
    assert "1 commits from" in planned and "at most 2 builds" in planned and "./prog {data}/small" in planned
    refused = bisect(small, "start..", expect=2).stderr
    assert "was never accepted here" in refused and "--trust" in refused and not (tmp_path / "built").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("start",), "is no range A..B"),
        (("--", "-x..HEAD"), "There is no commit '-x' here"),
        (("HEAD..start",), "start"),
        (("start..HEAD", "--least", "many"), "--least"),
    ],
)
def test_a_mistake_is_named(small: SmallRepository, arguments: tuple[str, ...], message: str) -> None:
    small.commit(README="2")
    assert message in bisect(small, *arguments, expect=2).stderr.replace("Turn it around: swapstone bisect", "start")


def test_an_end_that_does_not_build_is_no_result(small: SmallRepository) -> None:
    small.edit("work.c", "return value;", "return valu;")
    done = bisect(small, "start..", "--trust", expect=4)
    assert done.stdout.startswith("Nothing is known: ") and "valu" in done.stdout
    assert "Exit status 4: Nothing is known" in done.stderr


@pytest.mark.slow
def test_planted_steps(small: SmallRepository) -> None:
    """A step of 1 % whose commit builds only after the next one, and one system call."""
    need_emulator("x86_64")
    small.edit("work.c", "unsigned value = 1", "unsigned value = 2")
    small.edit("work.c", "i < turns;", "i < turns + turns / 100,;")
    step = small.edit("work.c", "turns / 100,;", "turns / 100;")
    small.commit(README="other")
    main = (small.folder / "main.c").read_text().replace("return 0;", "return getppid() < 0;")
    call = small.commit(**{"main.c": f"#include <unistd.h>\n{main}"})
    small.commit(README="another")
    file = small.folder.parent / "bisect.json"
    done = bisect(small, "start..", "--trust", "--json", str(file))
    found = json.loads(file.read_text())
    assert found["format"] == "swapstone-bisect-result" and done.stdout.split()[:3] == found["answer"].split()[:3]
    one, two = found["steps"]
    assert (one["commit"], one["commits"]) == (step, 2) and "gave nothing" in one["why"]
    assert 0.9 < one["rows"][0]["difference"] / (300000 / 100 * 6) < 1.2
    assert (two["commit"], two["verified"]) == (call, True)
    assert [row["detail"] for row in two["rows"] if row["metric"] == "syscalls"] == ["getppid"]
    assert (
        bisect(small, "start..").stdout.partition("builds were made")[0] != done.stdout.partition("builds were made")[0]
    )
