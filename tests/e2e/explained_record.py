# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record of strlen on the exact clock with its explanation, made once for the tests of several modules."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cli import swapstone
from tests.shared import Shared

ROW = ("wall", "--only", "*")
RECORD, PRINTED = "r", "explained.json"


def explained_strlen(shared: Shared) -> Path:
    """Return a folder with the record `RECORD`, and what `explain --json` printed about it in `PRINTED`."""

    def fill(folder: Path) -> None:
        asked = ("libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "2", "--target", "vm", "--seed", "4")
        swapstone(folder, "compare", *asked, "--out", str(folder / RECORD))
        printed = swapstone(folder, "explain", str(folder / RECORD), *ROW, "--json").stdout
        (folder / PRINTED).write_text(printed)

    return shared.folder("explained-strlen", fill)
