# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time and memory of reading large records, and of queries over many records.

    benchmarks/scale                          records of 10,000 and 100,000 runs, 5,000 records: some minutes
    benchmarks/scale --runs 1000000           one of a million runs (6 GB on disk, and as much of the page cache)
    benchmarks/scale --records 0              no queries over many records

The records are made from one that the fake target gives: its blocks are repeated with new numbers, each time with the same noise drawn
again, and its lines are chained as the writer does. Each command runs in a process of its own, with an empty cache folder the first time.
Beside a time stands its ratio to that of the smallest record per run: 1.00 is linear.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from benchmarks.shared import TOP, parser_of, run_alone

from swapstone.core.model import Run, Sample
from swapstone.core.record import load
from swapstone.core.record.record_format import META, RUNS, SEAL, Line, chain_value

SPEC = "[[behaviour]]\nwall_ns = 1_000_000\nnoise = 0.02\n"
BLOCKS = 20

AGED_S = 3.0
"""Columns are not kept of a record that changed so recently (`swapstone.core.session.run_store.RECENT_NS`)."""

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a command took: seconds of elapsed and of processor time, and the peak resident size in bytes."""

    elapsed_s: float
    cpu_s: float
    peak: int

    def __str__(self) -> str:
        return f"{self.elapsed_s:8.2f} s  CPU {self.cpu_s:8.2f} s  peak {self.peak / MIB:7.0f} MiB"


def cost_of(arguments: Sequence[str], folder: Path) -> Cost:
    """Run Swapstone in a folder, with a cache folder in it.

    Raises:
        RuntimeError: it failed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(TOP / "src"),
        "SWAPSTONE_RECORDS": str(folder / "records"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    start = time.monotonic()
    status, usage = run_alone((sys.executable, "-m", "swapstone", *arguments), folder, environment)
    if status:
        raise RuntimeError(f"swapstone {' '.join(arguments)} in {folder} ended with {status}")
    return Cost(time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


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


def large_records(folder: Path, sizes: Sequence[int]) -> None:
    """Print the cost of commands on a record, by its number of runs."""
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
        for turn, commands in (("first", (SHOW,)), ("again", REPEATED)):
            for words in commands:
                found = cost_of((words[0], str(record), *words[1:]), folder)
                place, each = f"{words[0]:8} {turn}", found.cpu_s / runs
                print(f"    {place}  {found}  per run x {each / per_run.setdefault(place, each):.2f}", flush=True)


def many_records(folder: Path, count: int) -> None:
    """Print the cost of queries over many records, the first and the second time."""
    root = folder / "records"
    root.mkdir()
    copies(template(folder, blocks=2), root, count)
    print(f"queries over {count:,} records")
    queries = {
        "records": "select state, count(*) from records group by all",
        "runs": "select count(*) from runs where status <> 'ok'",
        "comparisons": "select verdict, count(*) from comparisons group by all",
    }
    for name, sql in queries.items():
        for turn in ("first", "again"):
            print(f"    {name:12} {turn:6} {cost_of(('query', sql), folder)}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = parser_of("scale", __doc__)
    parser.add_argument("--runs", type=int, action="append", help="of a record; repeatable (default 10000, 100000)")
    parser.add_argument("--records", type=int, default=5000, help="of the queries; 0 for none (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for the records; default: a temporary one")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="swapstone-scale-", dir=given.folder) as name:
        large_records(Path(name), given.runs or (10_000, 100_000))
    if given.records:
        with tempfile.TemporaryDirectory(prefix="swapstone-scale-", dir=given.folder) as name:
            many_records(Path(name), given.records)
    return 0
