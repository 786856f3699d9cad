"""A program of the user's own, as a workload: its metrics, and the numbers that it prints."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping

import msgspec

from swapstone.model import (
    Direction,
    Experiment,
    Metric,
    OwnProgram,
    PrintedNumber,
    Quantity,
    Reading,
    Sample,
    UserError,
    Workload,
)
from swapstone.workloads import metrics
from swapstone.workloads.server_metrics import server_metrics

MICROSECOND_NS = 1000

_MEANINGS = {
    "wall": "elapsed time from the start of the program to its end",
    "cpu": "processor time, user and system, of the program, its threads and the children it waited for",
    "run_delay": "time in which the main thread was ready, but had no processor: the machine's doing",
    "maxrss": "peak resident size of the program or of the largest child it waited for",
    "minflt": "page faults that needed no input",
    "majflt": "page faults that waited for input",
    "nvcsw": "context switches because the program had to wait",
    "nivcsw": "context switches because the processor was taken away: the machine's doing",
}


def _own(metric: Metric) -> Metric:
    return msgspec.structs.replace(metric, meaning=_MEANINGS[metric.name], leads=False)


def _part(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=meaning)


EXIT_STATUS = Metric(
    name="exit_status",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.NEITHER,
    meaning="the program's exit status, where other than 0 is accepted",
)

# Each with the agent's fact that it is, and what that is multiplied by (docs/wire.md, section 2).
_TIMES = (
    _own(metrics.WALL),
    _own(metrics.CPU),
    _part("user", "of cpu, in the program"),
    _part("system", "of cpu, in the kernel"),
)
_FROM_FACTS: tuple[tuple[Metric, tuple[str, ...], int], ...] = (
    (_TIMES[0], ("wall_ns",), 1),
    (_TIMES[1], ("user_us", "system_us"), MICROSECOND_NS),
    (_TIMES[2], ("user_us",), MICROSECOND_NS),
    (_TIMES[3], ("system_us",), MICROSECOND_NS),
    (_own(metrics.MAXRSS), ("maxrss_bytes",), 1),
    (_own(metrics.MINFLT), ("minflt",), 1),
    (_own(metrics.MAJFLT), ("majflt",), 1),
    (_own(metrics.NVCSW), ("nvcsw",), 1),
    (_own(metrics.NIVCSW), ("nivcsw",), 1),
    (_own(metrics.RUN_DELAY), ("run_delay_ns",), 1),
)

TAKEN_NAMES: frozenset[str] = frozenset(
    {*(metric.name for metric, _, _ in _FROM_FACTS), EXIT_STATUS.name, "text", "data", "bss", "file"}
)
"""Names of metrics that a printed number can't have: those of ours, and of the program's sizes."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_GOES_ON = re.compile(r"\w|[.,][0-9]")
_CAME_BEFORE = re.compile(r"(?:\w|[0-9][.,]|[-+.])\Z")


def own_names(own: OwnProgram) -> tuple[str, ...]:
    """Return the names of the workloads that a program of the user's own is: a server is one for each way in which it is driven."""
    if len(own.load_generators) < 2:
        return (own.name,)
    return tuple(f"{own.name}(c={generator.connections})" for generator in own.load_generators)


def own_workload(experiment: Experiment, name: str = "") -> Workload:
    """Return a workload that an experiment's own program is.

    Args:
        experiment: names the program.
        name: which of `own_names`; the first if left out.

    Raises:
        UserError: the experiment has none.
    """
    own = experiment.own
    if own is None:
        raise UserError(f"The experiment {experiment.name} names a program of its own and doesn't say which.")
    if own.load_generators:
        return _server(own, name)
    leading = "wall" if own.waits else "cpu"
    measured = (msgspec.structs.replace(metric, leads=metric.name == leading) for metric, _, _ in _FROM_FACTS)
    return Workload(
        name=own.name,
        source="",
        arguments=own.arguments,
        description=f"the user's own program: {shlex.join(own.command)}",
        metrics=(
            *measured,
            *((EXIT_STATUS,) if own.ignore_failure else ()),
            *(number.metric for number in own.numbers),
        ),
        cpus=own.cpus,
        waits=own.waits,
        timeout_ms=own.timeout_ms,
        max_passes=1,
    )


def _server(own: OwnProgram, name: str) -> Workload:
    generator = dict(zip(own_names(own), own.load_generators, strict=True)).get(name, own.load_generators[0])
    return Workload(
        name=name or own.name,
        arguments=own.arguments,
        description=f"the user's own server: {shlex.join(own.command)}, driven by {shlex.join(generator.command)}",
        parameters=(("connections", str(generator.connections)),),
        metrics=(*server_metrics(generator), *(number.metric for number in own.numbers)),
        cpus=own.cpus,
        waits=True,
        timeout_ms=own.timeout_ms,
        max_passes=1,
        reading=Reading.DRIVEN,
        load_generator=generator,
    )


def own_samples(
    own: OwnProgram, facts: Mapping[str, int], status: int, stdout: bytes, stderr: bytes
) -> tuple[Sample, ...]:
    """Turn what was seen of one run into samples: one value for each metric.

    Args:
        own: the program; says which numbers it prints.
        facts: the agent's, by name. A metric whose facts are not there is left out.
        status: exit status.
        stdout: what it printed there.
        stderr: and there; looked at where standard output doesn't hold a number.

    Raises:
        UserError: a number was not printed as `PrintedNumber` says; the message says what was there instead.
    """
    samples = [
        Sample(metric=metric.name, values=(float(scale * sum(facts[name] for name in names)),))
        for metric, names, scale in _FROM_FACTS
        if all(name in facts for name in names)
    ]
    if own.ignore_failure:
        samples.append(Sample(metric=EXIT_STATUS.name, values=(float(status),)))
    return (*samples, *printed_samples(own, stdout, stderr))


def printed_samples(own: OwnProgram, stdout: bytes, stderr: bytes) -> tuple[Sample, ...]:
    """Return the samples of the numbers that a program of the user's own prints, or the driver of a server.

    Raises:
        UserError: as `printed_value`.
    """
    texts = (stdout.decode(errors="replace"), stderr.decode(errors="replace"))
    return tuple(Sample(metric=n.metric.name, values=(printed_value(n, *texts),)) for n in own.numbers)


def printed_value(number: PrintedNumber, stdout: str, stderr: str) -> float:
    """Find a number in what a program printed.

    Args:
        number: its pattern, in which ``^`` and ``$`` stand for the beginning and end of a line.
        stdout: searched first.
        stderr: searched when standard output doesn't match at all.

    Raises:
        UserError: the pattern matches nothing or more than once, or what it matches isn't exactly a finite number.
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
    """Return the number in a match's group, when it is one by itself: no part of ``1,234.5``, ``12.3k`` or ``-5`` is guessed from."""
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
        before, after = re.search(r"\S*\Z", text[:begin]), re.match(r"\S*", text[end:])
        whole = (before[0] if before else "")[-30:] + group + (after[0] if after else "")[:30]
        raise UserError(
            f"the pattern of {name} finds {group!r}, which is only a part of {whole!r}",
            "Let the pattern go on to what stands before and after the number, its unit for instance.",
        )
    value = float(group)
    if not math.isfinite(value):
        raise UserError(f"the pattern of {name} finds {group[:60]!r}, which is more than a number can be here")
    return value


_HEAD = re.compile(r"(?P<name>[^\[\]=]+?)\s*(?:\[(?P<options>[^\[\]]*)\])?")
_DIRECTIONS = {direction.value: direction for direction in Direction}
_TIME_UNITS = frozenset({"ns", "us", "ms", "s", "sec", "min", "h"})
_MEMORY_UNITS = frozenset({"B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB"})
METRIC_EXAMPLE = "--metric 'req/s[1/s,higher]=regex:Requests/sec: +([0-9.]+)'"


def parse_metric(text: str) -> PrintedNumber:
    """Read what a user typed for a number that the program prints.

    Args:
        text: ``NAME=regex:PATTERN`` or ``NAME[UNIT,DIRECTION]=regex:PATTERN``; of the two in brackets either may be missing.

    Raises:
        UserError: it has another form, a name that is taken, or a pattern that is none or hasn't exactly one group.
    """
    head, found, pattern = text.partition("=regex:")
    match = _HEAD.fullmatch(head.strip()) if found else None
    if match is None or not match["name"].isprintable():
        raise UserError(
            f"--metric {text!r} is not NAME[UNIT,DIRECTION]=regex:PATTERN.", f"For example: {METRIC_EXAMPLE}"
        )
    name = match["name"]
    if name in TAKEN_NAMES:
        raise UserError(f"--metric can't be named {name!r}: Swapstone measures that itself.", "Give it another name.")
    unit, direction = _options(name, match["options"] or "")
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
    """Read what stands in the brackets: a unit and a direction, in any order."""
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
    except re.error as error:
        raise UserError(
            f"The pattern of --metric {name} is no regular expression: {error}.", f"For example: {METRIC_EXAMPLE}"
        ) from error
    if groups != 1:
        raise UserError(
            f"The pattern of --metric {name} has {groups} groups; it needs one, around the number.",
            f"Groups that only hold something together are written (?:...). For example: {METRIC_EXAMPLE}",
        )


def undirected(own: OwnProgram) -> tuple[str, ...]:
    """Return the names of the printed numbers that have no direction."""
    return tuple(number.metric.name for number in own.numbers if number.metric.better is Direction.NEITHER)
