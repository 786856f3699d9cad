# SPDX-License-Identifier: MIT OR Apache-2.0
"""`allocator=`: an object of the user, and variants that can't run; tests/unit/run/test_allocators.py runs each allocator."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cli import runs_of, swapstone
from tests.unit.factors.test_allocator import compiled
from tests.unit.run.test_allocators import BUMP, PLAIN


def test_the_command_line_runs_what_fits_and_says_what_is_left_out(tmp_path: Path) -> None:
    path = str(compiled(tmp_path, "bump.so", BUMP, *PLAIN))
    out = tmp_path / "r"
    only = ("--only", "b_string_strlen", "--blocks", "2", "--out", str(out))
    result = swapstone(tmp_path, "compare", "libc=glibc,musl", f"allocator=default,{path}", *only, expect=4)
    left_out = [line for line in result.stderr.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 1
    assert f"libc=musl,allocator={path}: {path} was built for glibc, so a program on musl can't load it." in left_out[0]
    assert result.stderr.index("left out") < result.stderr.index("calibrating")
    seen = {(run["trial"]["variant"], run["status"]) for run in runs_of(out)}
    assert seen == {
        ("libc=glibc,allocator=default", "ok"),
        (f"libc=glibc,allocator={path}", "ok"),
        ("libc=musl,allocator=default", "ok"),
        (f"libc=musl,allocator={path}", "unavailable"),
    }
    assert f"allocator {path}" in (out / "manifest.json").read_text()
