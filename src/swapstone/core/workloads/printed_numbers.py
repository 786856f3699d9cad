# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers that a user's program prints: the option ``--metric``, and their search in the output."""

from __future__ import annotations

import re

from swapstone.core.model import Direction, Metric, OwnProgram, PrintedNumber, Quantity, Sample, UserError, refuse
from swapstone.core.model.frozen_struct import LARGEST_NUMBER, SMALLEST_NUMBER
from swapstone.core.workloads.metrics import EXIT_STATUS, PROCESS_METRICS

RESERVED_NAMES: frozenset[str] = frozenset(
    {*(metric.name for metric in PROCESS_METRICS), EXIT_STATUS.name, "text", "data", "bss", "file"}
)
"""Names that a printed number can't have: metrics of every process, and sizes of its file."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_GOES_ON = re.compile(r"\w|[.,][0-9]")
_CAME_BEFORE = re.compile(r"(?:\w|[0-9][.,]|[-+.])\Z")


def printed_samples(own: OwnProgram, stdout: bytes, stderr: bytes) -> tuple[Sample, ...]:
    """Return the samples of the numbers that a user's program, or a server's load generator, prints.

    Raises:
        UserError: as `printed_value`.
    """
    texts = (stdout.decode(errors="replace"), stderr.decode(errors="replace"))
    return tuple(Sample(metric=n.metric.name, values=(printed_value(n, *texts),)) for n in own.numbers)


def printed_value(number: PrintedNumber, stdout: str, stderr: str) -> float:
    """Find a number in the output of a program.

    Args:
        number: its pattern; ``^`` and ``$`` match at the begin and end of a line.
        stdout: searched first.
        stderr: searched if standard output has no match.

    Raises:
        UserError: the pattern matches nothing or more than once, or the group is not exactly a number within the bounds of samples.
    """
    name, pattern = number.metric.name, re.compile(number.pattern, re.MULTILINE)
    for where, text in (("standard output", stdout), ("standard error", stderr)):
        found = list(pattern.finditer(text))
        if not found:
            continue
        if len(found) > 1:
            lines = [text.count("\n", 0, match.start()) + 1 for match in found[:3]]
            raise UserError(
                f"the pattern of {name} matches {len(found)} times in its {where}, first in lines {', '.join(map(str, lines))}",
                "Add more of the line that you mean to the pattern.",
            )
        return _number(name, found[0], text)
    raise UserError(
        f"the pattern of {name} matches nothing that it printed: {number.pattern!r}",
        "Compare the pattern with the output; ^ and $ stand for the beginning and end of a line.",
    )


def _number(name: str, match: re.Match[str], text: str) -> float:
    """Return the number in a match's group. A part of a longer number, such as ``1,234.5``, ``12.3k`` or ``-5``, is an error."""
    group = match[1] or ""
    if not _NUMBER.fullmatch(group):
        raise UserError(
            f"the pattern of {name} finds {group[:60]!r}, which is no number",
            "The group must hold digits, with a point and an exponent at most: 1234.5 or 1.2e3.",
        )
    begin, end = match.span(1)
    cut_before = begin == match.start() and _CAME_BEFORE.search(text[max(0, begin - 2) : begin])
    cut_after = end == match.end() and _GOES_ON.match(text, end)
    if cut_before or cut_after:
        before, after = re.split(r"\s", text[max(0, begin - 30) : begin])[-1], re.split(r"\s", text[end : end + 30])[0]
        whole = before + group + after
        raise UserError(
            f"the pattern of {name} finds {group!r}, which is only a part of {whole!r}",
            "Extend the pattern to the text before and after the number, such as its unit.",
        )
    value = float(group)
    if not SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER and value != 0:
        raise UserError(f"the pattern of {name} finds {group[:60]!r}, which is out of range")
    return value


_DIRECTIONS = {direction.value: direction for direction in Direction}
_TIME_UNITS = frozenset({"ns", "us", "ms", "s", "sec", "min", "h"})
_MEMORY_UNITS = frozenset({"B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB"})
METRIC_EXAMPLE = "--metric 'req/s[1/s,higher]=regex:Requests/sec: +([0-9.]+)'"


def parse_metric(text: str) -> PrintedNumber:
    """Parse a value of the option ``--metric``.

    Args:
        text: ``NAME=regex:PATTERN`` or ``NAME[UNIT,DIRECTION]=regex:PATTERN``; unit and direction are optional.

    Raises:
        UserError: the text has another form, the name is reserved, or the pattern is invalid or does not have exactly one group.
    """
    head, found, pattern = text.partition("=regex:")
    name, bracket, options = head.strip().partition("[")
    name, options, closed = name.rstrip(), options.removesuffix("]"), options.endswith("]") or not bracket
    valid = name.isprintable() and "=" not in name and not {"[", "]"} & {*name, *options}
    refuse(
        (
            not (found and closed and name and valid),
            f"--metric {text!r} is not NAME[UNIT,DIRECTION]=regex:PATTERN.",
            f"For example: {METRIC_EXAMPLE}",
        ),
        (
            name in RESERVED_NAMES,
            f"--metric can't be named {name!r}: Swapstone has a metric of that name.",
            "Give it another name.",
        ),
    )
    unit, direction = _options(name, options)
    _check_pattern(name, pattern)
    metric = Metric(
        name=name,
        unit=unit,
        quantity=_quantity(unit),
        better=direction,
        meaning=f"printed by the program: {pattern}",
        leads=direction is not Direction.NEITHER,
    )
    return PrintedNumber(metric=metric, pattern=pattern)


def _options(name: str, text: str) -> tuple[str, Direction]:
    """Parse the text in brackets: a unit and a direction, in any order."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    directions = [part for part in parts if part in _DIRECTIONS]
    units = [part for part in parts if part not in _DIRECTIONS]
    if len(directions) > 1 or len(units) > 1 or not text.isprintable():
        raise UserError(
            f"--metric {name}[{text}] has more than a unit and a direction.",
            f"A direction is one of {', '.join(_DIRECTIONS)}. For example: {METRIC_EXAMPLE}",
        )
    return units[0] if units else "1", _DIRECTIONS[directions[0]] if directions else Direction.NEITHER


def _quantity(unit: str) -> Quantity:
    if unit.endswith("/s"):
        return Quantity.RATE
    if unit in _TIME_UNITS:
        return Quantity.TIME
    return Quantity.MEMORY if unit in _MEMORY_UNITS else Quantity.EVENTS


def _check_pattern(name: str, pattern: str) -> None:
    try:
        groups = re.compile(pattern, re.MULTILINE).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(
            f"The pattern of --metric {name} is no regular expression: {error}.", f"For example: {METRIC_EXAMPLE}"
        ) from error
    if groups != 1:
        raise UserError(
            f"The pattern of --metric {name} has {groups} groups; it needs one, around the number.",
            f"A group without a number is written (?:...). For example: {METRIC_EXAMPLE}",
        )


def undirected(own: OwnProgram) -> tuple[str, ...]:
    """Return the names of the printed numbers that have no direction."""
    return tuple(number.metric.name for number in own.numbers if number.metric.better is Direction.NEITHER)
