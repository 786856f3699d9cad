# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network stacks under the same servers and clients, beside the kernel's own.

The server runs on a stack in a network namespace that is made for each run and removed after it: over a TAP, or, for the kernel,
over a pair of veth. The client is always the kernel's: ab, wrk, or our own. Where there are two CPUs each has its own. Stacks,
settings and workloads come in a random order by block. CPU is the server's, per request (of bulk, per megabyte): a write to a TAP
runs the client's receive path inside it, so the user part stands apart. Latencies of ab and of wrk end at p99; our own client's go
to p99.99. All are of a closed loop: a slow answer delays the requests after it instead of adding to them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import netstack_lab, netstack_tables
from benchmarks.netstack_workloads import CHAIN, FULL, QUICK, SWEEP, TUNED, WORKLOADS, Size, measure

from swapstone.artifacts import build_package
from swapstone.model import UserError

STACKS = ("kernel", "lwip", "smoltcp")
_RUST = (1, 91)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A run to make."""

    block: int
    stack: str
    setting: str
    workload: str


def plan(
    stacks: Sequence[str], settings: Sequence[str], workloads: Sequence[str], blocks: int, seed: int
) -> list[Cell]:
    """Return every combination once per block, in a random order for each block.

    Args:
        stacks: names. The kernel's stack has no device driver of the crates, so it has the tuned setting only.
        settings: names of `netstack_workloads.SETTINGS`.
        workloads: names.
        blocks: number of blocks.
        seed: of the orders.
    """
    cells = []
    for block in range(blocks):
        here = [
            Cell(block, stack, setting, workload)
            for stack in stacks
            for setting in (settings if stack != "kernel" else (TUNED,))
            for workload in workloads
        ]
        random.Random(f"{seed} {block}").shuffle(here)  # noqa: S311 - an order, not a secret
        cells += here
    return cells


def main() -> int:
    """Build, run, print."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, _interrupted)
    reason = netstack_lab.why_not(asked.stacks)
    reason = reason or no_rust()
    if reason is not None:
        print(f"unavailable: {reason}", file=sys.stderr)
        return 3
    netstack_lab.sweep()
    size = QUICK if asked.quick else FULL
    blocks = asked.blocks or (1 if asked.quick else 20)
    cells = plan(asked.stacks, asked.settings, asked.workloads, blocks, asked.seed)
    counting = [] if asked.quick and not asked.counts else [(s, c) for s in asked.stacks for c in _chain(s)]
    if asked.no_counts:
        counting = []
    runs: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    whole = False
    try:
        binary = build(count=False)
        _run_all(cells, binary, size, runs)
        _count(counting, size, counts)
        whole = True
    except KeyboardInterrupt:
        print(
            f"Interrupted after {len(runs)} of {len(cells)} runs; the tables show the finished ones.", file=sys.stderr
        )
    _print(asked, runs, counts, size, whole=whole)
    return 0 if whole else 130


def no_rust() -> str | None:
    """Return why the stacks can't be built; None if they can."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        return "cargo, which builds the stacks, is not installed"
    version = subprocess.run(("rustc", "--version"), capture_output=True, text=True, check=False).stdout
    found = re.match(r"rustc ([0-9]+)\.([0-9]+)", version)
    if found is None or (int(found[1]), int(found[2])) < _RUST:
        return f"the stacks need Rust {_RUST[0]}.{_RUST[1]} or newer; this is {version.strip() or 'an unknown version'}"
    return None


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _chain(stack: str) -> Sequence[str]:
    return CHAIN if stack != "kernel" else ("plain", TUNED)


def _arguments() -> argparse.Namespace:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(
        prog="benchmarks/netstack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stacks", type=_some_of(STACKS), default=STACKS, help=f"of {','.join(STACKS)} (default all)")
    parser.add_argument("--workloads", type=_some_of(names), default=names, help=f"of {','.join(names)} (default all)")
    parser.add_argument("--blocks", type=int, help="number of blocks (default 20, or 1 with --quick)")
    parser.add_argument("--seed", type=int, default=1, help="of the order (default 1)")
    parser.add_argument("--quick", action="store_true", help="small runs, as a smoke test")
    parser.add_argument(
        "--plain", action="store_true", help="also measure without offload and with copies in both directions"
    )
    parser.add_argument("--chain", action="store_true", help="also measure each optimisation alone")
    parser.add_argument("--sweep", action="store_true", help="also measure with few TCP sockets")
    parser.add_argument("--counts", action="store_true", help="count copies and allocations even with --quick")
    parser.add_argument("--no-counts", action="store_true", help="don't count copies and allocations (saves a build)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs to this file")
    asked = parser.parse_args()
    more = [*(("plain",) if asked.plain else ()), *(CHAIN if asked.chain else ()), *(SWEEP if asked.sweep else ())]
    asked.settings = list(dict.fromkeys([TUNED, *more]))
    return asked


def _some_of(choices: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(choices)}")
        return found

    return parse


def build(*, count: bool) -> Path:
    """Build swapstone-net-bench, and return it.

    Args:
        count: whether it counts copies and allocations, which makes it slower.

    Raises:
        SystemExit: it does not build.
    """
    print("Building swapstone-net-bench" + (", counting" if count else ""), file=sys.stderr)
    try:
        return build_package("swapstone-net-bench", "count" if count else "").path
    except UserError as error:
        raise SystemExit(error.message) from error


def _run_all(cells: Sequence[Cell], binary: Path, size: Size, runs: list[dict[str, Any]]) -> None:
    """Make the runs and append their results, so that they are kept after an interruption."""
    workloads = {workload.name: workload for workload in WORKLOADS}
    begun = time.monotonic()
    for position, cell in enumerate(cells):
        left = (time.monotonic() - begun) / position * (len(cells) - position) if position else None
        _progress(position, len(cells), f"{cell.workload} on {cell.stack}, {cell.setting}", left)
        found = measure(workloads[cell.workload], cell.stack, cell.setting, binary, size)
        runs.append({**dataclasses.asdict(cell), "position": position, **found})


def _count(which: Sequence[tuple[str, str]], size: Size, counts: list[dict[str, Any]]) -> None:
    if not which:
        return
    binary = build(count=True)
    small = dataclasses.replace(size, requests=min(size.requests, 10_000))
    for position, (stack, setting) in enumerate(which):
        _progress(position, len(which), f"counting {stack}, {setting}", None)
        found = measure(WORKLOADS[0], stack, setting, binary, small)
        counts.append({"stack": stack, "setting": setting, **found})


def _progress(done: int, of: int, what: str, left_s: float | None) -> None:
    until = "" if left_s is None else f", {left_s / 60:.0f} min left" if left_s >= 90 else f", {left_s:.0f} s left"
    print(f"{done + 1} of {of}{until}: {what}", file=sys.stderr, flush=True)


def _print(
    asked: argparse.Namespace, runs: list[dict[str, Any]], counts: list[dict[str, Any]], size: Size, *, whole: bool
) -> None:
    if asked.json is not None:
        everything = {
            "machine": {"kernel": platform.release(), "architecture": platform.machine(), "cpus": os.cpu_count()},
            "seed": asked.seed,
            "whole": whole,
            "size": dataclasses.asdict(size),
            "runs": runs,
            "counts": counts,
        }
        asked.json.write_text(json.dumps(everything, indent=1) + "\n")
    print(netstack_tables.results(runs))
    if counts:
        print(f"\nCopies and allocations, of ab's requests\n\n{netstack_tables.counted(counts)}")


if __name__ == "__main__":
    raise SystemExit(main())
