# SPDX-License-Identifier: MIT OR Apache-2.0
"""The published page on soft, softfp and hard: its time in a user-mode emulator, and its code side by side. `benchmarks/float-abi`.

The page ran its program on an emulated Vexpress-A9 and gives one number: softfp and hard were nearly 1.6 times as fast as soft. This
program builds the workload float_calls for the three ABIs as the factor `float` does, without optimization as on the page. It runs each
under `qemu-arm -cpu cortex-a9` in turns and compares user times. The time is the emulator's: how long it takes for each instruction on this
machine. It is no time of a Cortex-A9, and noisy on a busy machine; the smallest time of each variant counts. Then it prints the functions
of each variant from objdump, and how many instructions of each kind they have.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from swapstone.artifacts import resolve_recipe
from swapstone.artifacts.float_compilers import float_prefix
from swapstone.artifacts.workload_build import build_whole, build_workload
from swapstone.factors import FLOAT, Recipe
from swapstone.factors.arm_code import kind_of
from swapstone.factors.optimization import OPTIMIZATION
from swapstone.model import Source, UserError
from swapstone.model.temporary_folder import TemporaryFolder
from swapstone.report.arm_explanation import GROUPS
from swapstone.run.recipes import base_recipe

LEVELS = tuple(level.name for level in FLOAT.levels)
FUNCTIONS = ("sum", "difference", "product", "quotient")
OPERANDS = ("exact", "inexact")
LOOPS_OF_A_PASS = 100_000

_WIDTH = 38
_INSTRUCTION = re.compile(r"\s*[0-9a-f]+:\t([0-9a-f]{8}) +\t(.*)")
_FUNCTION = re.compile(r"[0-9a-f]+ <(\w+)>:")


@dataclasses.dataclass(frozen=True)
class Line:
    """An instruction: its word, and objdump's text."""

    word: int
    text: str


def main() -> int:
    """Print both; the exit status is 2 if something is missing here."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/float-abi", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--optimization", default="O0", help="the compiler's -O switch (default O0, as on the page)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each variant (default 5)")
    parser.add_argument("--passes", type=int, default=40, help="passes of 100000 loops in a run (default 40)")
    parser.add_argument("--cpu", default="cortex-a9", help="the emulated processor (default cortex-a9)")
    asked = parser.parse_args()
    if asked.runs < 1 or asked.passes < 1:
        parser.error("--runs and --passes must be at least 1")
    emulator = shutil.which("qemu-arm")
    if emulator is None:
        print("unavailable: qemu-arm is not installed: sudo apt-get install qemu-user", file=sys.stderr)
        return 2
    try:
        recipes = {level: _recipe(level, asked.optimization) for level in LEVELS}
        programs = {
            level: build_workload(Source(file="float_calls.c"), recipe).path for level, recipe in recipes.items()
        }
        times = {operands: _times(emulator, asked, programs, operands) for operands in OPERANDS}
        with TemporaryFolder("float-abi") as folder:
            code = {
                level: functions_of(_disassembly(recipes[level], programs[level], Path(folder) / level), level)
                for level in LEVELS
            }
    except UserError as error:
        print(f"unavailable: {error.message}\n{error.hint}", file=sys.stderr)
        return 2
    print("\n".join([*time_table(times, asked.passes), "", *side_by_side(code), "", *kind_table(code)]))
    return 0


def _recipe(level: str, optimization: str) -> Recipe:
    return resolve_recipe(FLOAT.apply(level, OPTIMIZATION.apply(optimization, base_recipe("armhf"))))


def _times(
    emulator: str, asked: argparse.Namespace, programs: Mapping[str, Path], operands: str
) -> dict[str, list[float]]:
    """Return the user times of each level in seconds; the levels run in turns."""
    times: dict[str, list[float]] = {level: [] for level in programs}
    for _ in range(asked.runs):
        for level, program in programs.items():
            command = [emulator, "-cpu", asked.cpu, str(program), str(asked.passes), operands]
            times[level].append(_user_time_s(command))
    return times


def _user_time_s(command: Sequence[str]) -> float:
    """Run a command and return its user time, with its children's.

    Raises:
        UserError: it failed.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise UserError(f"{' '.join(command)} ended with {process.returncode}.")
    return usage.ru_utime


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


def _disassembly(recipe: Recipe, program: Path, folder: Path) -> str:
    """Return objdump's text of the program with its symbols.

    Raises:
        UserError: it can't be built again with the same code, or objdump fails.
    """
    whole = build_whole(Source(file="float_calls.c"), recipe, folder, like=str(program))
    if whole is None:
        raise UserError(f"{program} can't be built again with its symbols.")
    command = [f"{float_prefix(recipe.float_abi)}objdump", "-d", str(whole)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"objdump failed: {error}") from error


def functions_of(text: str, level: str) -> dict[str, list[Line]]:
    """Return the instructions of the page's four functions.

    Args:
        text: objdump's output.
        level: for the error.

    Raises:
        UserError: one of them is missing.
    """
    found: dict[str, list[Line]] = {}
    name = ""
    for line in text.splitlines():
        if heading := _FUNCTION.fullmatch(line):
            name = heading[1]
        elif name in FUNCTIONS and (instruction := _INSTRUCTION.fullmatch(line)):
            shown = re.sub(r"\s*(@|;).*", "", instruction[2]).replace("\t", " ").strip()
            found.setdefault(name, []).append(Line(int(instruction[1], 16), shown))
    if missing := [name for name in FUNCTIONS if name not in found]:
        raise UserError(f"objdump prints no function {missing[0]} of {level}.")
    return found


def side_by_side(code: Mapping[str, Mapping[str, Sequence[Line]]]) -> list[str]:
    """Return the functions of all levels as lines, in a column for each level."""
    lines = ["".join(f"{level:{_WIDTH}}" for level in code).rstrip()]
    for name in FUNCTIONS:
        columns = [code[level][name] for level in code]
        lines += ["", f"{name}:"]
        for row in range(max(map(len, columns))):
            texts = [column[row].text if row < len(column) else "" for column in columns]
            lines.append("".join(f"{text:{_WIDTH}}" for text in texts).rstrip())
    return lines


def kind_table(code: Mapping[str, Mapping[str, Sequence[Line]]]) -> list[str]:
    """Return how many instructions of each kind the four functions have, as lines. libgcc's functions are not among them."""
    counts = {
        level: collections.Counter(kind_of(line.word).partition(".")[0] for lines in found.values() for line in lines)
        for level, found in code.items()
    }
    rows = [(name, [sum(count[kind] for kind in kinds) for count in counts.values()]) for name, kinds in GROUPS]
    rows.append(("sum", [sum(count.values()) for count in counts.values()]))
    head = f"{'instructions in the four functions':46}" + "".join(f"{level:>8}" for level in code)
    return [head, *(f"{name:46}" + "".join(f"{value:8}" for value in values) for name, values in rows if any(values))]


if __name__ == "__main__":
    sys.exit(main())
