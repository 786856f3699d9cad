# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rates of false alarms for identical programs and of detection for real differences: Swapstone's rule, hyperfine's and benchstat's.

    benchmarks/false-alarms record --out traces.jsonl RECORD...     extract traces from records with many runs of a program
    benchmarks/false-alarms resample traces.jsonl --nulls 200       nulls and injected effects, by resampling windows
    benchmarks/false-alarms live RECORD...                          the nulls of `swapstone compare --null`
    benchmarks/false-alarms live --identical RECORD...              reports of variants that are the same program
    benchmarks/false-alarms measure --out FOLDER --reports 30       make such reports, idle and under load, and count

To make a trace, run `swapstone compare libc=glibc,musl --only WORKLOAD --blocks 400`: the runs of each variant, in order of time, are
a trace. `resample` takes windows of consecutive runs from a trace, which preserves drift, bursts and autocorrelation, and assigns
the runs of each window to two arms by the design of each tool. All results are functions of --seed. Records for `live --identical` come
from variants that do the same work, such as `swapstone compare --vary env:UNUSED=1,2 --only 'b_string*'`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from benchmarks import null_comparisons
from benchmarks.null_reports import CORRECTIONS, any_mark, detected, draws, marked_rows
from benchmarks.rules import ALPHA, OTHERS, OURS, Answer, Floats, Rule, Window
from benchmarks.verdict_hogs import CONDITIONS

from swapstone.model import Analysis, Comparison, Copy, NullResult, Quantity, Scale, Status, UserError, Verdict
from swapstone.record import load
from swapstone.session.analysis import analyse_record
from swapstone.stats import common_level, log_ratios, run_value, wilson

INJECTED = (0.0, 0.01, 0.02, 0.05)
DIFFERENT = (Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED)
NOT_JUDGED = (Verdict.DISTURBED, Verdict.INVALID)


@dataclasses.dataclass(frozen=True)
class Trace:
    """The run values of one program on one metric, in order of time."""

    workload: str
    metric: str
    source: str
    unix_ns: tuple[int, ...]
    values: Floats


def main(arguments: Sequence[str]) -> int:
    """Run the selected subcommand; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks/false-alarms", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    record = commands.add_parser("record", help="extract traces from records")
    record.add_argument("records", nargs="+", type=Path)
    record.add_argument("--out", type=Path, required=True)
    record.add_argument("--workloads", type=int, default=1000, help="maximum number of workloads")
    record.add_argument("--runs", type=int, default=100_000, help="maximum number of runs of each")
    record.set_defaults(act=_record)
    resample = commands.add_parser("resample", help="nulls and injected effects from traces")
    resample.add_argument("traces", type=Path)
    resample.add_argument("--nulls", type=int, default=200, help="windows for each metric (default 200)")
    resample.add_argument("--pairs", type=int, default=40, help="runs of each arm; the maximum for stopping rules")
    resample.add_argument("--margin", type=float, default=0.02)
    resample.add_argument("--seed", type=int, default=1)
    resample.add_argument("--reports", type=int, default=0, help="whole reports to draw besides (default 0)")
    resample.set_defaults(act=_resample)
    live = commands.add_parser("live", help="count the nulls of records")
    live.add_argument("records", nargs="+", type=Path)
    live.add_argument("--identical", action="store_true", help="all variants of the records do the same work")
    live.set_defaults(act=_live)
    measure = commands.add_parser("measure", help="compare programs with themselves, and count the marks")
    measure.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the records, on a disk")
    measure.add_argument("--reports", type=int, default=30, help="for each condition (default 30)")
    measure.add_argument(
        "--condition", default="idle,bursts", help=f"some of: {','.join(CONDITIONS)} (default %(default)s)"
    )
    measure.add_argument("--budget", type=float, default=15, metavar="S", help="of each comparison (default 15 s)")
    measure.set_defaults(act=_measure)
    return parser


def _record(options: argparse.Namespace) -> int:
    kept: set[str] = set()
    with options.out.open("w") as out:
        for trace in itertools.chain.from_iterable(map(traces_of, options.records)):
            if trace.workload not in kept and len(kept) == options.workloads:
                continue
            kept.add(trace.workload)
            line = dataclasses.asdict(trace) | {
                "unix_ns": trace.unix_ns[: options.runs],
                "values": trace.values[: options.runs].tolist(),
            }
            out.write(json.dumps(line) + "\n")
            print(f"{trace.workload} {trace.metric}: {len(line['values'])} runs from {trace.source}")
    return 0


def traces_of(path: Path) -> Iterator[Trace]:
    """Yield a trace for each program and time metric of a record, without the warm-up."""
    found: dict[tuple[str, str, str], list[tuple[int, float]]] = collections.defaultdict(list)
    for run in load(path).runs:
        if run.status is Status.OK and run.trial.block > 0:
            for sample in run.samples:
                if sample.metric in ("wall", "cpu"):
                    place = (run.trial.workload, sample.metric, f"{path.name} {run.trial.load} {run.trial.variant}")
                    found[place].append((run.started_unix_ns, run_value(sample.values)))
    for (workload, metric, source), points in found.items():
        times, values = zip(*sorted(points), strict=True)
        yield Trace(workload, metric, source, times, np.array(values))


def read_traces(path: Path) -> list[Trace]:
    """Read the output of `record`."""
    traces = []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        values, times = np.array(fields["values"], dtype=np.float64), tuple(fields["unix_ns"])
        traces.append(Trace(fields["workload"], fields["metric"], fields["source"], times, values))
    return traces


def windows(
    traces: Sequence[Trace], count: int, pairs: int, random: np.random.Generator
) -> Iterator[tuple[Trace, int, Window]]:
    """Yield `count` windows of 2 x `pairs` consecutive runs: traces in turn, each from a random start."""
    for number in range(count):
        trace = traces[number % len(traces)]
        start = int(random.integers(0, trace.values.size - 2 * pairs + 1))
        values = trace.values[start : start + 2 * pairs]
        yield trace, start, Window(values, random.random(pairs) < 0.5, 1.0)


def _resample(options: argparse.Namespace) -> int:
    everything = read_traces(options.traces)
    for metric in sorted({trace.metric for trace in everything}):
        mine = [trace for trace in everything if trace.metric == metric]
        traces = [trace for trace in mine if trace.values.size >= 2 * options.pairs and trace.values.min() > 0]
        print(f"\n{metric}: {len(traces)} traces of {len({t.workload for t in traces})} workloads", end="")
        print(
            f" ({len(mine) - len(traces)} too short or with a zero), {options.nulls} windows of 2 x {options.pairs} runs"
        )
        if not traces:
            raise UserError(
                f"No trace of {metric} has {2 * options.pairs} runs.", "Ask for fewer --pairs, or record more."
            )
        random = np.random.default_rng([options.seed, zlib.crc32(metric.encode())])
        drawn = list(windows(traces, options.nulls, options.pairs, random))
        _print_fixed(drawn, options.pairs, options.margin)
        _print_stopping(drawn, options.pairs, options.margin)
        _print_tables(traces, options, random)
    if options.reports:
        _print_reports(everything, options)
    return 0


Drawn = Sequence[tuple[Trace, int, Window]]


def answers(drawn: Drawn, rule: Rule, pairs: Sequence[int], margin: float, effect: float) -> list[Answer]:
    """Apply a rule to every window, with an injected effect."""
    changed = (dataclasses.replace(window, factor=1 + effect) for _, _, window in drawn)
    return [rule(window, count, margin) for window, count in zip(changed, pairs, strict=True)]


def _print_fixed(drawn: Drawn, pairs: int, margin: float) -> None:
    """Print how often each rule reports a difference with the same fixed number of runs."""
    _print_head(f"called different, {pairs} runs of each arm")
    same = [pairs] * len(drawn)
    for name, rule in {"swapstone": OURS["swapstone"], **OTHERS}.items():
        _print_row(name, drawn, [[a.different for a in answers(drawn, rule, same, margin, e)] for e in INJECTED])
    verdicts = [answers(drawn, OURS["swapstone"], same, margin, e) for e in INJECTED]
    reported = [[a.verdict in DIFFERENT for a in found] for found in verdicts]
    _print_row(f"swapstone's verdict, margin {100 * margin:g} %", drawn, reported)


def _print_stopping(drawn: Drawn, most: int, margin: float) -> None:
    """Print the same with Swapstone's stopping rule; the other rules get the number of runs that it used on each window."""
    _print_head(f"called different, stopping at ± {100 * margin:g} % or {most} pairs; the others get as many runs")
    rule = OURS["swapstone, stopping"]
    used = [[a.pairs for a in answers(drawn, rule, [most] * len(drawn), margin, e)] for e in INJECTED]
    for name, other in {"swapstone, stopping": rule, **OTHERS}.items():
        counts = [[most] * len(drawn)] * len(INJECTED) if other is rule else used
        found = [answers(drawn, other, count, margin, e) for count, e in zip(counts, INJECTED, strict=True)]
        _print_row(name, drawn, [[a.different for a in column] for column in found])
    print(f"  pairs used: median {np.median(used[0]):g}, at the most {max(used[0])}")


def _print_tables(traces: Sequence[Trace], options: argparse.Namespace, random: np.random.Generator) -> None:
    """Print how often a corrected table of nulls has a false alarm; the rows of a table share their time."""
    room = min(trace.values.size for trace in traces) - 2 * options.pairs
    rows = tables = 0
    for _ in range(options.nulls):
        start, order = int(random.integers(0, room + 1)), random.random(options.pairs) < 0.5
        nulls = (Window(trace.values[start : start + 2 * options.pairs], order, 1.0) for trace in traces)
        p_values = [log_ratios(*null.interleaved(options.pairs)).p_value for null in nulls]
        alpha = common_level(p_values, ALPHA)
        hits = sum(p <= alpha for p in p_values)
        rows, tables = rows + hits, tables + (hits > 0)
    print(f"\n  {options.nulls} corrected tables of {len(traces)} null rows: ", end="")
    print(f"an alarm in {_share(tables, options.nulls)} of tables, {_share(rows, options.nulls * len(traces))} of rows")


def sources_of(traces: Sequence[Trace], pairs: int) -> list[list[Floats]]:
    """Return the sources of each workload that has both times, each of shape (2, runs): wall and CPU time of the same runs."""
    found: dict[str, list[Floats]] = collections.defaultdict(list)
    by_place = {(trace.workload, trace.source, trace.metric): trace.values for trace in traces}
    for (workload, source, metric), wall in by_place.items():
        cpu = by_place.get((workload, source, "cpu"))
        if (
            metric == "wall"
            and cpu is not None
            and wall.size == cpu.size >= 2 * pairs
            and min(wall.min(), cpu.min()) > 0
        ):
            found[workload].append(np.array([wall, cpu]))
    return list(found.values())


def _print_reports(traces: Sequence[Trace], options: argparse.Namespace) -> None:
    """Print how many reports of nulls hold any mark, and how many changed rows are worse, by each correction."""
    sources = sources_of(traces, options.pairs)
    if not sources:
        raise UserError(
            f"No workload has {2 * options.pairs} runs of wall and CPU time.", "Ask for fewer --pairs, or record more."
        )
    drawn = list(draws(sources, options.reports, options.pairs, np.random.default_rng([options.seed, 2])))
    print(f"\n{options.reports} reports of {len(sources)} workloads, wall and CPU time, {options.pairs} pairs")
    columns = "".join(f"{f'+{100 * e:g} % {part}':>22}" for part in ("in one", "in all") for e in INJECTED[1:])
    print(f"  {'rule':42}{'null, any mark':>22}{columns}")
    for rule in CORRECTIONS:
        marks = sum(any_mark(draw, rule, options.margin) for draw in drawn)
        cells = [_share(marks, len(drawn))]
        for only_one, effect in itertools.product((True, False), INJECTED[1:]):
            counts = [detected(draw, rule, options.margin, effect, only_one=only_one) for draw in drawn]
            cells.append(_share(sum(hits for hits, _ in counts), sum(rows for _, rows in counts)))
        print(f"  {rule.name:42}{''.join(f'{cell:>22}' for cell in cells)}")


def _print_head(title: str) -> None:
    columns = "".join(f"{'null' if e == 0 else f'+{100 * e:g} %':>22}" for e in INJECTED)
    print(f"\n  {title}\n  {'rule':38}{columns}   worst workload's nulls")


def _print_row(name: str, drawn: Drawn, columns: Sequence[Sequence[bool]]) -> None:
    by_workload: dict[str, list[bool]] = collections.defaultdict(list)
    for (trace, _, _), hit in zip(drawn, columns[0], strict=True):
        by_workload[trace.workload].append(hit)
    worst = max(by_workload, key=lambda workload: float(np.mean(by_workload[workload])))
    cells = "".join(f"{_share(sum(column), len(column)):>22}" for column in columns)
    print(f"  {name:38}{cells}   {100 * np.mean(by_workload[worst]):.0f} % ({worst})")


def _share(hits: int, trials: int) -> str:
    """Format a share with Wilson's 95 % interval."""
    low, high = wilson(hits, trials)
    return f"{100 * hits / trials:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


@dataclasses.dataclass
class Tally:
    """A count and its total."""

    hits: int = 0
    of: int = 0

    def add(self, hits: int, of: int) -> None:
        """Add to both."""
        self.hits, self.of = self.hits + hits, self.of + of

    def __str__(self) -> str:
        return f"{self.hits} of {self.of}: {_share(self.hits, self.of)}" if self.of else "none"


class Alarms:
    """Counts for one kind of copy: by verdict, by uncorrected row, and by table."""

    def __init__(self) -> None:
        self.reported, self.raw, self.tables, self.reports = Tally(), Tally(), Tally(), Tally()

    def add(self, analysis: Analysis, copy: NullResult) -> None:
        """Add one copy of one experiment."""
        rows = [c for c in analysis.comparisons if c.candidate == copy.copy and c.p_value is not None]
        self.reported.add(copy.different, copy.compared)
        self.reports.add(copy.different > 0, 1)
        self.raw.add(sum(c.p_value is not None and c.p_value <= ALPHA for c in rows), len(rows))
        self.tables.add(len({family(c) for c in rows if excludes_none(c)}), len({family(c) for c in rows}))

    def print(self, kind: str) -> None:
        """Print the four rates."""
        print(f"\n{kind}")
        print(f"  reports with any mark                    {self.reports}")
        print(f"  rows with a verdict of different         {self.reported}")
        print(f"  rows with p <= {ALPHA} before correction    {self.raw}")
        print(f"  tables with an interval without 1        {self.tables}")


def _identical(records: Sequence[Path]) -> int:
    """Count reports with a mark: the variants are the same, so that every mark is false."""
    reports, rows = Tally(), Tally()
    for path in records:
        analysis = analyse_record(load(path))
        marks = marked_rows(analysis)
        judged = [c for c in analysis.comparisons if c.p_value is not None or c.tail_p_value is not None]
        if not judged and not any(c.verdict in NOT_JUDGED for c in analysis.comparisons):
            raise UserError(f"{path} has no row with a test.", "Name records of finished comparisons.")
        reports.add(bool(marks), 1)
        rows.add(len(marks), len(judged) + len(analysis.effects))
        unjudged = sum(c.verdict in NOT_JUDGED for c in analysis.comparisons)
        besides = f", {unjudged} disturbed or invalid" if unjudged else ""
        print(f"{path.name}: {len(marks)} of {len(judged)} rows marked{besides}", *marks, sep="\n        ")
    print("\nthe same program under two names of a level: every mark is false")
    print(f"  reports with any mark                    {reports}")
    print(f"  rows with a mark                         {rows}")
    return 0


def _measure(options: argparse.Namespace) -> int:
    """Make reports of one program under two names, and count those with a mark, for each condition."""
    conditions = options.condition.split(",")
    if unknown := set(conditions) - set(CONDITIONS):
        raise UserError(f"There is no condition {sorted(unknown)[0]!r}.", f"Choose from {', '.join(CONDITIONS)}.")
    for condition in conditions:
        records = list(null_comparisons.measure(options.out, options.reports, [condition], options.budget))
        print(f"\n{condition}: {len(records)} comparisons of {options.budget:g} s")
        _identical(records)
    return 0


def _live(options: argparse.Namespace) -> int:
    """Count the two copies separately: the same file differs by chance only, a relinked copy may have another speed."""
    if options.identical:
        return _identical(options.records)
    again, relinked = Alarms(), Alarms()
    for path in options.records:
        analysis = analyse_record(load(path))
        if not analysis.nulls:
            raise UserError(f"{path} has no nulls.", "Make it with `swapstone compare ... --null`.")
        pressure = analysis.noise.cpu_pressure_percent
        busy = "pressure unknown" if pressure is None else f"CPU pressure {pressure:.0f} %"
        print(f"{path.name}: {analysis.blocks} blocks, {busy}")
        for null in analysis.nulls:
            (again if null.copy.copy is Copy.AGAIN else relinked).add(analysis, null)
            print(
                f"    {null.copy.label}: {null.different} of {null.compared} called different",
                *null.rows,
                sep="\n        ",
            )
    again.print("the same file again: every difference is a false alarm")
    relinked.print("a relinked copy: a difference is a false alarm or an effect of the layout")
    return 0


def family(found: Comparison) -> tuple[str, str, Quantity, str]:
    """Return the family of rows that are corrected together."""
    return found.suite, found.load, found.metric.quantity, found.candidate.label


def excludes_none(found: Comparison) -> bool:
    """Return whether the interval of a comparison excludes "no difference"."""
    none = 1.0 if found.scale is Scale.RATIO else 0.0
    return found.low is not None and found.high is not None and (found.low > none or found.high < none)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
