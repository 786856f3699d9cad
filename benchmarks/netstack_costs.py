# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions of network stacks by class of work.

One stack on an in-memory link with a virtual clock, under callgrind, which counts the work of the measured stack's side only. Each run is
repeated and must give the same total. The results don't depend on the machine's load. They depend a little on its C library, which selects
its copy functions by the processor.

--fixes counts each stack without each of its fixes too, and prints what the fix adds or saves.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.netstack_link import build
from benchmarks.shared import number, parser_of, table

from swapstone.parts.explain.instruments import instructions
from swapstone.parts.net.factors.netstack import FIXES

STACKS = ("lwip", "smoltcp")
SUBJECT = "swapstone_net_virtual_subject"
TABLE = Path(__file__).with_name("netstack_classes.toml")
OTHER = "other"
_DEPTH = 24
_TIMEOUT_S = 900.0


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one place in a program.

    Attributes:
        stack: functions, the outermost first; not empty.
        file: the source file; of inlined code, that of the inlined function. Empty if unknown.
        weight: instructions.
    """

    stack: tuple[str, ...]
    file: str
    weight: int


class Classes:
    """The table of classes.

    Args:
        text: TOML in the format of `netstack_classes.toml`.
    """

    def __init__(self, text: str) -> None:
        rules = tomllib.loads(text)["rule"]
        never, always = "(?!)", ""
        self._rules = [
            (
                rule["class"],
                re.compile(rule.get("function", never)),
                re.compile(rule.get("file", never)),
                re.compile(rule.get("caller", always)),
            )
            for rule in rules
        ]
        self._find = functools.lru_cache(maxsize=1 << 16)(self._search)

    def names(self) -> list[str]:
        """Return all classes in the order of the table, and `OTHER`."""
        return [*dict.fromkeys(rule[0] for rule in self._rules), OTHER]

    def _search(self, function: str, file: str, caller: str) -> str | None:
        for name, by_function, by_file, by_caller in self._rules:
            if (by_function.search(function) or by_file.search(file)) and by_caller.search(caller):
                return str(name)
        return None

    def of(self, cost: Cost) -> str:
        """Return the class of a cost: by its function and file, or else by its callers."""
        file = cost.file
        for depth in range(len(cost.stack) - 1, -1, -1):
            found = self._find(cost.stack[depth], file, cost.stack[depth - 1] if depth else "")
            if found is not None:
                return found
            file = ""
        return OTHER


def read_callgrind(lines: Iterable[str]) -> Iterator[Cost]:
    """Return the own costs of each function.

    Args:
        lines: of a callgrind output file that was written with `--separate-callers`.
    """
    for record in instructions.records(lines):
        if record.group == instructions.NAME:
            yield Cost(_context(record.function), record.file, record.number)


def _context(text: str) -> tuple[str, ...]:
    """Return a function and its callers, the outermost first. Numbers are recursion levels of callgrind."""
    return tuple(reversed([part for part in text.split("'") if part and not part.isdigit()])) or ("?",)


def split(costs: Sequence[Cost], classes: Classes) -> dict[str, int]:
    """Return the total weight of each class."""
    found = dict.fromkeys(classes.names(), 0)
    for cost in costs:
        found[classes.of(cost)] += cost.weight
    return found


@dataclasses.dataclass(frozen=True)
class Work:
    """A kind of work under callgrind.

    Attributes:
        name: in tables.
        unit: the divisor of its cost.
        arguments: of swapstone-net-virtual, for a number of units.
    """

    name: str
    unit: str
    arguments: Callable[[int], tuple[str, ...]]


WORKS = (
    Work("bulk out", "byte", lambda size: ("--bytes", str(size), "out")),
    Work("bulk in", "byte", lambda size: ("--bytes", str(size), "in")),
    Work("small requests", "request", lambda count: ("-n", str(count), "requests")),
)


def callgrind(binary: Path, arguments: Sequence[str], stack: str, folder: Path) -> list[Cost]:
    """Count a run's instructions, twice.

    Args:
        binary: swapstone-net-virtual.
        arguments: of the work.
        stack: the measured one; its peer is smoltcp.
        folder: for callgrind's output.

    Raises:
        RuntimeError: callgrind failed, its total is not the sum of its lines, or the second run differs from the first.
    """
    found: list[list[Cost]] = []
    for turn in range(2):
        out = folder / f"callgrind.{turn}"
        command = (
            *("valgrind", "--tool=callgrind", f"--toggle-collect={SUBJECT}", f"--separate-callers={_DEPTH}"),
            *(f"--callgrind-out-file={out}", str(binary), "--stack", stack, "--peer", "smoltcp"),
            *("--no-check", "--no-digest", *arguments),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"{stack}: {done.stderr.strip()[-1000:]}")
        if not json.loads(done.stdout)["whole"]:
            raise RuntimeError(f"{stack}: the run under callgrind did not end")
        text = out.read_text(encoding="utf-8", errors="replace")
        costs = list(read_callgrind(text.splitlines()))
        counted = sum(cost.weight for cost in costs)
        if counted == 0 or counted != instructions.total(text):
            raise RuntimeError(
                f"{stack}: the lines have {counted} instructions, callgrind's total is {instructions.total(text)}"
            )
        found.append(costs)
    first, second = (sum(cost.weight for cost in costs) for costs in found)
    if first != second:
        raise RuntimeError(f"{stack}: {first} instructions, then {second}")
    return found[0]


def tables(found: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Return a table of instructions for each kind of work: a line for each stack, a column for each class."""
    parts = []
    for work in dict.fromkeys(one["work"] for one in found):
        mine = [one for one in found if one["work"] == work]
        used = [name for name in names if any(one["split"][name] for one in mine)]
        rows = [
            [
                one["stack"],
                str(one["instructions"]),
                number(one["instructions"] / one["units"]),
                *(number(one["split"][name] / one["units"]) for name in used),
            ]
            for one in mine
        ]
        unit = mine[0]["unit"]
        parts.append(f"Instructions a {unit}, {work}\n\n" + table(["", "in all", f"a {unit}", *used], rows))
    return "\n\n".join(parts)


def variants() -> list[str]:
    """Return the names of all stacks: with all fixes, with none, and without each of them."""
    return [
        name
        for stack in STACKS
        for name in (stack, f"{stack}:shipped", *(f"{stack}:without-{fix}" for fix in FIXES[stack]))
    ]


def fix_tables(found: Sequence[dict[str, Any]]) -> str:
    """Return a table for each stack: what its fixes together and each of them add to the instructions of each kind of work.

    Of bulk data for 1000 bytes. The difference is that of a run with all fixes and a run without this one, so fixes that depend on each
    other do not sum up.
    """
    parts = []
    counts = {(one["work"], one["stack"]): one["instructions"] / one["units"] for one in found}
    works = list(dict.fromkeys((one["work"], one["unit"]) for one in found))
    for stack in dict.fromkeys(one["stack"].partition(":")[0] for one in found):
        rows = []
        for name in dict.fromkeys(one["stack"] for one in found if one["stack"].startswith(f"{stack}:")):
            label = "all together" if name.endswith(":shipped") else f"`{name.partition(':without-')[2]}`"
            cells = []
            for work, unit in works:
                scale = 1000 if unit == "byte" else 1
                all_on = counts[work, stack] * scale
                added = all_on - counts[work, name] * scale
                cells.append(f"{added:+.1f} ({added / all_on:+.2%})" if round(added, 1) else "0")
            rows.append([label, *cells])
        head = ["fix", *(f"{work}, {'1000 bytes' if unit == 'byte' else f'a {unit}'}" for work, unit in works)]
        whole = ", ".join(
            f"{number(counts[work, stack] * (1000 if unit == 'byte' else 1))} for {work}" for work, unit in works
        )
        parts.append(f"Instructions that the fixes of {stack} add, of {whole}\n\n" + table(head, rows))
    return "\n\n".join(parts)


def count(asked: argparse.Namespace, classes: Classes) -> list[dict[str, Any]]:
    """Count all kinds of work on all stacks, and with `--fixes` on their variants."""
    binary = build()
    found = []
    for work in WORKS:
        units = asked.bytes if work.unit == "byte" else asked.requests
        for stack in variants() if asked.fixes else STACKS:
            print(f"{work.name} on {stack}", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                costs = callgrind(binary, work.arguments(units), stack, Path(folder))
            about = {"work": work.name, "stack": stack, "unit": work.unit, "units": units}
            found.append({**about, "instructions": sum(cost.weight for cost in costs), "split": split(costs, classes)})
    return found


def main(arguments: Sequence[str]) -> int:
    """Build, run, print."""
    parser = parser_of("netstack-costs", __doc__)
    parser.add_argument("--bytes", type=int, default=2_000_000, help="size of bulk transfers (default 2000000)")
    parser.add_argument("--requests", type=int, default=1000, help="number of requests (default 1000)")
    parser.add_argument("--fixes", action="store_true", help="also count without each fix: 13 times as many runs")
    asked = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("unavailable: there is no valgrind; Debian's valgrind has it", file=sys.stderr)
        return 3
    classes = Classes(TABLE.read_text())
    found = count(asked, classes)
    print(tables([one for one in found if one["stack"] in STACKS], classes.names()))
    if asked.fixes:
        print("\n" + fix_tables(found))
    return 0
