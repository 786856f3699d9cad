# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a copy to a page takes, by where its source lies in its own page.

The kernel copies what a process writes to a TAP, or to a socket, to the beginning of a page. Some processors copy several times more
slowly if the lower 12 bits of the source's address are a little below those of the destination's: a load of the copy then seems to
read what the copy has just stored (4K aliasing). So the time of a network stack's bulk data can depend on where its buffers lie.

The copy is that of Linux: on x86-64 `rep movsb`, elsewhere memcpy. Every offset is measured in each pass, one after another. The
benchmark prints medians, with the lowest and the highest pass.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.netstack_tables import table

SOURCE = Path(__file__).with_suffix(".c")
PAGE = 4096
OFFSETS = (0, 16, 64, 512, 1024, 2048, 3072, 3584, 3840, 3968, 4032, 4060, 4064, 4068, 4072, 4080, 4088, 4095)
NEAR = 64
"""The offset to which the others are compared: that of the frames of smoltcp (crates/swapstone-net-smoltcp/src/frame.rs)."""
KINDS = ("cached", "memory")
_TIMEOUT_S = 600.0

Times = Mapping[tuple[int, str], Sequence[float]]


def read(lines: Iterable[str]) -> Times:
    """Return the times of a copy of 10^6 bytes in microseconds, by offset and kind.

    Raises:
        ValueError: a line is not of the program's form.
    """
    found: dict[tuple[int, str], list[float]] = {}
    for line in lines:
        offset, kind, ns = line.split()
        if kind not in KINDS:
            raise ValueError(f"a line of another form: {line!r}")
        found.setdefault((int(offset), kind), []).append(float(ns) / 1000)
    return found


def ratio(times: Times, offset: int, kind: str) -> float:
    """Return how many times as long as at `NEAR` a copy takes: the ratio of medians."""
    return statistics.median(times[offset, kind]) / statistics.median(times[NEAR, kind])


def offset_text(offset: int) -> str:
    """Return where the source lies, relative to the destination."""
    return f"{offset} bytes behind" if offset <= PAGE // 2 else f"{PAGE - offset} bytes before"


def report(times: Times) -> str:
    """Return the answer and the table."""
    offsets = sorted({offset for offset, _ in times})
    worst = max(offsets, key=lambda offset: ratio(times, offset, "cached"))
    answer = (
        f"A copy to a page takes {ratio(times, worst, 'cached'):.1f} times as long in the cache, and "
        f"{ratio(times, worst, 'memory'):.1f} times in memory, if its source lies {offset_text(worst)} the destination "
        f"in the lower 12 bits of the address, instead of {offset_text(NEAR)} it."
    )
    rows = [
        [offset_text(offset), *(cell for kind in KINDS for cell in _cells(times, offset, kind))] for offset in offsets
    ]
    head = ("source", "cached, us/MB", "ratio", "memory, us/MB", "ratio")
    return f"{answer}\n\n{table(head, rows)}"


def _cells(times: Times, offset: int, kind: str) -> tuple[str, str]:
    passes = times[offset, kind]
    spread = f"{statistics.median(passes):.0f} ({min(passes):.0f} to {max(passes):.0f})"
    return spread, f"{ratio(times, offset, kind):.2f}"


def main() -> int:
    """Print the answer and the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/copy-offsets", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=9, help="measurements of each offset (default 9)")
    parser.add_argument("--json", action="store_true", help="print the times in microseconds as JSON")
    asked = parser.parse_args()
    if not 1 <= asked.passes <= 1000:
        parser.error("--passes is 1 to 1000")
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "copy_offsets"
        subprocess.run(["cc", "-std=gnu11", "-O2", str(SOURCE), "-o", str(program)], check=True)
        words = [str(program), str(asked.passes), *map(str, OFFSETS)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    times = read(done.stdout.splitlines())
    if asked.json:
        print(json.dumps([{"offset": at, "kind": kind, "us": list(us)} for (at, kind), us in times.items()]))
        return 0
    print(report(times))
    print(f"\n{asked.passes} passes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
