# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long the trials of records would take in virtual machines on other numbers of processors. Nothing is run or measured.

The durations are those in the records, of trials that ran at most one per processor. Two rules are compared: a block begins when the one
before has ended, or trials of later blocks run ahead, as `swapstone.run.trials_ahead` lets them. The parts of a study run one after
another. It is an estimate: starting machines, snapshots and decisions take no time in it, and no discarded trial is counted.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from swapstone.record import load
from swapstone.run.trials_ahead import AHEAD

PROCESSORS = (1, 2, 4, 8, 16, 32, 100)

Blocks = Sequence[Sequence[float]]
"""Durations of the trials of each block, in seconds, in the order of the plan."""


def blocks_of(path: Path) -> list[list[float]]:
    """Return the durations of a record's trials, by block."""
    found: dict[int, list[float]] = {}
    for run in load(path).runs:
        if run.elapsed_ns:
            found.setdefault(run.trial.block, []).append(run.elapsed_ns / 1e9)
    return [found[number] for number in sorted(found)]


def _run(durations: Iterable[float], free: list[float], begin: float) -> float:
    """Start trials in order on the processors that are free first; return when the last one ends.

    Args:
        durations: of the trials.
        free: a heap of when each processor is free; changed.
        begin: no trial starts before.
    """
    end = begin
    for duration in durations:
        start = max(begin, heapq.heappop(free))
        heapq.heappush(free, start + duration)
        end = max(end, start + duration)
    return end


def block_after_block(blocks: Blocks, processors: int) -> float:
    """Return how long trials take if each block waits for the end of the one before."""
    end = 0.0
    for block in blocks:
        end = _run(block, [end] * processors, end)
    return end


def with_trials_ahead(blocks: Blocks, processors: int) -> float:
    """Return how long trials take if `AHEAD` trials for each processor may begin before their block."""
    order = [(number, duration) for number, block in enumerate(blocks) for duration in block]
    free, ends = [0.0] * processors, [0.0] * len(blocks)
    released, last, end = 0, [0.0] * (len(blocks) + 1), 0.0
    for number in range(len(blocks)):
        # When block `number` is due, it and so many trials after it may begin.
        end_of_window = sum(map(len, blocks[: number + 1])) + AHEAD * processors
        for place, duration in order[released:end_of_window]:
            ends[place] = max(ends[place], _run([duration], free, last[number]))
        released = max(released, min(len(order), end_of_window))
        end = max(end, ends[number])
        last[number + 1] = end
    return end


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table: processors, and the time by either rule."""
    parser = argparse.ArgumentParser(prog="benchmarks/schedule-simulated", description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="the parts of a study, or one record")
    parser.add_argument("--processors", type=int, nargs="+", default=list(PROCESSORS), metavar="N")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="repeat the blocks of each record N times")
    given = parser.parse_args(arguments)
    parts = [blocks_of(path) * given.times for path in given.records]
    work = math.fsum(duration for blocks in parts for block in blocks for duration in block)
    print(
        f"{sum(map(len, parts))} blocks, {sum(len(block) for blocks in parts for block in blocks)} trials, {work:.0f} s of work"
    )
    print(f"{'processors':>10} {'block after block':>18} {'trials ahead':>13} {'all work / N':>13}")
    for processors in given.processors:
        times = [sum(rule(blocks, processors) for blocks in parts) for rule in (block_after_block, with_trials_ahead)]
        print(f"{processors:10} {times[0]:16.0f} s {times[1]:11.0f} s {work / processors:11.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
