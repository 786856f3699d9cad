# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether `swapstone explain` names planted causes: pairs of programs whose second has one added cost, and nulls. `benchmarks/causes`.

The programs are in benchmarks/causes.c. Each pair is compared and explained. Prints for each which functions lead, and the share of the
first with its interval. `function` is the right function without the counts that name the cause. Then the number of causes that were
named, of wrong functions that were named, and of nulls that named anything. The exit status is 1 if a wrong function or a null was named,
or a pair failed. Needs root, perf and valgrind.

    benchmarks/causes                     all 30 causes and 5 nulls
    benchmarks/causes fsync lock          some causes, and the nulls
    benchmarks/causes --nulls             all causes without nulls
    benchmarks/causes --hogs 2            beside two busy loops
    benchmarks/causes --confirm           causes with a remedy: the share of the gap that it closes

Each result is stored in the folder of --out. If the command is repeated, only what is missing there is run: take another folder for
another state of the program or other settings. `table.md` there has the tables.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.shared import parser_of, table
from benchmarks.verdict_hogs import beside
from tests.e2e.cli import swapstone

from swapstone.core.model.directories import write_whole
from swapstone.parts.explain.explanation.by_function import function_text
from swapstone.parts.explain.explanation.remedy_gaps import closed_gap
from swapstone.parts.explain.model.explanation import RemedyRuns

SOURCE = Path(__file__).with_suffix(".c")
LIBRARIES = 50


@dataclasses.dataclass(frozen=True)
class Cause:
    """A planted cause.

    Attributes:
        functions: pattern for a function that leads, or for one of its callers; one is enough.
        detail: what the counts must contain; empty for none.
        metric: of the row.
        remedy: name of the one that takes it away; empty for none.
    """

    functions: str
    detail: str = ""
    metric: str = "cpu"
    remedy: str = ""


CAUSES: Mapping[str, Cause] = {
    "false-sharing": Cause("count", "false sharing", remedy="one processor"),
    "branches": Cause("branches", "mispredicted branches"),
    "stride": Cause("stride", "misses of the"),
    "columns": Cause("columns", "misses of the"),
    "huge-pages": Cause("huge_pages|page faults", remedy="huge mappings"),
    "condvar": Cause("futex|pthread_cond|alternate", "hand-off", metric="wall"),
    "lock": Cause("futex|pthread_mutex", "another thread held the lock", metric="wall"),
    "O0": Cause("slowly", "instructions"),
    "turns": Cause("compute|more_turns", "instructions"),
    "strlen": Cause("strlen", "strlen"),
    "copies": Cause("memcpy"),
    "growth": Cause("realloc", remedy="room to grow"),
    "allocations": Cause("malloc|free|allocations"),
    "unbuffered": Cause("write", "write", remedy="larger buffers"),
    "clock": Cause("clock_gettime"),
    "getppid": Cause("getppid", "getppid"),
    "open": Cause("open", "open"),
    "small-writes": Cause("write", "write"),
    "fsync": Cause("fsync", metric="wall", remedy="no forced writes"),
    "direct": Cause("read", metric="wall", remedy="page cache"),
    "faults": Cause("page faults|faults|madvise", "faults", remedy="kept mappings"),
    "mmap": Cause("page faults|mmap|munmap|mapped_buffers", remedy="kept mappings"),
    "sleep": Cause("nanosleep", metric="wall", remedy="no sleeps"),
    "nagle": Cause("read|recv", "Nagle's algorithm", metric="wall", remedy="TCP_NODELAY"),
    "divides": Cause("divides", "dependent instructions"),
    "clearing": Cause("memset"),
    "timeouts": Cause("poll", "a timer", metric="wall", remedy="no sleeps"),
    "semaphores": Cause("futex|sem_|wait_and_post", "hand-off", metric="wall"),
    "messages": Cause("read|write|messages"),
    "libraries": Cause("dlopen|_dl_|libraries"),
}
DISTURBED = "has no result to explain: disturbed"
"""Printed by explain where other processes used processors that a pair needs: on a busy machine the record has no result."""

NULLS = ("turns", "copies", "faults", "unbuffered", "sleep")
"""Programs that are compared with themselves."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """What is compared: a cause, or with `null` its plain program with itself."""

    name: str
    null: bool

    @property
    def key(self) -> str:
        """Return a name for its file."""
        return f"null-{self.name}" if self.null else self.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What explain gave for a pair.

    Attributes:
        named: the functions that lead, with their callers; empty for none.
        share: of the first in the difference.
        interval: of the share; None without intervals.
        evidence: the sentences about counts.
        answer: the first sentence.
        differs: whether the record has a difference; on a busy machine a planted cause may have no effect, such as false sharing of
            threads that never run at the same time.
    """

    named: str = ""
    share: float = 0.0
    interval: tuple[float, float] | None = None
    evidence: str = ""
    answer: str
    differs: bool = True


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a pair.

    Attributes:
        pair: it.
        verdict: ``right``; ``function``: the right function, without the counts that name the cause; ``WRONG``; ``missed`` (nothing
            was named); ``none`` (no difference in the record); ``silent``; ``LOUD`` or ``FAILED``.
        outcome: what explain gave.
        seconds: of the comparison and the explanation.
        load: average of the last minute before it.
        remedies: that were tried, as in the explanation's JSON.
    """

    pair: Pair
    verdict: str
    outcome: Outcome
    seconds: float
    load: float = 0.0
    remedies: tuple[RemedyRuns, ...] = ()


def stored(path: Path) -> Result | None:
    """Return a stored result; None if there is none, it is damaged, or the pair failed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError):
        return None
    return None if found.verdict == "FAILED" else found


def outcome_of(explanation: Mapping[str, Any]) -> Outcome:
    """Return what an explanation, as JSON, names."""
    time, differs = explanation["time"], explanation.get("differs", True)
    evidence, answer = " | ".join(explanation["evidence"]), explanation["sentence"]
    leading = time["functions"][: time["leading"]] if time else []
    if not leading:
        return Outcome(answer=answer, differs=differs, evidence=evidence)
    first, whole = leading[0], time["measured"][1] - time["measured"][0]
    low, high = sorted(end / whole for end in first["interval"] or (whole, whole))
    names = [each for one in leading for each in (one, *one["callers"])]
    return Outcome(
        named=", ".join(dict.fromkeys(function_text(each["symbol"], each["object"]) for each in names)),
        share=(first["candidate"] - first["baseline"]) / whole,
        interval=(low, high) if first["interval"] else None,
        evidence=evidence,
        answer=answer,
    )


def built(folder: Path) -> Path:
    """Compile the programs, and the libraries that one of them loads."""
    program = folder / "causes"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, SOURCE, "-ldl"], check=True)
    source = folder / "library.c"
    source.write_text("int causes_value = 7;\nint causes_function(void) { return causes_value; }\n")
    first = folder / "causes-0.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", first, source], check=True)
    for number in range(1, LIBRARIES):
        (folder / f"causes-{number}.so").write_bytes(first.read_bytes())
    return program


def explained(program: Path, pair: Pair, asked: argparse.Namespace) -> Result:
    """Compare and explain a pair; a failure is a result, too."""
    cause, start, load = CAUSES[pair.name], time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch:
        folder = Path(scratch)
        commands = [f"{program} {pair.name} {side}" for side in ("0", "00" if pair.null else "1")]
        words = ("-n", "plain", "-n", "planted", "--env", f"CAUSES_LIBRARIES={program.parent}")
        confirm = ("--confirm",) if asked.confirm and not pair.null else ()
        try:
            swapstone(folder, "compare", *commands, *words, "--blocks", str(asked.blocks), "--out", f"{folder}/r")
            found = swapstone(folder, "explain", f"{folder}/r", cause.metric, "--only", "*", "--json", *confirm)
            content = json.loads(found.stdout)
        except (AssertionError, ValueError, TimeoutError, subprocess.TimeoutExpired) as error:
            disturbed = DISTURBED in str(error)
            problem = Outcome(answer=str(error)[-2000:], differs=not disturbed)
            verdict = verdict_of(problem, None if pair.null else cause) if disturbed else "FAILED"
            return Result(pair, verdict, problem, time.monotonic() - start, load)
    outcome = outcome_of(content["explanation"])
    verdict = verdict_of(outcome, None if pair.null else cause)
    remedies = msgspec.convert(content["measured"].get("remedies") or (), tuple[RemedyRuns, ...])
    return Result(pair, verdict, outcome, time.monotonic() - start, load, remedies)


def verdict_of(found: Outcome, cause: Cause | None) -> str:
    """Return the verdict on an outcome, as in `Result`; the cause is None for a null."""
    if cause is None:
        return "LOUD" if found.named else "silent"
    if not found.named:
        return "missed" if found.differs else "none"
    if not re.search(cause.functions, found.named):
        return "WRONG"
    return "right" if cause.detail in found.evidence else "function"


def chosen(asked: argparse.Namespace) -> list[Pair]:
    """Return the pairs to run, causes before nulls."""
    causes = asked.causes or [name for name, cause in CAUSES.items() if cause.remedy or not asked.confirm]
    nulls = asked.nulls if asked.nulls is not None else () if asked.confirm else NULLS
    return [*(Pair(name, null=False) for name in causes), *(Pair(name, null=True) for name in nulls)]


def run_all(pairs: Sequence[Pair], asked: argparse.Namespace) -> list[Result]:
    """Run what has no stored result, and return the results of all. Progress with the time that is left goes to standard error."""
    found = {pair: result for pair in pairs if (result := stored(asked.out / f"{pair.key}.json")) is not None}
    left = [pair for pair in pairs if pair not in found]
    loops = "while :; do :; done & " * (asked.hogs if left else 0)
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch, beside(["sh", "-c", f"{loops}wait"]):
        program = built(Path(scratch)) if left else Path()
        for number, pair in enumerate(left):
            seconds = [result.seconds for result in found.values()]
            eta = f", about {sum(seconds) / len(seconds) * (len(left) - number) / 60:.0f} min left" if seconds else ""
            print(f"{pair.key}, {len(found) + 1} of {len(pairs)}{eta}", file=sys.stderr, flush=True)
            found[pair] = explained(program, pair, asked)
            write_whole(asked.out / f"{pair.key}.json", msgspec.json.encode(found[pair]))  # a kill leaves no part of it
            print(*row(found[pair]), f"{found[pair].seconds:.0f} s", sep="; ", flush=True)
            if found[pair].verdict not in {"right", "none", "silent"}:
                print(f"    {found[pair].outcome.evidence or found[pair].outcome.answer}", flush=True)
    return [found[pair] for pair in pairs]


def row(result: Result) -> tuple[str, ...]:
    """Return the cells of a result."""
    found = result.outcome
    share = f"{100 * found.share:.0f} %" if found.named else ""
    return result.pair.key, result.verdict, found.named or "nothing", share, _between(found.interval)


def _between(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"


def remedy_row(result: Result) -> tuple[str, ...]:
    """Return the cells of the remedies of a result: that which closes most of the gap, the share with its interval, and the others."""
    gaps = {each.name: gap for each in result.remedies if (gap := closed_gap(each)) is not None and gap.interval}
    best = max(gaps, key=lambda name: gaps[name].share, default=None)
    others = ", ".join(each.name for each in result.remedies if each.name != best)
    if best is None:
        return result.pair.key, "none measured", "", "", others
    return result.pair.key, best, f"{100 * gaps[best].share:.0f} %", _between(gaps[best].interval), others


def tables(results: Sequence[Result]) -> str:
    """Return the results as Markdown: the causes and nulls, and the remedies if any were tried."""
    loads = [each.load for each in results]
    parts = [
        f"{len(os.sched_getaffinity(0))} processors, load {min(loads):.1f} to {max(loads):.1f}. {summary(results)}.",
        table(("planted", "verdict", "functions and callers", "share", "interval"), map(row, results)),
    ]
    if tried := [remedy_row(each) for each in results if each.remedies]:
        parts.append(table(("planted", "remedy", "closes", "interval", "tried as well"), tried))
    return "\n\n".join(parts) + "\n"


def summary(results: Sequence[Result]) -> str:
    """Return how many results have each verdict, as a sentence."""
    found = collections.Counter(each.verdict for each in results)
    nulls = sum(each.pair.null for each in results)
    return (
        f"{found['right']} of {len(results) - nulls - found['none']} causes were named with their evidence, {found['function']} by "
        f"the right function alone, and {found['none']} had no effect; {found['WRONG']} wrong functions were named; "
        f"{found['LOUD']} of {nulls} nulls named a cause; {found['FAILED']} pairs failed"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    parser = parser_of("causes", __doc__)
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"any of {', '.join(CAUSES)}; default: all")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each record (default: %(default)s)")
    parser.add_argument("--nulls", nargs="*", metavar="CAUSE", help="programs compared with themselves")
    parser.add_argument("--hogs", type=int, default=0, help="number of busy loops beside it")
    parser.add_argument("--confirm", action="store_true", help="try remedies; default: the causes that have one")
    parser.add_argument("--out", type=Path, default=Path("causes-results"), help="folder (default: %(default)s)")
    asked = parser.parse_args(arguments)
    pairs = chosen(asked)
    if wrong := [pair.name for pair in pairs if pair.name not in CAUSES]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(CAUSES)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        results = run_all(pairs, asked)
    except KeyboardInterrupt:
        print(f"\nStopped. The results so far are in {asked.out}. Repeat the command to go on.", file=sys.stderr)
        return 130
    (asked.out / "table.md").write_text(tables(results))
    print(f"\n{tables(results)}\nThe table is in {asked.out / 'table.md'}.")
    return 1 if {each.verdict for each in results} & {"WRONG", "LOUD", "FAILED"} else 0
