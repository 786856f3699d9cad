# SPDX-License-Identifier: MIT OR Apache-2.0
"""Overhead of Swapstone in comparison with hyperfine. `benchmarks/overhead`.

Tables, each of ratios within one run, because machines differ and are noisy:

    a trial     from the end of one run of a program to the first instruction of the next, for the target `host` and for hyperfine -N,
                in turns; and the two parts of that time before and after the caller of the target has the answer. Once for a
                program without a C library, and once for one whose C library first prepares itself: the same time for both sides
    comparison  the same time in `swapstone compare`, in turns with the others; it also judges each run and syncs it to the record
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.shared import TOP, parser_of

from swapstone.core.targets import open_target
from swapstone.core.wire import ProcessOutcome, TrialRequest

TURNS = 5
_TARGET, _COMPARE, _HYPERFINE = (
    f"{way}: end of one to first instruction of the next"
    for way in ("target host", "swapstone compare", "hyperfine -N")
)
_FREESTANDING = (
    "-O2",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-pie",
    "-no-pie",
    "-static",
    "-nostdlib",
)


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = parser_of("overhead", __doc__)
    parser.add_argument("--runs", type=int, default=300, help="of each program (default 300)")
    runs = parser.parse_args(arguments).runs
    print(
        f"a trial of a static program that ends at once, {runs} runs in {TURNS} turns: "
        "median (10th to 90th percentile), mean"
    )
    with tempfile.TemporaryDirectory() as folder:
        bare, program = Path(folder, "bare"), Path(folder, "stamp")
        sources = [TOP / "benchmarks" / "stamp_bare.c", TOP / "native" / "agent" / "text.c"]
        sources += sorted((TOP / "native" / "port").glob("[lm]*.c"))
        subprocess.run(["cc", *_FREESTANDING, "-o", bare, *sources, "-lgcc"], check=True)
        subprocess.run(["cc", "-O2", "-static", "-o", program, TOP / "benchmarks" / "stamp.c"], check=True)
        for title, each in (("without a C library", bare), ("with a C library", program)):
            print(title)
            _one_program(each, runs)
    return 0


def _one_program(program: Path, runs: int) -> None:
    found: dict[str, list[float]] = {}
    ways = (_by_target, _by_compare, *([_by_hyperfine] if shutil.which("hyperfine") else []))
    for turn, way in itertools.product(range(TURNS), ways):
        stamps = _Stamps(program.with_name(f"{program.name}-{turn}-{way.__name__}"))
        for name, values in way(program, stamps, runs // TURNS).items():
            found.setdefault(name, []).extend(values)
    for name, values in found.items():
        tenths, middle = statistics.quantiles(values, n=10), statistics.median(values)
        print(
            f"  {name:62} {middle / 1000:8.0f} us  ({tenths[0] / 1000:.0f} to {tenths[-1] / 1000:.0f}), "
            f"{statistics.fmean(values) / 1000:.0f}"
        )
    ours, compared = (statistics.median(found[name]) for name in (_TARGET, _COMPARE))
    print(f"  ratio of the medians, compare / target: {compared / ours:.2f}")
    if _HYPERFINE in found:
        print(f"  ratio of the medians, target / hyperfine: {ours / statistics.median(found[_HYPERFINE]):.2f}")
    else:
        print("  hyperfine is not installed: nothing beside it")


def _by_compare(program: Path, stamps: _Stamps, runs: int) -> dict[str, list[float]]:
    """Return the times between the trials of a comparison of two equal commands. Its record is on the disk of the current folder."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as records:
        names = ("-n", "one", "-n", "two", "--blocks", str(runs // 2), "--prime", "0", "--out", f"{records}/record")
        command = ["./swapstone", "compare", *names, f"{program} {stamps.path}", f"{program} {stamps.path} again"]
        subprocess.run(command, check=True, capture_output=True, cwd=TOP)
    return {_COMPARE: _gaps(stamps.read())}


def _by_target(program: Path, stamps: _Stamps, runs: int) -> dict[str, list[float]]:
    """Return the times between trials, from the end of each to its answer, and from each request to the first instruction."""
    asked, answered = [], []
    with open_target("host") as target:
        path = target.put(program)
        for number in range(runs):
            request = TrialRequest(
                id=str(number),
                arguments=(path, str(stamps.path)),
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
            answered.append(time.monotonic_ns())
            assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0), answer
    times = stamps.read()
    return {
        _TARGET: _gaps(times),
        "  of that, end to answer": [at - end for at, (_, end) in zip(answered, times, strict=True)],
        "  of that, request to first instruction": [begin - at for at, (begin, _) in zip(asked, times, strict=True)],
    }


def _by_hyperfine(program: Path, stamps: _Stamps, runs: int) -> dict[str, list[float]]:
    command = ["hyperfine", "-N", "--warmup", "0", "--runs", str(runs), f"{program} {stamps.path}"]
    subprocess.run(command, check=True, capture_output=True)
    return {_HYPERFINE: _gaps(stamps.read())}


class _Stamps:
    """A FIFO, into which a program writes the times of its start and end: 64 KiB hold those of 2000 runs."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> list[tuple[int, int]]:
        """Return the times of all runs in nanoseconds, and close the FIFO."""
        with os.fdopen(self._fd, "rb", closefd=True) as opened:
            lines = opened.read().decode().splitlines()
        return [(int(begin), int(end)) for begin, end in (line.split() for line in lines)]


def _gaps(times: list[tuple[int, int]]) -> list[float]:
    return [begin - end for (_, end), (begin, _) in itertools.pairwise(times)]
