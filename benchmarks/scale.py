# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time and memory of reading large records, of queries over many records, and of reading the symbols of large programs.

    benchmarks/scale                          records of 10,000 and 100,000 runs, 5,000 records, 1,000,000 symbols: some minutes
    benchmarks/scale --runs 1000000           one of a million runs (6 GB on disk, and as much of the page cache)
    benchmarks/scale --only symbols           the symbols alone: some seconds
    benchmarks/scale --before CHECKOUT        the same commands by another version of Swapstone too, and the ratios

The records are made from one that the fake target gives: its blocks are repeated with new numbers, each time with the same noise drawn
again, and its lines are chained as the writer does. Each command runs in a process of its own, with an empty cache folder the first time.
Beside a time stands its ratio to that of the smallest record per run: 1.00 is linear. For symbols it is that of the smallest file per
symbol, and what a file with one symbol takes is subtracted from all.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from tools.large_elf import elf_with_functions

from swapstone.model import Run, Sample
from swapstone.record import load
from swapstone.record.record_format import META, RUNS, SEAL, Line, chain_value

TOP = Path(__file__).resolve().parent.parent
SPEC = "[[behaviour]]\nwall_ns = 1_000_000\nnoise = 0.02\n"
PROGRAM = (sys.executable, "-m", "swapstone")
BLOCKS = 20

AGED_S = 3.0
"""Columns are not kept of a record that changed so recently (`swapstone.session.run_store.RECENT_NS`)."""

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a command took: seconds of elapsed and of processor time, and the peak resident size in bytes."""

    elapsed_s: float
    cpu_s: float
    peak: int

    def __str__(self) -> str:
        return f"{self.elapsed_s:8.2f} s  CPU {self.cpu_s:8.2f} s  peak {self.peak / MIB:7.0f} MiB"


def cost_of(arguments: Sequence[str], folder: Path, checkout: Path = TOP, program: Sequence[str] = PROGRAM) -> Cost:
    """Run Swapstone in a folder, with a cache folder in it.

    Args:
        arguments: of the command.
        folder: current folder of the command.
        checkout: whose `src` is run.
        program: what the arguments are for.

    Raises:
        RuntimeError: it failed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"),
        "SWAPSTONE_RECORDS": str(folder / "records"),
        "XDG_CACHE_HOME": str(folder / f"cache-{hashlib.sha256(bytes(checkout)).hexdigest()[:8]}"),
    }
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*program, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = time.monotonic() - start
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"swapstone {' '.join(arguments)}: {errors.read().decode(errors='replace')[-500:]}")
    return Cost(elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def template(folder: Path, blocks: int = BLOCKS) -> Path:
    """Make a small record on the fake target; return its folder."""
    (folder / "spec.toml").write_text(SPEC)
    only = ("--only", "b_malloc_tiny*", "--only", "b_string_strlen")
    record = folder / "template"
    words = ("compare", "libc=glibc,musl", "--target", "fake:spec.toml", *only, "--blocks", str(blocks), "--seed", "1")
    cost_of((*words, "--out", str(record)), folder)
    return record


def repeated(runs: Sequence[Run], wanted: int, seed: int = 1) -> Iterator[Run]:
    """Yield at least `wanted` runs, whole blocks: those of a record, and then their blocks again with new numbers and new noise.

    Args:
        runs: of the record, block 0 first.
        wanted: number of runs.
        seed: of the noise.
    """
    yield from runs
    made, last = len(runs), max(run.trial.block for run in runs)
    counted = [run for run in runs if run.trial.block > 0]
    random = np.random.default_rng(seed)
    repeat = 1
    while made < wanted:
        noise = np.exp(random.normal(0, 0.02, len(counted))).tolist()
        for run, factor in zip(counted, noise, strict=True):
            trial = msgspec.structs.replace(run.trial, block=run.trial.block + repeat * last)
            samples = tuple(
                Sample(metric=each.metric, values=tuple(value * factor for value in each.values))
                if each.metric in ("wall", "cpu")
                else each
                for each in run.samples
            )
            yield msgspec.structs.replace(run, trial=trial, samples=samples)
        made, repeat = made + len(counted), repeat + 1


def enlarge(record: Path, wanted: int) -> int:
    """Give a record more runs, and remove its seal; return their number."""
    runs = load(record).runs
    chain, number = "", 0
    with (record / RUNS).open("wb") as out:
        for number, run in enumerate(repeated(runs, wanted), start=1):
            encoded = run.encoded()
            previous, chain = chain, chain_value(number, chain, encoded)
            line = Line(number=number, previous=previous, chain=chain, run=msgspec.Raw(encoded))
            out.write(msgspec.json.encode(line) + b"\n")
    (record / SEAL).unlink(missing_ok=True)
    return number


def copies(record: Path, root: Path, count: int) -> None:
    """Fill a folder with copies of a record that have identities of their own."""
    for number in range(count):
        path = root / f"record-{number:05}"
        shutil.copytree(record, path, ignore=shutil.ignore_patterns("raw", SEAL))
        meta = msgspec.json.decode((path / META).read_bytes())
        (path / META).write_bytes(msgspec.json.encode(meta | {"id": f"{meta['id']}-{number}"}))


SHOW = ("show", "--all")
REPEATED = (SHOW, ("report", "--out", "report.html"), ("export", "--format", "csv"))


def large_records(folder: Path, sizes: Sequence[int], before: Path | None, before_runs: int) -> None:
    """Print the cost of commands on a record, by its number of runs.

    Args:
        folder: for the records.
        sizes: numbers of runs.
        before: checkout of another version; None for none.
        before_runs: the largest record that the other version reads.
    """
    small = template(folder)
    per_run: dict[str, float] = {}
    print("reading one record")
    for wanted in sizes:
        record = folder / "large"
        shutil.rmtree(record, ignore_errors=True)
        shutil.copytree(small, record)
        runs = enlarge(record, wanted)
        print(f"  {runs:,} runs, {(record / RUNS).stat().st_size / MIB:.0f} MiB")
        time.sleep(AGED_S)
        old = {}
        if before is not None and wanted <= before_runs:
            for words in REPEATED:
                old[words[0]] = cost_of((words[0], str(record), *words[1:]), folder, before)
                print(f"    {words[0]:8} before {old[words[0]]}", flush=True)
        for turn, commands in (("first", (SHOW,)), ("again", REPEATED)):
            for words in commands:
                found = cost_of((words[0], str(record), *words[1:]), folder)
                place = f"{words[0]} {turn}"
                text = f"per run x {found.cpu_s / runs / per_run.setdefault(place, found.cpu_s / runs):.2f}"
                if words[0] in old:
                    earlier = old[words[0]]
                    text += f", before / now: time {earlier.elapsed_s / found.elapsed_s:.1f}, memory {earlier.peak / found.peak:.1f}"
                print(f"    {words[0]:8} {turn}  {found}  {text}", flush=True)


def many_records(folder: Path, count: int, before: Path | None) -> None:
    """Print the cost of queries over many records, the first and the second time, and before in another version."""
    root = folder / "records"
    root.mkdir()
    copies(template(folder, blocks=2), root, count)
    print(f"queries over {count:,} records")
    queries = {
        "records": "select state, count(*) from records group by all",
        "runs": "select count(*) from runs where status <> 'ok'",
        "comparisons": "select verdict, count(*) from comparisons group by all",
    }
    versions = ((TOP, ("first", "again")),) if before is None else ((before, ("before",)), (TOP, ("first", "again")))
    for name, sql in queries.items():
        costs: list[Cost] = []
        for checkout, turns in versions:
            for turn in turns:
                costs.append(cost_of(("query", sql), folder, checkout))
                print(
                    f"    {name:12} {turn:6} {costs[-1]}  first / this {costs[0].elapsed_s / costs[-1].elapsed_s:.1f}",
                    flush=True,
                )


READER = (
    "import sys; import numpy; from pathlib import Path; from swapstone.factors.facts import read_facts; "
    "from swapstone.instruments.symbol_tables import table_of; file = Path(sys.argv[1]); "
    "assert read_facts(file) and table_of(file).name_at(0x1008)"
)
"""What a trial and a profile read of a program: facts about its symbols, and its functions by address."""


def symbols(folder: Path, sizes: Sequence[int], before: Path | None) -> None:
    """Print the cost of reading the symbols of a file, by their number.

    Args:
        folder: for the files.
        sizes: numbers of symbols.
        before: checkout of another version; None for none.
    """
    print("reading the symbols of a file")

    def cost(count: int, checkout: Path = TOP) -> Cost:
        (folder / "program").write_bytes(elf_with_functions(count))
        return cost_of(("program",), folder, checkout, (sys.executable, "-c", READER))

    one, per_symbol = cost(1), 0.0
    for count in sizes:
        found = cost(count)
        each = max(0.0, found.cpu_s - one.cpu_s) / count
        per_symbol = per_symbol or each
        ratio = f"x {each / per_symbol:.2f}" if per_symbol else "not measurable"
        text = f"per symbol {ratio}, {(found.peak - one.peak) / count:.0f} B"
        if before is not None:
            old = cost(count, before)
            text += f", before / now: time {old.cpu_s / found.cpu_s:.1f}, memory {old.peak / found.peak:.1f}"
        print(f"    {count:12,}  {found}  {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, action="append", help="of a record; repeatable (default 10000, 100000)")
    parser.add_argument("--records", type=int, default=5000, help="of the queries; 0 for none (default: %(default)s)")
    parser.add_argument("--symbols", type=int, action="append", help="of a file; repeatable (default 10000 to 1000000)")
    parser.add_argument("--only", choices=("runs", "records", "symbols"), help="print one table")
    parser.add_argument("--folder", type=Path, help="for the records; default: a temporary one")
    parser.add_argument("--before", type=Path, help="checkout of another version, to compare with")
    parser.add_argument(
        "--before-runs",
        type=int,
        default=100_000,
        help="the largest record that the other version reads (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    tables: dict[str, Callable[[Path], None]] = {
        "runs": lambda folder: large_records(folder, given.runs or (10_000, 100_000), given.before, given.before_runs),
        "records": lambda folder: many_records(folder, given.records, given.before),
        "symbols": lambda folder: symbols(folder, given.symbols or (10_000, 100_000, 1_000_000), given.before),
    }
    for table, printed in tables.items():
        if given.only in {None, table} and (table != "records" or given.records):
            with tempfile.TemporaryDirectory(prefix="swapstone-scale-", dir=given.folder) as name:
                printed(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
