# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether `swapstone explain` names planted causes: pairs of programs whose second has one added cost, and nulls. `benchmarks/causes`.

The programs are in benchmarks/causes.c and more_causes.c. Each pair is compared and explained. Prints for each what is named first, its
share with its interval, and how the instructions compare. `class` is the right class without the evidence that names the cause, and
`counts` are numbers of calls without a share of the difference. Then the number of causes that were named first, of wrong ones that were
named first, and of nulls that named anything; then what each instrument cost. The exit status is 1 if a wrong cause or a null was named,
or a pair failed. Needs root, perf and valgrind.

    benchmarks/causes                     all 57 causes and 5 nulls
    benchmarks/causes fsync lock          some causes, and the nulls
    benchmarks/causes --nulls             all causes without nulls
    benchmarks/causes --hogs 2            beside two busy loops
    benchmarks/causes --confirm           causes with a remedy: the share of the gap that it closes

Each result is stored in the folder of --out. If the command is repeated, only what is missing is run, unless the program or the
settings have changed: such results are of another state and are kept apart. `table.md` there has the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.causes_results import (
    CONFIRMED,
    Outcome,
    Result,
    outcome_of,
    row,
    state_of,
    stored,
    tables,
    with_slowdowns,
)
from tests.e2e.cli import swapstone

SOURCES = (Path(__file__).with_suffix(".c"), Path(__file__).with_name("more_causes.c"))
LIBRARIES = 50


@dataclasses.dataclass(frozen=True)
class Cause:
    """A planted cause.

    Attributes:
        named: the classes of the ledger of which one must be named first.
        detail: what a line of that class's evidence must contain; empty for none.
        how: how the instructions must compare, one of several; empty for anything.
        metric: of the row.
    """

    named: tuple[str, ...]
    detail: str = ""
    how: str | tuple[str, ...] = ""
    metric: str = "cpu"


OWN, CALLS = ("own code",), ("system calls",)
SLOWER = "same instructions, slower"

CAUSES: Mapping[str, Cause] = {
    "false-sharing": Cause(OWN, "false sharing", SLOWER),
    "branches": Cause(OWN, "mispredicted branches", SLOWER),
    "stride": Cause(OWN, "misses of the", SLOWER),
    "columns": Cause(OWN, "misses of the", SLOWER),
    "huge-pages": Cause((*OWN, "page faults")),
    "condvar": Cause(("waiting", "locks"), "futex", "hand-off between threads", metric="wall"),
    "lock": Cause(("locks",), "futex", "a lock that another thread holds", metric="wall"),
    "O0": Cause(
        OWN, "instructions", ("more instructions", "more instructions, and slower ones")
    ),  # values are in memory
    "turns": Cause(OWN, "instructions", "more instructions"),
    "strlen": Cause(("copies and strings",), "strlen"),
    "copies": Cause(("copies and strings",), "memcpy"),
    "growth": Cause(("allocator",), "realloc"),
    "allocations": Cause(("allocator",), "malloc"),
    "unbuffered": Cause(CALLS, "write"),
    "clock": Cause(CALLS, "clock_gettime"),
    "getppid": Cause(CALLS, "getppid"),
    "open": Cause(CALLS, "open"),
    "small-writes": Cause(CALLS, "write"),
    "fsync": Cause((*CALLS, "waiting"), "fsync", metric="wall"),
    "direct": Cause((*CALLS, "waiting"), "read", metric="wall"),
    "faults": Cause(("page faults",), "faults"),
    "mmap": Cause(("page faults", *CALLS), ""),
    "sleep": Cause(("waiting",), "nanosleep", "sleep or time-out", metric="wall"),
    "nagle": Cause(("waiting",), "read", "Nagle's algorithm with delayed ACK", metric="wall"),
    "divides": Cause(OWN, "dependent instructions", SLOWER),
    "clearing": Cause(("copies and strings",), "memset"),
    "timeouts": Cause(("waiting",), "poll", "sleep or time-out", metric="wall"),
    "semaphores": Cause(("waiting", "locks"), "futex", "hand-off between threads", metric="wall"),
    "messages": Cause(CALLS, "read"),
    "libraries": Cause(("start-up and loading", "page faults", *CALLS)),
    "spin-lock": Cause(("locks",), "pthread_spin_lock"),
    "retries": Cause(("waiting",), "nanosleep", "sleep or time-out", metric="wall"),
    "yields": Cause(CALLS, "sched_yield"),
    "threads": Cause(("threads and processes", "page faults", *CALLS), "clone"),
    "uncontended": Cause(("locks",), "pthread_mutex_lock"),
    "shootdown": Cause(CALLS, "mprotect"),
    "forks": Cause(("threads and processes", "page faults", *CALLS), "clone"),
    "timer-signals": Cause(("signals",), "rt_sigreturn"),
    "raised-signals": Cause(("signals", *CALLS), "tgkill"),
    "closed-descriptors": Cause(CALLS, "close"),
    "store-forwarding": Cause(OWN, "just stored in parts", SLOWER),
    "atomics": Cause(OWN, "atomic", SLOWER),
    "by-value": Cause((*OWN, "copies and strings"), ""),
    "zeroing": Cause(("copies and strings",), "memset"),
    "insertion": Cause(("copies and strings",), "memmove"),
    "collisions": Cause(OWN, "instructions", ("more instructions", "more instructions, and slower ones")),
    "stdio-locks": Cause(("input and output", "locks"), "getc"),
    "backtracking": Cause(("regular expressions",), ""),
    "conversions": Cause(("numbers and text",), "iconv"),
    "local-times": Cause(CALLS, "stat"),
    "formatted": Cause(("numbers and text",), "printf"),
    "environment": Cause(("C library, other", "copies and strings"), "getenv"),
    "proc-reads": Cause(CALLS, "read"),
    "many-descriptors": Cause(CALLS, "poll"),
    "timer-slack": Cause(("waiting",), "nanosleep", "sleep or time-out", metric="wall"),
    "small-buffers": Cause((*CALLS, "waiting"), "", metric="wall"),
    "cold-cache": Cause(("waiting", *CALLS), "read", metric="wall"),
}
DISTURBED = "has no result to explain: disturbed"
"""Printed by explain where other processes used processors that a pair needs: on a busy machine the record has no result."""

NULLS = ("turns", "copies", "faults", "unbuffered", "sleep")
"""Programs that are compared with themselves."""


def built(folder: Path) -> Path:
    """Compile the programs, and the libraries that one of them loads."""
    program = folder / "causes"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, *SOURCES, "-ldl"], check=True)
    source = folder / "library.c"
    source.write_text("int causes_value = 7;\nint causes_function(void) { return causes_value; }\n")
    first = folder / "causes-0.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", first, source], check=True)
    for number in range(1, LIBRARIES):
        (folder / f"causes-{number}.so").write_bytes(first.read_bytes())
    return program


@dataclasses.dataclass(frozen=True)
class Pair:
    """What is compared: a cause, or with `null` its plain program with itself."""

    name: str
    null: bool

    @property
    def key(self) -> str:
        """Return a name for its file."""
        return f"null-{self.name}" if self.null else self.name


def explained(program: Path, pair: Pair, asked: argparse.Namespace) -> Result:
    """Compare and explain a pair; a failure is a result, too."""
    cause, start = CAUSES[pair.name], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch:
        folder = Path(scratch)
        record = str(folder / "r")
        commands = [f"{program} {pair.name} {side}" for side in ("0", "00" if pair.null else "1")]
        variables = ("--env", f"CAUSES_LIBRARIES={program.parent}")
        names = ("-n", "plain", "-n", "planted")
        confirm = ("--confirm",) if asked.confirm and not pair.null else ()
        load = os.getloadavg()[0]
        try:
            swapstone(folder, "compare", *commands, *names, *variables, "--blocks", str(asked.blocks), "--out", record)
            found = swapstone(folder, "explain", record, cause.metric, "--only", "*", "--json", *confirm)
            content = json.loads(found.stdout)
        except (AssertionError, ValueError, TimeoutError, subprocess.TimeoutExpired) as error:
            disturbed = DISTURBED in str(error)
            problem = Outcome("", 0.0, None, "", "", str(error)[-2000:], differs=not disturbed)
            verdict = "FAILED" if not disturbed else "silent" if pair.null else "none"
            return Result(pair.name, pair.null, verdict, problem, time.monotonic() - start, load)
    outcome = outcome_of(content["explanation"])
    verdict = verdict_of(outcome, None if pair.null else cause)
    costs, remedies = with_slowdowns(content["costs"], content["runs"]), tuple(content["remedies"] or ())
    return Result(pair.name, pair.null, verdict, outcome, time.monotonic() - start, load, costs, remedies)


def verdict_of(found: Outcome, cause: Cause | None) -> str:
    """Return the verdict on an outcome, as in `Result`; the cause is None for a null."""
    if cause is None:
        return "LOUD" if found.named else "silent"
    if is_right(found, cause):
        return "right"
    if not found.named:
        return "missed" if found.differs else "none"
    return "class" if found.named in cause.named else "WRONG" if found.share else "counts"


def is_right(found: Outcome, cause: Cause) -> bool:
    """Return whether the planted cause is named first, with what its evidence must contain."""
    how = (cause.how,) if isinstance(cause.how, str) else cause.how
    return found.named in cause.named and cause.detail in found.evidence and (how == ("",) or found.how in how)


@contextlib.contextmanager
def hogs(number: int) -> Iterator[None]:
    """Run busy loops."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(number)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def chosen(asked: argparse.Namespace) -> list[Pair]:
    """Return the pairs to run, causes before nulls."""
    causes = asked.causes or list(CONFIRMED if asked.confirm else CAUSES)
    nulls = [] if asked.confirm and asked.nulls is None else NULLS if asked.nulls is None else asked.nulls
    return [*(Pair(name, null=False) for name in causes), *(Pair(name, null=True) for name in nulls)]


def run_all(pairs: Sequence[Pair], folder: Path, asked: argparse.Namespace) -> list[Result]:
    """Run what has no stored result, and return the results of all. Progress with the time that is left goes to standard error."""
    found = {pair: result for pair in pairs if (result := stored(folder / f"{pair.key}.json")) is not None}
    left = [pair for pair in pairs if pair not in found]
    if found:
        print(f"{len(found)} of {len(pairs)} results are in {folder}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch, hogs(asked.hogs if left else 0):
        program = built(Path(scratch)) if left else Path()
        for number, pair in enumerate(left):
            seconds = [result.seconds for result in found.values()]
            eta = f", about {sum(seconds) / len(seconds) * (len(left) - number) / 60:.0f} min left" if seconds else ""
            print(f"{pair.key}, {len(found) + 1} of {len(pairs)}{eta}", file=sys.stderr, flush=True)
            found[pair] = explained(program, pair, asked)
            found[pair].store(folder / f"{pair.key}.json")
            print(row(found[pair]), flush=True)
            if asked.verbose or found[pair].verdict in {"WRONG", "class", "counts", "missed", "FAILED", "LOUD"}:
                print(f"    {found[pair].outcome.evidence or found[pair].outcome.answer}", flush=True)
    return [found[pair] for pair in pairs]


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/causes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"any of {', '.join(CAUSES)}; default: all")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each record (default: %(default)s)")
    parser.add_argument("--nulls", nargs="*", metavar="CAUSE", help="programs compared with themselves")
    parser.add_argument("--hogs", type=int, default=0, help="number of busy loops beside it")
    parser.add_argument("--confirm", action="store_true", help=f"try remedies; default causes: {', '.join(CONFIRMED)}")
    parser.add_argument("--out", type=Path, default=Path("causes-results"), help="folder (default: %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="print the evidence of what is named first")
    asked = parser.parse_args(arguments)
    pairs = chosen(asked)
    if wrong := [pair.name for pair in pairs if pair.name not in CAUSES]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(CAUSES)}")
    state = state_of(blocks=asked.blocks, hogs=asked.hogs, confirm=asked.confirm)
    folder = asked.out / state
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'planted':14} {'':6} {'named first':22} {'share':>5} {'interval':14} {'instructions':26}")
    try:
        results = run_all(pairs, folder, asked)
    except KeyboardInterrupt:
        done = sum((folder / f"{pair.key}.json").is_file() for pair in pairs)
        print(
            f"\nStopped: {done} of {len(pairs)} results are in {folder}. Repeat the command to go on.", file=sys.stderr
        )
        return 130
    causes, nulls = [each for each in results if not each.null], [each for each in results if each.null]
    right = sum(each.verdict == "right" for each in causes)
    absent = sum(each.verdict == "none" for each in causes)
    classes = sum(each.verdict == "class" for each in causes)
    confident = sum(each.verdict == "WRONG" for each in causes)
    loud = sum(each.verdict == "LOUD" for each in nulls)
    failed = sum(each.verdict == "FAILED" for each in results)
    summary = (
        f"{right} of {len(causes) - absent} causes were named first with their evidence, {classes} by the right class alone, and {absent} "
        f"had no effect; {confident} wrong classes were named first; {loud} of {len(nulls)} nulls named a cause; {failed} pairs failed"
    )
    text = tables(results, state, summary)
    (folder / "table.md").write_text(text)
    print(f"\n{text}\nThe table is in {folder / 'table.md'}.")
    return 1 if confident or loud or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
