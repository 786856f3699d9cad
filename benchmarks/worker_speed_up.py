# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much faster several Dask workers make the runs of an experiment than one. `benchmarks/worker-speed-up`.

The experiment is on the virtual clock: two C libraries, one workload, a fixed number of replicates. For each number of workers a Dask
scheduler and that many workers with one thread are started on this machine. Each measurement has an empty store, and uses no run of the
cache. Machines are booted before: the first experiment, which is not measured, leaves snapshots in the cache that all of them share.

The time of an experiment is that from the start of its first run to the end of its last one, without the programs' builds and the
calibration. Numbers of workers take turns, in the reverse order each second time. The records must be equal apart from times. Needs as
many idle processors as workers, and one for this process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import msgspec
from tests.e2e.cli import swapstone
from tests.e2e.test_many_machines import cluster, made_runs, raw_outputs

import swapstone as package


def measure(room: Path, name: str, workers: int, blocks: int, only: str) -> float:
    """Run the experiment by some workers into the record `name`; return its time in seconds."""
    (room / f"cluster-{name}").mkdir()
    with cluster(room / f"cluster-{name}", workers) as dask:
        swapstone(
            room,
            *("compare", "libc=glibc,musl", "--only", only, "--target", "vm", "--blocks", str(blocks), "--seed", "1"),
            *("--executor", f"dask:{dask.address}", "--store", f"{room}/store-{name}", "--no-cache", "--out", name),
        )
    runs = package.load(room / name).view.runs
    ends = [run.started_unix_ns + run.elapsed_ns for run in runs]
    return (max(ends) - min(run.started_unix_ns for run in runs)) / 1e9


def content(record: Path) -> bytes:
    """Return what must be equal in all records: runs without times, and raw outputs."""
    return msgspec.json.encode((made_runs(record), sorted(raw_outputs(record))))


def main() -> int:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/worker-speed-up", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2", help="numbers of workers, the first is the base (default 1,2)")
    parser.add_argument("--blocks", type=int, default=12, help="replicates, of two runs each (default 12)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each number of workers (default 3)")
    parser.add_argument("--only", default="b_malloc_tiny1", help="the workload (default b_malloc_tiny1)")
    chosen = parser.parse_args()
    counts = [int(text) for text in chosen.workers.split(",")]
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.2f} before, {chosen.blocks} replicates of 2 runs", flush=True)
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        measure(room, "warm-up", max(counts), 1, chosen.only)
        first = b""
        for turn in range(chosen.repeats):
            for count in counts if turn % 2 == 0 else counts[::-1]:
                name = f"{turn}-{count}"
                seconds[count].append(measure(room, name, count, chosen.blocks, chosen.only))
                found = content(room / name)
                first = first or found
                if found != first:
                    print(f"The record of {count} workers differs from that of {counts[0]}.")
                    return 1
                print(f"{count:>4} workers {seconds[count][-1]:8.2f} s", flush=True)
                time.sleep(1)
    base = statistics.median(seconds[counts[0]])
    for count in counts[1:]:
        ratios = sorted(one / other for one, other in zip(seconds[counts[0]], seconds[count], strict=True))
        print(
            f"{count} workers are {base / statistics.median(seconds[count]):.2f} times as fast as {counts[0]}"
            f" (medians of {chosen.repeats}; pairs {ratios[0]:.2f} to {ratios[-1]:.2f}); the records are equal"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
