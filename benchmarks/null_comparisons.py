# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons of variants that differ in an unused environment variable alone: every difference that they state is false."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.verdict_hogs import load
from benchmarks.verdicts import TOP, build

KINDS: dict[str, tuple[str, ...]] = {
    "strings": ("--only", "b_string_strlen", "--only", "b_string_memset", "--only", "b_string_strchr"),
    "allocation": ("--only", "b_malloc_tiny1", "--only", "b_malloc_sparse"),
    "threads": ("--only", "b_pthread_createjoin_serial*"),
    "processor": ("--", "{program}", "loop:3000"),
    "slow-mode": ("--", "{program}", "loop:2000", "mode:50:20000"),
    "file": ("--", "sort", "{data}"),
}
"""What each kind of comparison runs, as arguments of ``swapstone compare``."""

VARIED = ("--vary", "env:SWAPSTONE_UNUSED=1,2")
DATA_LINES = 20_000
REFUSED = 2
FINISHED = (0, 4)
"""Exit statuses of a comparison that has a report; 4 where every row is disturbed or invalid."""


def measure(folder: Path, reports: int, conditions: Sequence[str], budget_s: float) -> Iterator[Path]:
    """Make null comparisons and yield their records, condition by condition.

    Args:
        folder: for the records; those that it holds already are not made again. A refused comparison gives none.
        reports: number for each condition; the kinds take turns.
        conditions: names of `verdict_hogs.CONDITIONS`.
        budget_s: of each comparison, in seconds.

    Raises:
        RuntimeError: a comparison failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="swapstone-nulls-", dir=folder) as name:
        scratch = Path(name)
        names = {"program": str(build(scratch)), "data": str(_data(scratch))}
        for condition in conditions:
            with load(condition, scratch / "load"):
                for number, (kind, words) in zip(range(reports), itertools.cycle(KINDS.items()), strict=False):
                    record = folder / f"{condition}-{number:02}-{kind}"
                    if not record.exists():
                        start = time.monotonic()
                        if not _compare([word.format(**names) for word in words], record, budget_s):
                            print(f"{record.name}: refused, the budget is too small here", file=sys.stderr, flush=True)
                            shutil.rmtree(record, ignore_errors=True)
                            continue
                        took = time.monotonic() - start
                        print(f"{record.name}: {took:.0f} s, {number + 1} of {reports}", file=sys.stderr, flush=True)
                    yield record


def _data(scratch: Path) -> Path:
    """Return a file of lines that are not in order."""
    path = scratch / "lines.txt"
    path.write_text("".join(f"{number * 7919 % DATA_LINES}\n" for number in range(DATA_LINES)))
    return path


def _compare(words: Sequence[str], record: Path, budget_s: float) -> bool:
    """Make a record; return False if Swapstone refuses the budget, which on a loaded machine it may."""
    # The kind's own words may hold `--`, so that they come last.
    options = ["--budget", f"{budget_s:g}s", "--out", str(record)]
    command = [str(TOP / "swapstone"), "compare", *VARIED, *options, *words]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == REFUSED and "The budget of" in done.stderr:
        return False
    if done.returncode not in FINISHED:
        raise RuntimeError(f"{record.name}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return True
