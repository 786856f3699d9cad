"""Instructions by function, counted one by one: valgrind's callgrind.

The processor that valgrind emulates has no AVX-512, so a C library may choose other functions under it.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from swapstone.instruments import requirements
from swapstone.instruments.instrument_result import Known
from swapstone.instruments.symbolizer import Namer
from swapstone.instruments.traced_run import Ended, inner_command, run
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import OWN_OBJECT, Amount, Instrumented, UnavailableError, UserError

NAME = "instructions"
SLOWER = 60
"""About how many times slower a program is under callgrind."""

LONGEST_S = 120.0
MOST_FUNCTIONS = 40
_NAMED = re.compile(r"^(c?(?:fn|ob))=\((\d+)\)(?: (.*))?$")
_COST = re.compile(r"^(?:[+\-]?\d+|\*|0x[0-9a-f]+) (\d+)$")
_ADDRESS = re.compile(r"^0x[0-9a-f]{6,}$")


@dataclasses.dataclass
class Tally:
    """Instructions and calls by (object's path, function)."""

    instructions: collections.Counter[tuple[str, str]]
    calls: collections.Counter[tuple[str, str]]


def tally(lines: Iterable[str]) -> Tally:
    """Decode one file of callgrind's (format version 1, one position, one event).

    Args:
        lines: of the file.

    Returns:
        Each function's own instructions, and how often it was called.
    """
    found = Tally(collections.Counter(), collections.Counter())
    kept: dict[tuple[str, str], str] = {}
    now = {"fn": "", "ob": "", "cfn": "", "cob": ""}
    inclusive = False
    for raw in lines:
        line = raw.rstrip("\n")
        named = _NAMED.match(line)
        if named is not None:
            kind, number, text = named.groups()
            if text is not None:
                kept[kind[-2:], number] = text
            now[kind] = kept.get((kind[-2:], number), "")
            if kind == "fn":
                now["cob"] = ""
        elif line.startswith("calls="):
            place = (now["cob"] or now["ob"], now["cfn"])
            found.calls[place] += int(line[6:].split()[0])
            inclusive, now["cob"] = True, ""
        elif (cost := _COST.match(line)) is not None:
            if not inclusive:
                found.instructions[now["ob"], now["fn"]] += int(cost[1])
            inclusive = False
    return found


def measure(subject: Subject, known: Known) -> Instrumented:
    """Count a run's instructions by function.

    Work in passes is run with one pass and with three, and half of the difference is one pass: what comes before and after is taken off.

    Raises:
        UnavailableError: valgrind is not here, or the work would take too long under it.
        UserError: the run failed.
    """
    barrier = requirements.tool_barrier("valgrind", "valgrind")
    if barrier is not None:
        raise UnavailableError(barrier.reason, barrier.mend)
    if subject.region in {Region.ATTACHED, Region.DRIVEN}:
        raise UnavailableError("callgrind counts whole runs, and a server's start and end are no part of a request")
    whole_s = known.wall_ns * subject.operations / 1e9 * (4 if subject.region is Region.PASSES else 1) * SLOWER
    if whole_s > LONGEST_S:
        raise UnavailableError(
            f"one pass would take about {whole_s:.0f} s under callgrind, more than {LONGEST_S:.0f} s"
        )
    if subject.region is Region.PASSES:
        (one, _), (three, ended) = _run(subject.with_passes(1), known), _run(subject.with_passes(3), known)
        counted = Tally(_half(three.instructions, one.instructions), _half(three.calls, one.calls))
        passes = 3
    else:
        counted, ended = _run(subject, known)
        passes = 1
    took = ended.elapsed_ns / (passes * subject.operations)
    return Instrumented(
        instrument=NAME,
        tool=requirements.version_of("valgrind"),
        variant=subject.variant,
        command=" ".join(("valgrind --tool=callgrind", *subject.request.arguments)),
        operations=subject.operations,
        overhead=took / known.wall_ns if known.wall_ns else None,
        amounts=_amounts(subject, counted),
        notes=("valgrind runs one thread at a time, and its processor has no AVX-512",),
    )


def _half(
    three: collections.Counter[tuple[str, str]], one: collections.Counter[tuple[str, str]]
) -> collections.Counter[tuple[str, str]]:
    return collections.Counter(
        {place: (count - one[place]) // 2 for place, count in three.items() if count > one[place] + 1}
    )


def _run(subject: Subject, known: Known) -> tuple[Tally, Ended]:
    files = known.folder / "callgrind"
    files.mkdir(exist_ok=True)
    tool = ("valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={files}/out.%p")
    request = subject.request
    whole = inner_command(subject)
    helpers = whole[: len(whole) - len(request.arguments)]
    ended = run((*helpers, *tool, *request.arguments), _bare(subject), known.folder)
    found = Tally(collections.Counter(), collections.Counter())
    for file in sorted(files.iterdir()):
        with file.open(errors="replace") as lines:
            part = tally(lines)
        found.instructions.update(part.instructions)
        found.calls.update(part.calls)
        file.unlink()
    if ended.status != 0 or not found.instructions:
        raise UserError(f"valgrind ended with status {ended.status}; its last words: {ended.stderr.strip()[-200:]}")
    return found, ended


def _bare(subject: Subject) -> Subject:
    """Return the subject as one whose command is complete already."""
    return dataclasses.replace(subject, region=Region.ATTACHED)


def _amounts(subject: Subject, counted: Tally) -> tuple[Amount, ...]:
    namer = Namer(subject)
    instructions: collections.Counter[str] = collections.Counter()
    calls: collections.Counter[str] = collections.Counter()
    for place, count in counted.instructions.items():
        instructions[_name(namer, *place)] += count
    for place, count in counted.calls.items():
        if "'" not in place[1]:
            calls[_name(namer, *place)] += count
    total = sum(instructions.values())
    found = [Amount(group="instructions", name="all", value=total / subject.operations)]
    for group, counts in (("instructions", instructions), ("calls", calls)):
        for name, count in counts.most_common(MOST_FUNCTIONS):
            found.append(Amount(group=group, name=name, value=count / subject.operations))
    return tuple(found)


def _name(namer: Namer, path: str, function: str) -> str:
    """Return a function's name with the object that it is in; recursion levels (``'2``) are one function."""
    plain = function.split("'", maxsplit=1)[0].split("@@", maxsplit=1)[0]
    if _ADDRESS.match(plain) and path.startswith("/"):
        table = namer.table(str(Path(path).resolve()))
        plain = (table.name_at(int(plain, 16)) if table else "") or plain
    where = namer.object_of(str(Path(path).resolve())) if path.startswith("/") else path
    return plain if where == OWN_OBJECT else f"{plain} ({where})"
