# SPDX-License-Identifier: MIT OR Apache-2.0
"""Costs of functions from callgrind and perf, and the class of each."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from swapstone.explanation import CostClasses, folded
from swapstone.instruments import callgrind_output
from swapstone.instruments.perf_script import Event
from swapstone.instruments.profile_builder import ProfileBuilder
from swapstone.model import OWN_OBJECT, Frame, Profile
from swapstone.report import flame_graph

TABLE = Path(__file__).with_name("netstack_classes.toml")
OTHER = "other"


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one place in a program.

    Attributes:
        stack: functions, the outermost first; not empty.
        file: the source file; of inlined code, that of the inlined function. Empty if unknown.
        weight: instructions, or samples.
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
    for record in callgrind_output.records(lines):
        if isinstance(record, callgrind_output.OwnCost):
            yield Cost(_context(record.function), record.file, record.instructions)


def _context(text: str) -> tuple[str, ...]:
    """Return a function and its callers, the outermost first. Numbers are recursion levels of callgrind."""
    return tuple(reversed([part for part in text.split("'") if part and not part.isdigit()])) or ("?",)


def read_perf(events: Iterable[Event]) -> Iterator[tuple[Cost, bool]]:
    """Return the cost of each sample, which is 1, and whether it was in the kernel.

    Args:
        events: of a recording; those without a stack are skipped.
    """
    for event in events:
        if event.stack:
            _, _, innermost = event.stack[0]
            stack = tuple(symbol for _, symbol, _ in reversed(event.stack))
            yield Cost(stack, "", 1), innermost.startswith("[") and "kernel" in innermost


def split(costs: Sequence[Cost], classes: Classes) -> dict[str, int]:
    """Return the total weight of each class."""
    found = dict.fromkeys(classes.names(), 0)
    for cost in costs:
        found[classes.of(cost)] += cost.weight
    return found


def functions(costs: Sequence[Cost], classes: Classes) -> list[tuple[str, str, int]]:
    """Return function, class and weight, the heaviest first. A function with code of several classes has several entries."""
    found: dict[tuple[str, str], int] = {}
    for cost in costs:
        key = cost.stack[-1], classes.of(cost)
        found[key] = found.get(key, 0) + cost.weight
    return sorted(((*key, weight) for key, weight in found.items()), key=lambda row: (-row[2], row[0]))


def profile(costs: Iterable[Cost], unit: str = "1") -> Profile:
    """Return the costs as a profile, summed up by stack.

    Args:
        costs: to sum up.
        unit: of their weights.
    """
    builder = ProfileBuilder()
    for cost in costs:
        builder.add(tuple(Frame(symbol=name, object=OWN_OBJECT) for name in cost.stack), cost.weight)
    return builder.profile("on-cpu", unit, 1.0)


def keep(out: Path | None, name: str, costs: Sequence[Cost]) -> None:
    """Write costs as folded stacks and as a flame graph.

    Args:
        out: the folder; None to write nothing.
        name: of the files, with hyphens instead of spaces, and of the page.
        costs: to write.
    """
    if out is None:
        return
    base = name.replace(" ", "-")
    found = profile(costs)
    (out / f"{base}.folded").write_text(folded(found))
    (out / f"{base}.html").write_text(flame_graph.page(f"Network stacks: {name}", found, None, CostClasses([])))
