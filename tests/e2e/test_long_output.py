# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs on the exact clock whose output is too long to be kept whole run again to the same bytes, and are explained."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import swapstone
from tests.e2e.cli import swapstone as command_line
from tests.programs import needs
from tests.uncompared_snapshots import leave_out_cold_starts

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sum;
void work(long turns) { for (long i = 0; i < turns; i++) sum += i; }
int main(int count, char **words) {
    work(count * atol(words[1]));
    static char line[4800];
    memset(line, 'x', sizeof line - 1);
    for (int i = 0; i < 100; i++)
        puts(line);
    return 0;
}
"""


@pytest.mark.slow
@needs("cc", "qemu-system-x86_64")
def test_a_long_output_runs_again_and_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where an explanation can leave out the call paths, which test_explain_paths.py has."""
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-g", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    command_line(tmp_path, "compare", "./p 100000", "./p 900000", "--target", "vm", "--blocks", "2", "--out", "record")
    verified = command_line(tmp_path, "verify", "record", "--recompute", "1").stdout
    assert verified.startswith("Whole and unaltered") and "1 of 1 trials gave the same bytes" in verified
    leave_out_cold_starts(monkeypatch.setattr)
    explained = swapstone.load(tmp_path / "record").explain(metric="wall", paths=False).report()
    assert "work" in explained.partition("\n\n")[0]
