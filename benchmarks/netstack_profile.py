"""Callgrind's output and perf's, read, and what each function's work is."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TABLE = Path(__file__).with_name("netstack_classes.toml")
OTHER = "other"
_POSITION = re.compile(r"(?:[+-]?[0-9]+|\*|0x[0-9a-f]+) ([0-9]+)$")
_NAME = re.compile(r"\(([0-9]+)\)(?: (.*))?$")


@dataclasses.dataclass(frozen=True)
class Cost:
    """What was spent in one place.

    Attributes:
        stack: functions, the outermost first; not empty.
        file: the source file, of inlined code that code's own; empty if it is not known.
        weight: instructions, or samples.
    """

    stack: tuple[str, ...]
    file: str
    weight: int


class Classes:
    """The table of classes.

    Args:
        text: TOML, as `netstack_classes.toml` has it.
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
        """Return all classes, in the table's order, and what fits none."""
        return [*dict.fromkeys(rule[0] for rule in self._rules), OTHER]

    def _search(self, function: str, file: str, caller: str) -> str | None:
        for name, by_function, by_file, by_caller in self._rules:
            if (by_function.search(function) or by_file.search(file)) and by_caller.search(caller):
                return str(name)
        return None

    def of(self, cost: Cost) -> str:
        """Return the class of a cost: by its function and file, else by whoever called that function."""
        file = cost.file
        for depth in range(len(cost.stack) - 1, -1, -1):
            found = self._find(cost.stack[depth], file, cost.stack[depth - 1] if depth else "")
            if found is not None:
                return found
            file = ""
        return OTHER


def read_callgrind(lines: Iterable[str]) -> Iterator[Cost]:
    """Read callgrind's own costs of each function, line by line of its output.

    Args:
        lines: of a file that was written with `--separate-callers`: names have their callers behind apostrophes.

    Yields:
        The costs, without those of the functions that each one calls.
    """
    names: dict[str, dict[str, str]] = {"file": {}, "function": {}}

    def name(kind: str, text: str) -> str:
        found = _NAME.match(text)
        if found is None:
            return text
        if found[2] is not None:
            names[kind][found[1]] = found[2]
        return names[kind][found[1]]

    stack: tuple[str, ...] = ("?",)
    file = ""
    inclusive = False  # the line after calls= is of all that was called
    for line in map(str.rstrip, lines):
        key, equals, value = line.partition("=")
        if equals and key in {"fl", "fi", "fe"}:
            file = name("file", value)
        elif equals and key in {"cfi", "cfl"}:
            name("file", value)
        elif equals and key == "fn":
            stack = _context(name("function", value))
        elif equals and key == "cfn":
            name("function", value)
        elif equals and key == "calls":
            inclusive = True
        elif (found := _POSITION.match(line)) is not None:
            if not inclusive:
                yield Cost(stack, file, int(found[1]))
            inclusive = False


def _context(text: str) -> tuple[str, ...]:
    """Return the functions of a name and its callers, the outermost first; the number of a recursion is no function."""
    return tuple(reversed([part for part in text.split("'") if part and not part.isdigit()])) or ("?",)


def total_of_callgrind(text: str) -> int | None:
    """Return the sum that callgrind gives itself; None if the file is not whole."""
    found = re.search(r"^totals: ([0-9]+)$", text, re.MULTILINE)
    return None if found is None else int(found[1])


def read_perf(lines: Iterable[str]) -> Iterator[tuple[Cost, bool]]:
    """Read the output of `perf script -F ip,sym,dso`: one sample a paragraph, the innermost function first.

    Yields:
        The cost of each sample, which is 1, and whether it was in the kernel.
    """
    frames: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        words = line.split()
        if words:
            found = re.match(r"\s*[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)\s*$", line)
            if found is not None:
                frames.append((found[1], found[2]))
        elif frames:
            kernel = frames[0][1].startswith("[") and "kernel" in frames[0][1]
            stack = tuple(symbol for symbol, _ in reversed(frames))
            yield Cost(stack, "", 1), kernel
            frames = []


def split(costs: Sequence[Cost], classes: Classes) -> dict[str, int]:
    """Return the weight of each class; their sum is that of all costs."""
    found = dict.fromkeys(classes.names(), 0)
    for cost in costs:
        found[classes.of(cost)] += cost.weight
    return found


def functions(costs: Sequence[Cost], classes: Classes) -> list[tuple[str, str, int]]:
    """Return function, class and weight, the heaviest first. A function with code of several classes has several lines."""
    found: dict[tuple[str, str], int] = {}
    for cost in costs:
        key = cost.stack[-1], classes.of(cost)
        found[key] = found.get(key, 0) + cost.weight
    return sorted(((*key, weight) for key, weight in found.items()), key=lambda row: (-row[2], row[0]))


def folded(costs: Iterable[Cost]) -> str:
    """Return folded stacks: one a line, functions joined by semicolons, then the weight."""
    found: dict[str, int] = {}
    for cost in costs:
        stack = ";".join(function.replace(";", ":") for function in cost.stack)
        found[stack] = found.get(stack, 0) + cost.weight
    return "".join(f"{stack} {weight}\n" for stack, weight in sorted(found.items()) if weight)
