# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is stated on the exact clock about programs whose difference is known: planted differences, and builds of the same work.

    benchmarks/exact-rows                                 planted differences, and 100 pairs without one
    benchmarks/exact-rows --kernel rt --arch arm64        in other machines
    benchmarks/exact-rows --nulls 12 --results FILE       fewer; what the file has is not run again

Three programs (a loop; sorted and hashed texts on the heap; system calls, pages and processes) are compared with copies that do 0.02,
0.1, 0.5 or 1 % more work, one system call more in 1000, or touch one page more in 100; and with builds of the same work: another build
ID, none, debug information, no symbols, other names, other paths, another order of linking, another version string, an unused
function, unrelated files beside. Each pair is one `swapstone compare --target vm`. A stated row is one whose verdict is a difference; of
the same work, rows of the files' sizes are left out, for such builds do differ in size. The exit status is 1 if a row states a difference
of the same work, or if none states a planted one.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from benchmarks.shared import TOP, children_s, parser_of, swapstone
from benchmarks.shared import table as table_of

SOURCE = TOP / "benchmarks" / "exact_programs.c"
PROGRAMS = {"loop": 30_000, "texts": 20_000, "calls": 10_000}
"""Units of work by program: they execute 83, 29 and 28 M instructions in user mode (callgrind)."""

PLANTED: dict[str, tuple[tuple[str, float], ...]] = {
    **{f"{share:g} % more work": (("work", share / 100),) for share in (0.02, 0.1, 0.5, 1.0)},
    "one system call more in 1000": (("calls", 1),),
    "one page more in 100": (("pages", 1),),
}
WAYS: dict[str, tuple[str, ...]] = {
    "another build ID": ("-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233",),
    "no build ID": ("-Wl,--build-id=none",),
    "debug information": ("-g",),
    "stripped": ("-s",),
    "other names of functions": ("-DUNIT=unit_by_another_name",),
    "another version string": ('-DVERSION="1.0.1"',),
    "an unused function": ("-DUNUSED",),
    "the files in another order": ("ORDER",),
    "another name": ("NAME",),
    "another path of equal length": ("PATH",),
    "a longer path": ("LONGER",),
    "no text of the compiler": ("-fno-ident",),
    "unrelated files beside": ("BESIDE",),
    "bytes appended to the file": ("APPENDED",),
}
DIFFERENCES = frozenset({"better", "worse", "changed", "mixed", "below margin", "worse tail", "better tail"})
SIZES = frozenset({"file", "text", "data", "bss"})
STATES_WORK = ("instructions", "wall", "cpu")
STATES_COUNT = {"calls": ("syscalls", "wall"), "pages": ("page_faults", "wall")}


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two programs: `way` is how the second one is built, `planted` what it does more; empty for the same work."""

    program: str
    way: str
    planted: tuple[tuple[str, float], ...]
    number: int = 0

    @property
    def name(self) -> str:
        """Return a text that no other pair has."""
        return f"{self.program}, {self.way}" + (f" ({self.number})" if self.number else "")


class Row(msgspec.Struct, frozen=True):
    """A row of a report: its effect and range as printed in the export, the verdict."""

    metric: str
    verdict: str
    effect: str
    low: str
    high: str


class Compared(msgspec.Struct, frozen=True):
    """What a comparison gave.

    Attributes:
        status: exit status.
        message: what it printed to standard error, if the status is not 0.
        answer: the first sentence of its report.
        rows: of its export.
        seconds: processor time of the command.
    """

    status: int
    message: str
    answer: str
    rows: list[Row]
    seconds: float


def main(arguments: Sequence[str]) -> int:
    """Run the pairs; return the exit status."""
    parser = parser_of("exact-rows", __doc__)
    parser.add_argument("--nulls", type=int, default=100, metavar="N", help="pairs of the same work [%(default)s]")
    parser.add_argument("--kernel", default="generic", help="of the machine [%(default)s]")
    parser.add_argument("--arch", default="", help="of the machine [this one's]")
    parser.add_argument("--compiler", default="cc", help="that makes programs for it [%(default)s]")
    parser.add_argument("--replicates", type=int, default=2, metavar="N", help="of each pair [%(default)s]")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep what each comparison answers")
    options = parser.parse_args(arguments)
    file: Path | None = options.results
    found = msgspec.json.decode(file.read_bytes(), type=dict[str, Compared]) if file and file.exists() else {}
    pairs = [
        *(Pair(program, way, planted) for program in PROGRAMS for way, planted in PLANTED.items()),
        *itertools.islice(_nulls(), options.nulls),
    ]
    machine = [f"--target=vm:{options.kernel}", *([f"--arch={options.arch}"] if options.arch else [])]
    begun, left = time.monotonic(), [pair for pair in pairs if pair.name not in found]
    for done, pair in enumerate(left):
        rest = (time.monotonic() - begun) / done * (len(left) - done) / 60 if done else 0.0
        print(f"{done + 1} of {len(left)}: {pair.name}; {rest:.0f} min left", file=sys.stderr)
        found[pair.name] = _compared(pair, options.compiler, [*machine, f"--blocks={options.replicates}"])
        if file:
            file.write_bytes(msgspec.json.encode(found))
    return _report({pair: found[pair.name] for pair in pairs})


def _nulls() -> Iterator[Pair]:
    for number in itertools.count():
        for program, way in itertools.product(PROGRAMS, WAYS):
            yield Pair(program, way, (), number)


def _compared(pair: Pair, compiler: str, options: Sequence[str]) -> Compared:
    with tempfile.TemporaryDirectory(prefix="exact-rows-") as folder:
        top = Path(folder)
        first = _built(top / "old", pair.program, compiler, (), ())
        second = _built(top / "new", pair.program, compiler, pair.planted, WAYS.get(pair.way, ()))
        # Another number of a null is another program, of more turns on both sides.
        turns = str(PROGRAMS[pair.program] + 997 * pair.number)
        began = children_s()
        words = ["compare", f"{first} {turns}", f"{second} {turns}", *options, "--out", str(top / "record")]
        made = swapstone(words, top, limit_s=1800)
        seconds = children_s() - began
        if made.returncode not in {0, 4}:
            return Compared(made.returncode, made.stderr[-2000:], "", [], seconds)
        exported = swapstone(["export", str(top / "record"), "--format", "csv"], top, limit_s=120)
        shown = swapstone(["show", str(top / "record")], top, limit_s=120).stdout
        lines = csv.DictReader(io.StringIO(exported.stdout))
        rows = [Row(*(line[each] for each in ("metric", "verdict", "effect", "low", "high"))) for line in lines]
        answer = " ".join(shown.partition("\n\n")[0].split())
        return Compared(made.returncode, made.stderr[-2000:] if made.returncode else "", answer, rows, seconds)


def _built(
    folder: Path, program: str, compiler: str, planted: tuple[tuple[str, float], ...], way: Sequence[str]
) -> Path:
    """Build a program in a folder of its own, and return its path."""
    below = next((name for word, name in (("PATH", "p2"), ("LONGER", "p1-of-a-longer-name")) if word in way), "p1")
    place = folder / below / ("prog_by_name" if "NAME" in way else "prog")
    place.parent.mkdir(parents=True)
    units = folder / "unit.o", folder / "main.o"
    flags = [word for word in way if word.startswith("-")]
    defines = [f"-D{name.upper()}={value!r}" for name, value in planted]
    for unit, part in zip(units, ("PART_UNIT", "PART_MAIN"), strict=True):
        _run(compiler, "-O2", f"-D{part}", f"-DPROGRAM={program}", *defines, *flags, "-c", SOURCE, "-o", unit)
    linked = units[::-1] if "ORDER" in way else units
    _run(compiler, *flags, *linked, "-o", place)
    if "APPENDED" in way:
        with place.open("ab") as stream:
            stream.write(bytes(range(256)) * 80)
    if "BESIDE" in way:
        for number in range(3):
            (place.parent / f"other{number}").write_bytes(os.urandom(1 << (16 + number)))
    return place


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.stderr[:500]}")


def _report(found: dict[Pair, Compared]) -> int:
    wrong: list[str] = []
    for pair, made in found.items():
        if not made.rows:
            wrong.append(f"{pair.name}: no row: {made.message}")
    lines = []
    for pair, made in found.items():
        if pair.planted:
            names = STATES_COUNT.get(pair.planted[0][0], STATES_WORK)
            rows = {row.metric: row for row in made.rows if row.metric in names}
            lines.append([pair.name, *(_cell(rows.get(name)) for name in names[:2]), made.answer[:60]])
            if rows and not any(row.verdict in DIFFERENCES for row in rows.values()):
                wrong.append(f"{pair.name}: not stated")
    print(table_of(("planted", "first row", "second row", "answer"), lines))
    nulls = {pair: made for pair, made in found.items() if not pair.planted}
    judged = [(pair, row) for pair, made in nulls.items() for row in made.rows if row.metric not in SIZES]
    stated = [(pair, row) for pair, row in judged if row.verdict in DIFFERENCES]
    wrong += [f"{pair.name}: {row.metric} {row.verdict} {row.effect}" for pair, row in stated]
    print(f"\n{len(nulls)} pairs of the same work, {len(judged)} rows: {len(stated)} differences stated")
    seconds = sorted(made.seconds for made in found.values())
    print(f"processor time of a comparison: median {seconds[len(seconds) // 2]:.2f} s, largest {seconds[-1]:.2f} s")
    for line in wrong:
        print(f"wrong: {line}")
    return int(bool(wrong))


def _cell(row: Row | None) -> str:
    return f"{float(row.effect) - 1:+.6f} {row.verdict}" if row and row.effect else "no such row"
