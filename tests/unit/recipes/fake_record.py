# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record of the fake target, made with a copy of the source."""

from __future__ import annotations

from pathlib import Path

from tests.unit.recipes.extending import run_python

SWAPSTONE = "import runpy; runpy.run_module('swapstone', run_name='__main__')"
SPEC = """
[[behaviour]]
wall_ns = 1_000_000
[[behaviour]]
variant = "libc=musl*"
wall_ns = 1_500_000
"""


def make_record(source: Path, folder: Path) -> Path:
    """Compare two C libraries on the fake target; musl takes 1.5 times as long. Return the record's folder."""
    (folder / "spec.toml").write_text(SPEC)
    run_python(
        *(source, SWAPSTONE, "compare", "libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "8"),
        *("--target", f"fake:{folder / 'spec.toml'}", "--out", str(folder / "r")),
    )
    return folder / "r"
