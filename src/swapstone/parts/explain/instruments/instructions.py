# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count instructions by function, with valgrind's callgrind, and simulate caches and branch prediction.

The sizes of the simulated caches are stated explicitly: valgrind would take those of this machine, and a last-level cache of hundreds of
MiB hides every miss.

A run has the limit of every instrument (`ReferenceRuns.limit_s`). Where callgrind would exceed it, cachegrind counts instructions alone,
which takes about a seventh of the time, and has no calls, no objects of functions and no simulation.

Valgrind's processor has no AVX-512, so a C library may select other functions under it.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.profile import OWN_OBJECT
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.perf import Symbolizer, result
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, TracedRun, Tracee, inner_command, run
from swapstone.parts.explain.model.explanation import LISTED_FUNCTIONS, Amount, InstrumentResult

_NAMED = re.compile(r"(c?)(fn|ob|f[lie])=(?:\(([0-9]+)\)(?: (.*))?|(.+))$")
_COST = re.compile(r"(?:[+\-]?[0-9]+|\*|0x[0-9a-f]+) ([0-9]{1,19})((?: [0-9]{1,19}){0,15})$")
_CALLS = re.compile(r"calls=([0-9]{1,19})(?: |$)")


class Cost(NamedTuple):
    """Instructions of a line of a function, without those of the functions that it calls; or calls of a function from one place.

    Attributes:
        group: ``instructions`` or ``calls``.
        object: path of the function's object; empty if unknown.
        function: its name, followed by its callers after apostrophes with ``--separate-callers``.
        number: of instructions, the first event of the file.
        file: source file; of inlined code, that of the inlined function. Empty if unknown, and of calls.
        others: numbers of the other events, by the names in the file's line ``events:``; those that are 0 may be missing.
    """

    group: str
    object: str
    function: str
    number: int
    file: str = ""
    others: Mapping[str, int] = {}


def records(lines: Iterable[str]) -> Iterator[Cost]:
    """Decode the lines of a callgrind output file.

    Args:
        lines: of the file.

    Yields:
        The own costs and the calls, in the file's order.

    Raises:
        UserError: a line of calls has no number.
    """
    names: dict[tuple[str, str], str] = {}
    now = {"fn": "", "ob": "", "fl": "", "cfn": "", "cob": ""}
    events: list[str] = []
    inclusive = False
    for raw in lines:
        line = raw.rstrip()
        if (named := _NAMED.match(line)) is not None:
            callee, kind, number, text, whole = named.groups()
            table = kind if kind in {"fn", "ob"} else "fl"  # of fi= and fe=, too
            if text is not None:
                names[table, number] = text
            now[callee + table] = names.get((table, number), "") if number else whole
            if callee + kind == "fn":
                now["cob"] = ""
        elif line.startswith("events: "):
            events = line.split()[2:18]
        elif line.startswith("calls="):
            calls = _CALLS.match(line)
            if calls is None:
                raise UserError(f"callgrind's output is damaged: {line[:60]!r} has no number of calls.")
            yield Cost("calls", now["cob"] or now["ob"], now["cfn"], int(calls[1]))
            inclusive, now["cob"] = True, ""
        elif (cost := _COST.match(line)) is not None:
            if not inclusive:
                others = dict(zip(events, map(int, cost[2].split()), strict=False))
                yield Cost("instructions", now["ob"], now["fn"], int(cost[1]), now["fl"], others)
            inclusive = False


def total(text: str) -> int | None:
    """Return callgrind's own total of instructions; None if the file is incomplete.

    Args:
        text: content of the file.
    """
    found = re.search(r"^totals: ([0-9]{1,19})(?: [0-9]{1,19})*$", text, re.MULTILINE)
    return None if found is None else int(found[1])


NAME = "instructions"
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
"""First-level caches of 32 KiB, and a last-level cache of 1 MiB: bytes, ways, bytes of a line."""

SIMULATED = "simulated"
"""Group of the simulated events."""


@dataclasses.dataclass(frozen=True)
class Counter:
    """A way to count instructions.

    Attributes:
        tool: of valgrind.
        options: of the tool.
        slowdown: about how many times as long a program's processor time takes: 37 to 107 (callgrind) and 7 to 12 (cachegrind) were
            measured with valgrind 3.19.
        note: on the result.
    """

    tool: str
    options: tuple[str, ...]
    slowdown: float
    note: str


COUNTERS = (
    Counter(
        "callgrind",
        ("--cache-sim=yes", "--branch-sim=yes", *CACHES, "--callgrind-out-file={file}"),
        60.0,
        "valgrind runs one thread at a time, and its processor has no AVX-512; its caches have 32 KiB and 1 MiB, with lines of 64 B",
    ),
    Counter(
        "cachegrind",
        ("--cache-sim=no", "--branch-sim=no", *CACHES, "--cachegrind-out-file={file}"),
        10.0,
        "cachegrind counted instructions alone, without calls and a simulation, because callgrind would take longer than the limit; "
        "valgrind runs one thread at a time, and its processor has no AVX-512",
    ),
)
"""In the order in which they are tried."""

EVENTS = {
    "mispredicted branches": ("Bcm", "Bim"),
    "misses of the first-level data cache": ("D1mr", "D1mw"),
    "misses of the first-level instruction cache": ("I1mr",),
    "misses of the last-level cache": ("ILmr", "DLmr", "DLmw"),
}
"""The simulated events, each with callgrind's names of those that it sums up."""
_ADDRESS = re.compile(r"^0x[0-9a-f]{6,}$")


Tally = collections.Counter[tuple[str, str, str]]
"""Instructions and calls by (group, object's path, function), and all other events by (`SIMULATED`, "", callgrind's name)."""


def tally(lines: Iterable[str]) -> Tally:
    """Sum up a callgrind output file: each function's own instructions, the number of its calls, and the other events."""
    found = Tally()
    for cost in records(lines):
        found[cost.group, cost.object, cost.function] += cost.number
        found.update({(SIMULATED, "", name): number for name, number in cost.others.items()})
    return found


def count_with(tracee: Tracee, reference: ReferenceRuns, counter: Counter) -> InstrumentResult:
    """Count a run's instructions in one way; arguments as `expected_excess`.

    Raises:
        UnavailableError: the run takes longer than the limit.
        UserError: the run failed.
    """
    passes = 3 if tracee.region is Region.PASSES else 1
    counted, ended = _run(tracee.with_passes(passes), reference, counter)
    if passes == 3:
        one, _ = _run(tracee.with_passes(1), reference, counter)
        counted = Tally({key: (count - one[key]) // 2 for key, count in counted.items() if count > one[key] + 1})
    return result(
        NAME,
        tracee,
        reference,
        operations=tracee.operations,
        took_ns=ended.elapsed_ns / passes,
        tool="valgrind",
        command=" ".join((f"valgrind --tool={counter.tool}", *tracee.request.arguments)),
        amounts=_amounts(tracee, counted),
        notes=(counter.note,),
    )


def measure(
    tracee: Tracee,
    reference: ReferenceRuns,
    count: Callable[[Tracee, ReferenceRuns, Counter], InstrumentResult] = count_with,
) -> InstrumentResult:
    """Count a run's instructions by function.

    A program with passes runs with one pass and with three. Half of the difference is one pass, without start and end.

    Args:
        tracee: what to run.
        reference: gives elapsed and processor time without an instrument.
        count: counts in one of the ways of `COUNTERS`.

    Raises:
        UnavailableError: valgrind is not installed, or not in the program's root file system, or the run takes longer than the limit in
            each way of `COUNTERS`.
        UserError: the run failed.
    """
    requirements.require(requirements.missing_tool("valgrind", "valgrind"))
    if tracee.request.root:
        raise UnavailableError("valgrind is not in the program's root file system")
    if tracee.region is Region.DRIVEN:
        raise UnavailableError("callgrind counts whole runs; a server's start and end would be counted as requests")
    problems = []
    for counter in COUNTERS:
        if problem := expected_excess(tracee, reference, counter):
            problems.append(problem)
            continue
        try:
            return count(tracee, reference, counter)
        except UnavailableError as error:
            problems.append(error.message)
    raise UnavailableError("; ".join(dict.fromkeys(problems)))


def expected_excess(tracee: Tracee, reference: ReferenceRuns, counter: Counter) -> str:
    """Return why a run would take longer than the limit; empty if it would not.

    Args:
        tracee: what to run.
        reference: gives elapsed and processor time without an instrument.
        counter: the way to count.
    """
    passes = 3 if tracee.region is Region.PASSES else 1
    cpu_ns = reference.metrics.get("cpu", reference.wall_ns)
    whole_s = (reference.wall_ns + cpu_ns * counter.slowdown) * tracee.operations * passes / 1e9
    most_s = reference.limit_s
    if whole_s <= most_s:
        return ""
    return (
        f"a run would take about {math.ceil(whole_s)} s under {counter.tool}, more than {math.floor(most_s)} s; "
        f"without it the longest took {reference.longest_s:.3g} s"
    )


def _run(tracee: Tracee, reference: ReferenceRuns, counter: Counter) -> tuple[Tally, TracedRun]:
    files = reference.folder / counter.tool
    files.mkdir(exist_ok=True)
    options = (option.format(file=f"{files}/out.%p") for option in counter.options)
    tool = ("valgrind", f"--tool={counter.tool}", "--vgdb=no", "-q", *options)
    arguments = tracee.request.arguments
    helpers = inner_command(tracee)[: -len(arguments)]
    ended = run((*helpers, *tool, *arguments), tracee, reference, complete=True)
    found = Tally()
    for file in sorted(files.iterdir()):
        with file.open(errors="replace") as lines:
            found.update(tally(lines))
        file.unlink()
    if ended.status != 0 or not any(group == NAME for group, _, _ in found):
        raise UserError(f"valgrind ended with status {ended.status}; its last words: {ended.stderr.strip()[-200:]}")
    return found, ended


def _amounts(tracee: Tracee, counted: Tally) -> tuple[Amount, ...]:
    symbolizer = Symbolizer(tracee)
    named = {group: collections.Counter[str]() for group in (NAME, "calls")}
    for (group, path, function), count in counted.items():
        if group == NAME or (group == "calls" and "'" not in function):
            named[group][_name(symbolizer, path, function)] += count
    simulated = any(group == SIMULATED for group, _, _ in counted)
    rows = [
        (NAME, "all", named[NAME].total()),
        *(
            (SIMULATED, words, sum(counted[SIMULATED, "", name] for name in names))
            for words, names in EVENTS.items()
            if simulated
        ),
        *((group, *each) for group, counts in named.items() for each in counts.most_common(LISTED_FUNCTIONS)),
    ]
    return tuple(Amount(group=group, name=name, value=count / tracee.operations) for group, name, count in rows)


def _name(symbolizer: Symbolizer, path: str, function: str) -> str:
    """Return a function's name with its object; recursion levels (``'2``) count as one function."""
    plain = function.split("'", maxsplit=1)[0].split("@@", maxsplit=1)[0]
    if _ADDRESS.match(plain) and path.startswith("/"):
        table = symbolizer.table(str(Path(path).resolve()))
        plain = (table.name_at(int(plain, 16)) if table else "") or plain
    if not path:  # cachegrind names no objects
        return plain
    where = symbolizer.object_of(str(Path(path).resolve())) if path.startswith("/") else path
    return plain if where == OWN_OBJECT else f"{plain} ({where})"
