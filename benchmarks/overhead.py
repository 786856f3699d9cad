# SPDX-License-Identifier: MIT OR Apache-2.0
"""Overhead of Swapstone in comparison with hyperfine and the Python interpreter. `benchmarks/overhead`.

Three tables, each of ratios within one run, because machines differ and are noisy:

    a trial   from the end of one run of a program to the first instruction of the next, for Swapstone's agent and for hyperfine -N;
              and from the request to that first instruction, for Swapstone
    start-up  `swapstone --help` beside `python -c pass`
    analysis  a million values in three shapes, as benchmarks/analysis prints it alone
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import analysis

from swapstone.targets import open_target
from swapstone.wire import ProcessOutcome, TrialRequest

TOP = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="of each program (default 300)")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        _trials(Path(folder), runs)
    _start_up()
    print("analysis of a million values")
    analysis.main()
    return 0


def _trials(folder: Path, runs: int) -> None:
    program = folder / "stamp"
    subprocess.run(["cc", "-O2", "-static", "-o", program, TOP / "benchmarks" / "stamp.c"], check=True)
    ours, requests = _by_swapstone(program, folder / "ours", runs)
    print(f"a trial of a static program that ends at once, {runs} runs, median (10th to 90th percentile)")
    _line("swapstone: request to first instruction", requests)
    _line("swapstone: end of one to first instruction of the next", ours)
    if shutil.which("hyperfine") is None:
        print("  hyperfine is not installed: nothing beside it")
        return
    theirs = _by_hyperfine(program, folder / "theirs", runs)
    _line("hyperfine -N: end of one to first instruction of the next", theirs)
    print(f"  ratio of the medians, swapstone / hyperfine: {statistics.median(ours) / statistics.median(theirs):.2f}")


def _by_swapstone(program: Path, stamps: Path, runs: int) -> tuple[list[float], list[float]]:
    asked = []
    with open_target("host") as target:
        path = target.put(program)
        for number in range(runs):
            request = TrialRequest(
                id=str(number),
                arguments=(path, str(stamps)),
                environment=(),
                cwd=target.scratch(),
                cpus=(max(target.describe().cpus),),
                nice=0,
                timeout_ms=10_000,
                output_bytes=4096,
                disk_bytes=1 << 20,
            )
            asked.append(time.monotonic_ns())
            answer = target.run(request)
            assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0), answer
    times = _read(stamps, runs)
    return _gaps(times), [begin - ask for ask, (begin, _) in zip(asked, times, strict=True)]


def _by_hyperfine(program: Path, stamps: Path, runs: int) -> list[float]:
    command = ["hyperfine", "-N", "--warmup", "0", "--runs", str(runs), f"{program} {stamps}"]
    subprocess.run(command, check=True, capture_output=True)
    return _gaps(_read(stamps, runs))


def _read(stamps: Path, runs: int) -> list[tuple[int, int]]:
    times = [(int(begin), int(end)) for begin, end in (line.split() for line in stamps.read_text().splitlines())]
    assert len(times) == runs, f"{len(times)} stamps of {runs} runs"
    return times


def _gaps(times: list[tuple[int, int]]) -> list[float]:
    return [begin - end for (_, end), (begin, _) in itertools.pairwise(times)]


def _line(name: str, values: list[float]) -> None:
    tenths = statistics.quantiles(values, n=10)
    middle = statistics.median(values)
    print(f"  {name:58} {middle / 1000:8.0f} us  ({tenths[0] / 1000:.0f} to {tenths[-1] / 1000:.0f})")


def _start_up() -> None:
    def timed(*arguments: str) -> Callable[[], float]:
        def once() -> float:
            start = time.perf_counter()
            subprocess.run(arguments, check=True, capture_output=True, cwd=TOP)
            return time.perf_counter() - start

        return once

    bare, ours = timed(sys.executable, "-c", "pass"), timed("./swapstone", "--help")
    pairs = [(bare(), ours()) for _ in range(20)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    print("start-up, 20 interleaved runs, median")
    print(f"  python -c pass       {first * 1000:6.0f} ms")
    print(f"  ./swapstone --help   {second * 1000:6.0f} ms, {second / first:.1f} times as long; goal: 300 ms")


if __name__ == "__main__":
    sys.exit(main())
