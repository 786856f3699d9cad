# SPDX-License-Identifier: MIT OR Apache-2.0
"""Goodput over a simulated link by loss, delay and reordering: exact, and equal on every machine.

One stack sends to another over 1 Gbit/s with a round-trip time of 10 ms. Time is virtual and all random numbers come from a seed. So a
repeated run gives the same frames, whatever the load of the machine. The tables have the median over the seeds, the lowest and the
highest value. Loss and reordering affect both directions, data and acknowledgements.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.shared import number, parser_of, table

from swapstone.core.artifacts.distribution_packages import missing_programs
from swapstone.core.model import UserError
from swapstone.parts.net.artifacts.crates import build_package

PAIRS = (("lwip", "smoltcp"), ("smoltcp", "lwip"), ("smoltcp", "smoltcp"))
_RUN_S = 600.0


@dataclasses.dataclass(frozen=True)
class Condition:
    """Impairments of the link.

    Attributes:
        series: the table.
        label: the column.
        options: of swapstone-net-virtual.
    """

    series: str
    label: str
    options: tuple[str, ...] = ()


CONDITIONS = (
    Condition("loss", "0 %"),
    Condition("loss", "0.1 %", ("--loss-ppm", "1000")),
    Condition("loss", "1 %", ("--loss-ppm", "10000")),
    Condition("loss", "3 %", ("--loss-ppm", "30000")),
    Condition("delay", "1 ms", ("--delay-us", "500")),
    Condition("delay", "10 ms"),
    Condition("delay", "50 ms", ("--delay-us", "25000")),
    Condition("reordering", "0 %"),
    Condition("reordering", "1 %", ("--reorder-ppm", "10000")),
    Condition("reordering", "5 %", ("--reorder-ppm", "50000")),
)
TITLES = {
    "loss": "loss, 10 ms of round trip",
    "delay": "round trip, no loss",
    "reordering": "frames delayed by 1 ms, 10 ms of round trip, no loss",
}


def build() -> Path:
    """Build swapstone-net-virtual, and return it.

    Raises:
        SystemExit: it does not build.
    """
    if missing := missing_programs(("cargo", "rustc")):
        raise SystemExit(f"unavailable: {missing}")
    print("Building swapstone-net-virtual", file=sys.stderr)
    try:
        return build_package("swapstone-net-virtual").path
    except UserError as error:
        raise SystemExit(error.message) from error


def run(binary: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the output of a run of swapstone-net-virtual with `error`: None, or why it or its connection failed."""
    done = subprocess.run(
        (str(binary), *arguments), capture_output=True, text=True, check=False, timeout=_RUN_S, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip() or f"it ended with {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "error": found["failed"]}


def goodput(binary: Path, seeds: int, size: int) -> list[dict[str, Any]]:
    """Make a run of each pair, condition and seed.

    Args:
        binary: swapstone-net-virtual.
        seeds: number of seeds, from 1.
        size: bytes to send.

    Returns:
        An entry for each run, with `sender`, `receiver`, `series`, `label` and `seed`, its output and `error`.
    """

    def one(what: tuple[tuple[str, str], Condition, int]) -> dict[str, Any]:
        (sender, receiver), condition, seed = what
        names = {"sender": sender, "receiver": receiver, "series": condition.series, "label": condition.label}
        arguments = ("--stack", sender, "--peer", receiver, "--seed", str(seed), "--bytes", str(size))
        return {**names, "seed": seed, **run(binary, (*arguments, *condition.options, "out"))}

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, itertools.product(PAIRS, CONDITIONS, range(1, seeds + 1))))


def cell(runs: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return what stands for runs of one condition: goodput in Mbit/s, and segments sent again.

    The median over the seeds, with the lowest and highest where they differ; and how many runs failed or did not end.
    """
    whole = [one for one in runs if one["error"] is None and one["whole"]]
    if not whole:
        return "none ended", "-"
    bad = len(runs) - len(whole)
    words = []
    for values in ([one["goodput_mbit"] for one in whole], [one["stack"]["retransmitted"] for one in whole]):
        middle, low, high = statistics.median(values), min(values), max(values)
        words.append(number(middle) if low == high else f"{number(middle)} ({number(low)} to {number(high)})")
    return (words[0] + (f", {bad} did not end" if bad else ""), words[1])


def tables(runs: Sequence[dict[str, Any]]) -> str:
    """Return the tables of goodput and of retransmissions, a pair for each series."""
    parts = []
    for series in dict.fromkeys(one["series"] for one in runs):
        of_series = [one for one in runs if one["series"] == series]
        labels = list(dict.fromkeys(one["label"] for one in of_series))
        rates, again = [], []
        for pair in dict.fromkeys((one["sender"], one["receiver"]) for one in of_series):
            mine = [one for one in of_series if (one["sender"], one["receiver"]) == pair]
            cells = [cell([one for one in mine if one["label"] == label]) for label in labels]
            rates.append([" to ".join(pair), *(first for first, _ in cells)])
            again.append([" to ".join(pair), *(second for _, second in cells)])
        title = TITLES[series]
        parts += [f"Goodput, Mbit/s, against {title}", table(["", *labels], rates)]
        parts += [f"Retransmitted segments, against {title}", table(["", *labels], again)]
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Build, run, print."""
    parser = parser_of("netstack-link", __doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds (default 20)")
    parser.add_argument("--bytes", type=int, default=10_000_000, help="size of each transfer (default 10000000)")
    asked = parser.parse_args(arguments)
    if asked.seeds < 1 or asked.bytes < 1:
        parser.error("--seeds and --bytes must be at least 1")
    runs = goodput(build(), asked.seeds, asked.bytes)
    print(f"{asked.bytes} bytes at 1 Gbit/s, {asked.seeds} seeds: the median (lowest to highest)\n")
    print(tables(runs))
    failed = [one for one in runs if one["error"] is not None]
    for one in failed:
        place = f"{one['sender']} to {one['receiver']}, {one['label']}, seed {one['seed']}"
        print(f"{place}: {one['error']}", file=sys.stderr)
    return 1 if failed else 0
