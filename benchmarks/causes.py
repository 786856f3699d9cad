# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether `swapstone explain` names planted causes: pairs of programs whose second has one added cost, and nulls. `benchmarks/causes`.

The programs are in benchmarks/causes.c. Each pair is compared and explained. Prints for each what is named first, its share with its
interval, and how the instructions compare; then the number of causes that were named first, of wrong ones that were named first, and of
nulls that named anything. The exit status is 1 if a wrong cause or a null was named with an interval that excludes 0.
Needs root, perf and valgrind.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cli import swapstone

SOURCE = Path(__file__).with_suffix(".c")
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
}
NULLS = ("turns", "copies", "faults", "unbuffered", "sleep")
"""Programs that are compared with themselves."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What explain gave for a pair.

    Attributes:
        named: the class that is named first; empty for none.
        share: its share of the difference.
        interval: of the share; None without intervals.
        how: how the instructions compare.
        evidence: all of its texts.
        answer: the first sentence.
        differs: whether the record has a difference; on a busy machine a planted cause may have no effect, such as false sharing of
            threads that never run at the same time.
    """

    named: str
    share: float
    interval: tuple[float, float] | None
    how: str
    evidence: str
    answer: str
    differs: bool = True

    def is_right(self, cause: Cause) -> bool:
        """Return whether the planted cause is named first, with what its evidence must contain."""
        how = (cause.how,) if isinstance(cause.how, str) else cause.how
        return self.named in cause.named and cause.detail in self.evidence and (how == ("",) or self.how in how)


def outcome_of(explanation: Mapping[str, Any]) -> Outcome:
    """Return what an explanation, as JSON, names first."""
    findings = explanation["findings"]
    if not findings:
        return Outcome("", 0.0, None, "", "", explanation["paragraph"], explanation.get("differs", True))
    first = findings[0]
    interval = first.get("interval")
    return Outcome(
        named=first["cause"],
        share=first["share"] or 0.0,
        interval=None if interval is None else (interval[0], interval[1]),
        how=first.get("how", ""),
        evidence=" | ".join((first["sentence"], *first["evidence"])),
        answer=explanation["paragraph"],
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


def explained(program: Path, name: str, sides: tuple[str, str], metric: str, blocks: int) -> tuple[Outcome, float]:
    """Compare and explain a pair; return what explain gave, and how long it took in seconds."""
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch:
        folder = Path(scratch)
        record = str(folder / "r")
        commands = [f"{program} {name} {side}" for side in sides]
        variables = ("--env", f"CAUSES_LIBRARIES={program.parent}")
        names = ("-n", "plain", "-n", "planted")
        swapstone(folder, "compare", *commands, *names, *variables, "--blocks", str(blocks), "--out", record)
        start = time.monotonic()
        result = swapstone(folder, "explain", record, metric, "--only", "*", "--json")
        return outcome_of(json.loads(result.stdout)["explanation"]), time.monotonic() - start


def row(name: str, found: Outcome, verdict: str, seconds: float) -> str:
    """Return a line of the table."""
    between = "" if found.interval is None else f"{found.interval[0]:.0%} to {found.interval[1]:.0%}"
    share = f"{found.share:.0%}" if found.named else ""
    return (
        f"{name:14} {verdict:6} {found.named or 'nothing':22} {share:>5} {between:14} {found.how:26} {seconds:6.0f} s"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"any of {', '.join(CAUSES)}; default: all")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each record (default: %(default)s)")
    parser.add_argument(
        "--nulls", nargs="*", metavar="CAUSE", default=list(NULLS), help="programs compared with themselves"
    )
    parser.add_argument("--verbose", action="store_true", help="print the evidence of what is named first")
    asked = parser.parse_args(arguments)
    if wrong := [name for name in (*asked.causes, *asked.nulls) if name not in CAUSES]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(CAUSES)}")
    right = confident = loud = absent = 0
    chosen = asked.causes or list(CAUSES)
    print(f"{'planted':14} {'':6} {'named first':22} {'share':>5} {'interval':14} {'instructions':26}")
    with tempfile.TemporaryDirectory(prefix="swapstone-causes-") as scratch:
        program = built(Path(scratch))
        for name in chosen:
            found, seconds = explained(program, name, ("0", "1"), CAUSES[name].metric, asked.blocks)
            good = found.is_right(CAUSES[name])
            right += good
            absent += not found.differs
            confident += bool(found.named) and found.named not in CAUSES[name].named
            print(row(name, found, "right" if good else "WRONG" if found.differs else "none", seconds), flush=True)
            if asked.verbose or (found.differs and not good):
                print(f"    {found.evidence or found.answer}", flush=True)
        for name in asked.nulls:
            found, seconds = explained(program, name, ("0", "00"), CAUSES[name].metric, asked.blocks)
            loud += bool(found.named)
            print(row(f"null {name}"[:14], found, "LOUD" if found.named else "silent", seconds), flush=True)
    print(
        f"{right} of {len(chosen) - absent} causes were named first with their evidence, and {absent} had no effect; {confident} wrong "
        f"classes were named first; {loud} of {len(asked.nulls)} nulls named a cause"
    )
    return 1 if confident or loud else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
