# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare glibc with musl on threaded work, first alone and then beside processes that never pause. Do the records agree?

Run it on an otherwise quiet machine; with the default budgets it takes less than five minutes. Work with several threads that shares its
processors measures something else, so a report must not judge it then. The table shows both verdicts of each row of times:

    agree      the same direction, or one record does not state a direction
    overlap    the two intervals overlap
    disjoint   they don't: at least one of them is wrong, or the rows differ in what they measure
    wrong      the records state opposite directions

The exit status is 1 if a row is wrong or disjoint, or a comparison failed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
PATTERNS = ("b_malloc_thread*", "b_pthread*")
DIRECTIONS = {
    **dict.fromkeys(("better", "better tail"), -1),
    **dict.fromkeys(("worse", "worse tail"), 1),
    **dict.fromkeys(("equivalent", "same median"), 0),
}
NO_VERDICT = "disturbed"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a report."""

    verdict: str
    effect: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.effect is None or self.low is None or self.high is None:
            return self.verdict
        return f"{self.verdict} {self.effect:.3f} ({self.low:.3f}-{self.high:.3f})"


WITHOUT_RESULT = 4
"""Exit status of a comparison in which every row is disturbed."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/quiet-and-loaded", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", default="110s", help="of each of the two comparisons (default 110s)")
    parser.add_argument(
        "--busy",
        type=int,
        default=os.cpu_count() or 1,
        help="processes beside the second (default: as many as processors)",
    )
    parser.add_argument("--only", action="append", help=f"workloads (default {' and '.join(PATTERNS)})")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder for the two records")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        only = asked.only or PATTERNS
        quiet = measured(folder / "quiet", asked.budget, only)
        with busy(asked.busy):
            loaded = measured(folder / "loaded", asked.budget, only)
    print(f"loaded: beside {asked.busy} processes that never pause\n")
    lines, found = compared(quiet, loaded)
    print("\n".join(lines))
    return 1 if found["wrong"] or found["disjoint"] else 0


def measured(record: Path, budget: str, only: Sequence[str]) -> dict[tuple[str, str], Row]:
    """Make a record and return its rows of times, by workload and metric."""
    program = str(TOP / "swapstone")
    patterns = [word for pattern in only for word in ("--only", pattern)]
    made = [
        program,
        "compare",
        "libc=glibc,musl",
        "--suite",
        "libc",
        *patterns,
        "--budget",
        budget,
        "--out",
        str(record),
    ]
    print(f"{record.name}: {budget}", file=sys.stderr)
    done = subprocess.run(made, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, WITHOUT_RESULT):
        raise SystemExit(f"swapstone compare ended with status {done.returncode}: {done.stderr[-500:]}")
    exported = subprocess.run(
        [program, "export", str(record), "--format", "json"], check=True, capture_output=True, text=True
    )
    return rows_of(json.loads(exported.stdout))


def rows_of(exported: Any) -> dict[tuple[str, str], Row]:  # noqa: ANN401 - JSON
    """Return the rows of times of a JSON export, by workload and metric."""
    return {
        (row["workload"], row["metric"]["name"]): Row(row["verdict"], row["effect"], row["low"], row["high"])
        for row in exported["analysis"]["comparisons"]
        if row["metric"]["quantity"] == "time"
    }


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run processes that never pause. Each ends with its parent, which the kernel signals (PR_SET_PDEATHSIG)."""
    spin = "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGKILL)\nwhile True: pass"
    started = [
        subprocess.Popen([sys.executable, "-I", "-c", spin], stdin=subprocess.DEVNULL, start_new_session=True)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)
            process.wait()


def relation(quiet: Row, loaded: Row) -> str:
    """Return how two records of the same row agree."""
    directions = [DIRECTIONS[row.verdict] for row in (quiet, loaded) if row.verdict in DIRECTIONS]
    if len(directions) == 2 and directions[0] * directions[1] < 0:
        return "wrong"
    if None in (quiet.low, quiet.high, loaded.low, loaded.high):
        return "agree"
    assert quiet.low is not None and quiet.high is not None and loaded.low is not None and loaded.high is not None
    return "overlap" if quiet.low <= loaded.high and loaded.low <= quiet.high else "disjoint"


def compared(quiet: dict[tuple[str, str], Row], loaded: dict[tuple[str, str], Row]) -> tuple[list[str], dict[str, int]]:
    """Return the lines of the table, and how many rows have each relation."""
    table = [("workload", "time", "quiet", "loaded", "")]
    found = dict.fromkeys(("agree", "overlap", "disjoint", "wrong"), 0)
    for place in sorted(quiet.keys() & loaded.keys()):
        how = relation(quiet[place], loaded[place])
        found[how] += 1
        table.append((*place, str(quiet[place]), str(loaded[place]), how))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    disturbed = [sum(row.verdict == NO_VERDICT for row in rows.values()) for rows in (quiet, loaded)]
    lines.append("")
    lines.append(
        f"{len(table) - 1} rows: {found['wrong']} wrong, {found['disjoint']} disjoint, {found['overlap']} overlap, "
        f"{found['agree']} without two intervals; disturbed: {disturbed[0]} quiet, {disturbed[1]} loaded"
    )
    return lines, found


if __name__ == "__main__":
    sys.exit(main())
