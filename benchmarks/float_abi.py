# SPDX-License-Identifier: MIT OR Apache-2.0
"""The time of the published page on soft, softfp and hard in a user-mode emulator. `benchmarks/float-abi`.

The page ran its program on an emulated Vexpress-A9 and gives one number: softfp and hard were nearly 1.6 times as fast as soft. This
program builds the workload float_calls for the three ABIs as the factor `float` does, without optimization as on the page. It runs each
under `qemu-arm -cpu cortex-a9` in turns and compares user times. The time is the emulator's: how long it takes for each instruction on this
machine. It is no time of a Cortex-A9, and noisy on a busy machine; the smallest time of each variant counts.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.shared import parser_of, run_alone

from swapstone.core.model import UserError
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.builder import base_recipe
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import build_workload
from swapstone.parts.build.factors.float_abi import FLOAT
from swapstone.parts.build.factors.optimization import OPTIMIZATION

LEVELS = tuple(level.name for level in FLOAT.levels)
OPERANDS = ("exact", "inexact")
LOOPS_OF_A_PASS = 100_000


def main(arguments: Sequence[str]) -> int:
    """Print the times; the exit status is 2 if something is missing here."""
    parser = parser_of("float-abi", __doc__)
    parser.add_argument("--optimization", default="O0", help="the compiler's -O switch (default O0, as on the page)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each variant (default 5)")
    parser.add_argument("--passes", type=int, default=40, help="passes of 100000 loops in a run (default 40)")
    parser.add_argument("--cpu", default="cortex-a9", help="the emulated processor (default cortex-a9)")
    asked = parser.parse_args(arguments)
    if asked.runs < 1 or asked.passes < 1:
        parser.error("--runs and --passes must be at least 1")
    emulator = shutil.which("qemu-arm")
    if emulator is None:
        print("unavailable: qemu-arm is not installed: sudo apt-get install qemu-user", file=sys.stderr)
        return 2
    try:
        programs = {level: _build(level, asked.optimization) for level in LEVELS}
        times = {operands: _times(emulator, asked, programs, operands) for operands in OPERANDS}
    except UserError as error:
        print(f"unavailable: {error.message}\n{error.hint}", file=sys.stderr)
        return 2
    print("\n".join(time_table(times, asked.passes)))
    return 0


def _build(level: str, optimization: str) -> Path:
    recipe = resolve_recipe(FLOAT.apply(level, OPTIMIZATION.apply(optimization, base_recipe("armhf"))))
    return build_workload(find_workload("float", "float_calls(exact)"), recipe).path


def _times(
    emulator: str, asked: argparse.Namespace, programs: Mapping[str, Path], operands: str
) -> dict[str, list[float]]:
    """Return the user times of each level in seconds, with their children's; the levels run in turns.

    Raises:
        UserError: a program failed.
    """
    times: dict[str, list[float]] = {level: [] for level in programs}
    for _ in range(asked.runs):
        for level, program in programs.items():
            command = [emulator, "-cpu", asked.cpu, str(program), str(asked.passes), operands]
            status, usage = run_alone(command)
            if status != 0:
                raise UserError(f"{' '.join(command)} ended with {status}.")
            times[level].append(usage.ru_utime)
    return times


def time_table(times: Mapping[str, Mapping[str, Sequence[float]]], passes: int) -> list[str]:
    """Return the user times as lines: the smallest of each level, and soft's over it.

    Args:
        times: in seconds, by operands and level.
        passes: of a run.
    """
    lines = [
        f"User time of the emulator for {passes * LOOPS_OF_A_PASS} loops, the smallest of {len(times['exact']['soft'])} runs",
        f"{'operands':10}" + "".join(f"{level:>10}" for level in LEVELS) + "  soft / softfp  soft / hard",
    ]
    for operands, found in times.items():
        best = {level: min(found[level]) for level in LEVELS}
        ratios = [best["soft"] / best[level] if best[level] else float("nan") for level in LEVELS[1:]]
        seconds = "".join(f"{best[level]:8.3f} s" for level in LEVELS)
        lines.append(f"{operands:10}{seconds}{ratios[0]:15.2f}{ratios[1]:13.2f}")
    return [*lines, "The page: nearly 1.6 for softfp and hard."]
