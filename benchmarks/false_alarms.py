# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rates of false alarms for identical programs and of detection for real differences: Swapstone's rule, hyperfine's and benchstat's.

    benchmarks/false-alarms resample RECORD...                      nulls and injected effects, by resampling windows of runs
    benchmarks/false-alarms measure --out FOLDER --reports 30       reports of a program compared with itself, idle and under load

`resample` needs records with many runs, such as of `swapstone compare libc=glibc,musl --only WORKLOAD --blocks 400`: the runs of each
variant, in order of time, are a trace. It takes windows of consecutive runs from a trace, which preserves drift, bursts and
autocorrelation, and assigns the runs of each window to two arms by the design of each tool. The results are functions of --seed.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy  # whose stats are imported when a test uses them, not when tests are collected
from benchmarks.shared import parser_of, share, swapstone
from benchmarks.verdict_hogs import CONDITIONS
from benchmarks.verdict_hogs import load as loaded
from benchmarks.verdict_truth import DIRECTED
from benchmarks.verdicts import build
from numpy.typing import NDArray

from swapstone.core.comparison.verdicts import verdict_of
from swapstone.core.model import Analysis, Direction, Status, UserError, Verdict
from swapstone.core.record import load
from swapstone.core.session.analysis import analyse_record
from swapstone.core.stats import log_ratios, run_value

Floats = NDArray[np.float64]

ALPHA = 0.05
INJECTED = (0.0, 0.01, 0.02, 0.05)
NOT_JUDGED = (Verdict.DISTURBED, Verdict.INVALID)


@dataclasses.dataclass(frozen=True)
class Trace:
    """The run values of one program on one metric, in order of time."""

    workload: str
    metric: str
    values: Floats


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive runs of one program, with the assignment of each two to baseline and candidate.

    Attributes:
        workload: the program.
        values: shape (2 n,), in order of time.
        first: shape (n,): whether the candidate comes first in its block.
    """

    workload: str
    values: Floats
    first: NDArray[np.bool_]

    def interleaved(self) -> tuple[Floats, Floats]:
        """Return baseline and candidate in blocks of two successive runs, in random order."""
        one, other = self.values.reshape(-1, 2).T
        return np.where(self.first, other, one), np.where(self.first, one, other)

    def sequential(self) -> tuple[Floats, Floats]:
        """Return baseline and candidate as tools without blocks run them: all runs of one, then all runs of the other."""
        one, other = np.split(self.values, 2)
        return one, other


def significant(window: Window, factor: float, margin: float) -> bool:  # noqa: ARG001 - all rules are called alike
    """Return whether Swapstone's interval of one comparison, without correction, excludes "no difference"."""
    baseline, candidate = window.interleaved()
    interval = log_ratios(baseline, candidate * factor).interval(ALPHA)
    return interval is not None and interval.excludes(0.0)


def stated(window: Window, factor: float, margin: float) -> bool:
    """Return whether Swapstone's verdict on one comparison states a difference."""
    baseline, candidate = window.interleaved()
    interval = log_ratios(baseline, candidate * factor).interval(ALPHA)
    return interval is not None and verdict_of(interval, float(np.log1p(margin)), Direction.LOWER).value in DIRECTED


def bars_apart(window: Window, factor: float, margin: float) -> bool:  # noqa: ARG001
    """Return whether the bars, mean and standard deviation, that hyperfine prints don't overlap."""
    a, b = window.sequential()
    return bool(abs(a.mean() - b.mean() * factor) > a.std(ddof=1) + b.std(ddof=1) * factor)


def benchstat(window: Window, factor: float, margin: float) -> bool:  # noqa: ARG001
    """Return benchstat's decision: Mann-Whitney U on all runs of one and then all runs of the other."""
    a, b = window.sequential()
    return bool(scipy.stats.mannwhitneyu(a, b * factor).pvalue < ALPHA)


RULES: dict[str, Callable[[Window, float, float], bool]] = {
    "swapstone, interval without 1": significant,
    "swapstone, verdict": stated,
    "hyperfine, bars apart": bars_apart,
    "benchstat, p < 0.05": benchstat,
}
"""Functions of a window, of a factor on the candidate's runs and of a margin."""

KINDS: dict[str, tuple[str, ...]] = {
    "strings": ("--only", "b_string_strlen", "--only", "b_string_memset", "--only", "b_string_strchr"),
    "allocation": ("--only", "b_malloc_tiny1", "--only", "b_malloc_sparse"),
    "threads": ("--only", "b_pthread_createjoin_serial*"),
    "processor": ("--", "{program}", "loop:3000"),
    "slow-mode": ("--", "{program}", "loop:2000", "mode:50:20000"),
    "file": ("--", "sort", "{data}"),
}
"""What each kind of null comparison runs, as arguments of ``swapstone compare``."""

VARIED = ("--vary", "env:SWAPSTONE_UNUSED=1,2")
DATA_LINES = 20_000
REFUSED = 2
FINISHED = (0, 4)
"""Exit statuses of a comparison that has a report; 4 where every row is disturbed or invalid."""


def main(arguments: Sequence[str]) -> int:
    """Run the selected subcommand; return the exit status."""
    parser = parser_of("false-alarms", __doc__)
    commands = parser.add_subparsers(required=True)
    resample = commands.add_parser("resample", help="nulls and injected effects from records")
    resample.add_argument("records", nargs="+", type=Path)
    resample.add_argument("--nulls", type=int, default=200, help="windows for each metric (default 200)")
    resample.add_argument("--pairs", type=int, default=40, help="runs of each arm (default 40)")
    resample.add_argument("--margin", type=float, default=0.02)
    resample.add_argument("--seed", type=int, default=1)
    resample.set_defaults(act=_resample)
    measure = commands.add_parser("measure", help="compare programs with themselves, and count the marks")
    measure.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the records, on a disk")
    measure.add_argument("--reports", type=int, default=30, help="for each condition (default 30)")
    measure.add_argument("--condition", default="idle,bursts", help=f"some of: {','.join(CONDITIONS)}")
    measure.add_argument("--budget", type=float, default=15, metavar="S", help="of each comparison (default 15 s)")
    measure.set_defaults(act=_measure)
    options = parser.parse_args(arguments)
    try:
        options.act(options)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def traces_of(path: Path) -> Iterator[Trace]:
    """Yield a trace for each program and time metric of a record, without the warm-up."""
    found: dict[tuple[str, str, str, str], list[tuple[int, float]]] = collections.defaultdict(list)
    for run in load(path).runs:
        if run.status is Status.OK and run.trial.block > 0:
            for sample in run.samples:
                if sample.metric in ("wall", "cpu"):
                    place = (run.trial.workload, sample.metric, run.trial.load, run.trial.variant)
                    found[place].append((run.started_unix_ns, run_value(sample.values)))
    for (workload, metric, *_), points in found.items():
        yield Trace(workload, metric, np.array([value for _, value in sorted(points)]))


def windows(traces: Sequence[Trace], count: int, pairs: int, random: np.random.Generator) -> Iterator[Window]:
    """Yield `count` windows of 2 x `pairs` consecutive runs: traces in turn, each from a random start."""
    for trace in itertools.islice(itertools.cycle(traces), count):
        start = int(random.integers(0, trace.values.size - 2 * pairs + 1))
        yield Window(trace.workload, trace.values[start : start + 2 * pairs], random.random(pairs) < 0.5)


def _resample(options: argparse.Namespace) -> None:
    everything = list(itertools.chain.from_iterable(map(traces_of, options.records)))
    runs = 2 * options.pairs
    for metric in sorted({trace.metric for trace in everything}):
        mine = [trace for trace in everything if trace.metric == metric]
        traces = [trace for trace in mine if trace.values.size >= runs and trace.values.min() > 0]
        if not traces:
            raise UserError(f"No trace of {metric} has {runs} runs.", "Ask for fewer --pairs, or record more.")
        print(f"\n{metric}: {len(traces)} traces of {len({t.workload for t in traces})} workloads", end="")
        print(f" ({len(mine) - len(traces)} too short or with a zero), {options.nulls} windows of {runs} runs")
        random = np.random.default_rng([options.seed, zlib.crc32(metric.encode())])
        drawn = list(windows(traces, options.nulls, options.pairs, random))
        columns = "".join(f"{'null' if e == 0 else f'+{100 * e:g} %':>20}" for e in INJECTED)
        print(f"  called different, {options.pairs} runs of each arm\n  {'rule':32}{columns}   worst workload's nulls")
        for name, rule in RULES.items():
            hits = [[rule(window, 1 + effect, options.margin) for window in drawn] for effect in INJECTED]
            cells = "".join(f"{share(sum(column), len(column)):>20}" for column in hits)
            print(f"  {name:32}{cells}   {_worst(drawn, hits[0])}")


def _worst(drawn: Sequence[Window], hits: Sequence[bool]) -> str:
    by_workload: dict[str, list[bool]] = collections.defaultdict(list)
    for window, hit in zip(drawn, hits, strict=True):
        by_workload[window.workload].append(hit)
    rate, workload = max((float(np.mean(each)), name) for name, each in by_workload.items())
    return f"{100 * rate:.0f} % ({workload})"


def marked_rows(analysis: Analysis) -> list[str]:
    """Return the rows of an analysis that state a difference, as text: comparisons with candidates, and effects of factors."""
    copies = {null.copy for null in analysis.nulls}
    rows = [
        f"{found.workload} {found.metric.name} ({found.candidate.label}): {found.verdict.value}"
        for found in analysis.comparisons
        if found.verdict.value in DIRECTED and found.candidate not in copies
    ]
    effects = [
        f"{found.workload or 'index'} {found.metric.name} ({found.change.label}): {found.verdict.value}"
        for found in analysis.effects
        if found.verdict.value in DIRECTED
    ]
    return rows + effects


def count(records: Sequence[Path]) -> None:
    """Print the marks in reports of records whose variants are the same program: each is false.

    Raises:
        UserError: a record has no row with a test.
    """
    hits = rows_marked = rows = 0
    for path in records:
        analysis = analyse_record(load(path), mark_equal=True)
        marks = marked_rows(analysis)
        judged = [c for c in analysis.comparisons if c.p_value is not None or c.tail_p_value is not None]
        unjudged = sum(c.verdict in NOT_JUDGED for c in analysis.comparisons)
        if not judged and not unjudged:
            raise UserError(f"{path} has no row with a test.", "Name records of finished comparisons.")
        hits, rows_marked = hits + bool(marks), rows_marked + len(marks)
        rows += len(judged) + len(analysis.effects)
        besides = f", {unjudged} disturbed or invalid" if unjudged else ""
        print(f"{path.name}: {len(marks)} of {len(judged)} rows marked{besides}", *marks, sep="\n        ")
    print("\nthe same program under two names of a level: every mark is false")
    for name, marked, of in (("reports with any mark", hits, len(records)), ("rows with a mark", rows_marked, rows)):
        print(f"  {name:24}{f'{marked} of {of}: {share(marked, of)}' if of else 'none'}")


def null_records(folder: Path, reports: int, condition: str, budget_s: float) -> Iterator[Path]:
    """Make comparisons of variants that differ in an unused environment variable alone, and yield their records.

    Args:
        folder: for the records; those that it holds already are not made again. A refused comparison gives none.
        reports: number of them; the kinds take turns.
        condition: one of `verdict_hogs.CONDITIONS`.
        budget_s: of each comparison, in seconds.

    Raises:
        UserError: a comparison failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="swapstone-nulls-", dir=folder) as name:
        scratch = Path(name)
        data = scratch / "lines.txt"
        data.write_text("".join(f"{number * 7919 % DATA_LINES}\n" for number in range(DATA_LINES)))
        names = {"program": str(build(scratch)), "data": str(data)}
        with loaded(condition, scratch / "load"):
            for number, (kind, words) in zip(range(reports), itertools.cycle(KINDS.items()), strict=False):
                record = folder / f"{condition}-{number:02}-{kind}"
                if record.exists() or _made([word.format(**names) for word in words], record, budget_s):
                    yield record


def _made(words: Sequence[str], record: Path, budget_s: float) -> bool:
    """Make a record; return False if Swapstone refuses the budget, which on a loaded machine it may."""
    # The kind's own words may hold `--`, so that they come last.
    options = ("--budget", f"{budget_s:g}s", "--out", str(record.resolve()))
    start = time.monotonic()
    ended = swapstone(("compare", *VARIED, *options, *words), record.parent, limit_s=20 * budget_s + 120)
    refused = ended.returncode == REFUSED and "The budget of" in ended.stderr
    if ended.returncode not in FINISHED and not refused:
        raise UserError(f"{record.name}: exit status {ended.returncode}: {ended.stderr.strip()[-500:]}")
    if refused:
        shutil.rmtree(record, ignore_errors=True)
    how = "refused, the budget is too small here" if refused else f"{time.monotonic() - start:.0f} s"
    print(f"{record.name}: {how}", file=sys.stderr, flush=True)
    return not refused


def _measure(options: argparse.Namespace) -> None:
    """Make reports of one program under two names, and count those with a mark, for each condition."""
    conditions = options.condition.split(",")
    if unknown := set(conditions) - set(CONDITIONS):
        raise UserError(f"There is no condition {sorted(unknown)[0]!r}.", f"Choose from {', '.join(CONDITIONS)}.")
    for condition in conditions:
        records = list(null_records(options.out, options.reports, condition, options.budget))
        print(f"\n{condition}: {len(records)} comparisons of {options.budget:g} s")
        count(records)
