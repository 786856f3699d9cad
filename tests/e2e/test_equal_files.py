# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of equal bytes, and what is recorded of the files in which variants differ."""

from __future__ import annotations

import subprocess
from pathlib import Path

from swapstone.core.record import MappedFile, load
from tests.e2e.cli import swapstone

SOURCE = '#include <stdio.h>\nint main(void) { puts("done"); return 0; }\n'


def two_programs(folder: Path, second: str = SOURCE) -> None:
    """Link ./old/prog and ./new/prog."""
    for name, source in (("old", SOURCE), ("new", second)):
        (folder / name).mkdir()
        (folder / "prog.c").write_text(source)
        subprocess.run(
            ["cc", "-static", "-s", "-o", folder / name / "prog", folder / "prog.c"], check=True, capture_output=True
        )


def mapped(folder: Path, *arguments: str) -> dict[str, MappedFile]:
    """Compare ./old/prog with ./new/prog, and return the files in which variants differ by variant."""
    swapstone(
        folder, "compare", "./old/prog", "./new/prog", *arguments, "--blocks", "3", "--out", str(folder / "r"), expect=0
    )
    manifest = load(folder / "r").manifest
    assert manifest is not None
    return {each.variant: each for each in manifest.mapped}


def test_the_null_runs_a_copy_of_the_file(tmp_path: Path) -> None:
    two_programs(tmp_path)
    found = mapped(tmp_path, "--null")
    first, again, other = (found[f"command={name}"] for name in ("prog-1", "prog-1 (again)", "prog-2"))
    assert (first.path, other.path) == tuple(str(tmp_path / name / "prog") for name in ("old", "new"))
    assert again.path not in {first.path, other.path} and again.path.endswith("/prog")
    assert first.sha256 == again.sha256 == other.sha256
    manifest = load(tmp_path / "r").manifest
    assert manifest is not None
    assert {each.variant: each.path for each in manifest.artifacts} == {name: each.path for name, each in found.items()}
    assert all(run.status.value == "ok" for run in load(tmp_path / "r").runs)
