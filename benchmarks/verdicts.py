# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts about pairs of programs whose truth is known: how many are wrong, and how many true differences are stated.

    benchmarks/verdicts                                       all pairs, under all conditions: half an hour
    benchmarks/verdicts --condition idle --only 'dd-*'        some
    benchmarks/verdicts --check-truth                         run each program after itself, without Swapstone
    benchmarks/verdicts --list                                the pairs, what is true of them, and why
    benchmarks/verdicts --table --read a.json --read b.json   one table of earlier runs with --json; a later file replaces cases

Each pair is compared by `swapstone compare` with a budget of a few seconds, in a folder of its own, on an idle machine or beside
processes that this program starts and ends. A row is wrong if its verdict contradicts the truth. Inconclusive, invalid, disturbed and
unavailable rows state nothing. The exit status is 1 if a row is wrong or a comparison failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import itertools
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.shared import TOP, parser_of, run_alone, swapstone
from benchmarks.verdict_cases import CASES, Case
from benchmarks.verdict_hogs import CONDITIONS, load
from benchmarks.verdict_truth import DIRECTED, NOT_STATED, Bounds, Judgement, Statement, Truth, judge, judge_refusal

START_S = 3.0
"""Time of a comparison besides its budget, for the estimate of the remaining time."""

EQUAL = frozenset({"equivalent", "same median"})
MEASURED_ALONE = ("wall", "cpu", "maxrss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """One row of one comparison, judged.

    Attributes:
        condition, case: what was compared.
        row: what the report states.
        truth: of the metric, as text.
        judgement, why: of the row.
        differs: whether the truth is a difference outside the margin.
        same_work: whether the two programs do the same work.
        caveats: kinds of caveats of the report.
    """

    condition: str
    case: str
    row: Statement
    truth: str
    judgement: Judgement
    why: str
    differs: bool
    same_work: bool
    caveats: tuple[str, ...] = ()

    @property
    def stated(self) -> bool:
        """Return whether the row makes a statement."""
        return self.judgement is not Judgement.NOT_STATED

    @property
    def text(self) -> str:
        """Return verdict and ratio, e.g. ``worse 2.51``."""
        has_number = self.stated and self.row.effect is not None
        return f"{self.row.verdict} {self.row.effect:.3g}" if has_number else self.row.verdict


@dataclasses.dataclass(frozen=True)
class Failure:
    """A comparison without a record, or whose record could not be read."""

    condition: str
    case: str
    message: str


@dataclasses.dataclass(frozen=True)
class Report:
    """What a comparison answered.

    Attributes:
        status: exit status.
        message: what it printed to standard error.
        rows: of its report; none without a record.
        caveats: their kinds.
    """

    status: int
    message: str
    rows: tuple[Statement, ...]
    caveats: tuple[str, ...] = ()


@dataclasses.dataclass
class Outcome:
    """Everything that was found."""

    results: list[Result] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Run the selected pairs; return the exit status."""
    options = _options(arguments)
    cases = [case for case in CASES if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.only)]
    if not cases:
        print(f"No case matches {' '.join(options.only)}. --list prints them.", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(listed(case) for case in cases))
        return 0
    if options.read:
        return _printed(
            from_json([json.loads(path.read_text()) for path in options.read]), cases, table_too=options.table
        )
    signal.signal(signal.SIGTERM, _interrupt)
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="swapstone-verdicts-", dir=options.folder) as name:
        scratch = Path(name)
        program = build(scratch)
        left_out = [case for case in cases if case.needs_disk and in_memory(scratch)]
        for case in left_out:
            _progress(f"{case.name}: left out, {scratch.parent} lies in memory (--folder DIR names another)")
        cases = [case for case in cases if case not in left_out]
        if options.check_truth:
            return check_truths(cases, program, scratch, options.runs)
        return _run(cases, program, scratch, options)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = parser_of("verdicts", __doc__)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="cases whose name matches; repeatable")
    parser.add_argument("--condition", default=",".join(CONDITIONS), help="some of: %(default)s")
    parser.add_argument("--budget", type=float, metavar="S", help="the same for all cases, in seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every judged row")
    parser.add_argument("--table", action="store_true", help="print elapsed time of all cases as a Markdown table")
    parser.add_argument("--read", type=Path, action="append", metavar="FILE", help="of --json; run nothing; repeatable")
    parser.add_argument("--check-truth", action="store_true", help="run each program after itself, without Swapstone")
    parser.add_argument("--runs", type=int, default=100, help="of each program for --check-truth (default 100)")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--folder", type=Path, help="for programs, their files and records; default: a temporary one")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy records with a wrong row to this folder")
    options = parser.parse_args(arguments)
    options.only = options.only or ["*"]
    options.condition = options.condition.split(",")
    unknown = sorted(set(options.condition) - set(CONDITIONS))
    if unknown:
        parser.error(f"unknown condition {unknown[0]}: choose from {', '.join(CONDITIONS)}")
    return options


def listed(case: Case) -> str:
    """Return a case as text: name, commands, truth, reason."""
    truth = "; ".join(f"{metric}: {truth}" for metric, truth in case.truth.items())
    work = truth if case.same_work else "different work"
    return f"{case.name}\n    {case.baseline}\n    {case.candidate}\n    {work}. {case.why}"


def build(scratch: Path) -> Path:
    """Compile `adversary` with the iterations of a microsecond on this machine; return its path."""
    program, source = scratch / "adversary", TOP / "benchmarks" / "adversary.c"
    compile_it = ["cc", "-O2", "-pthread", "-static", "-o", str(program), str(source)]
    subprocess.run(compile_it, check=True)
    per_us = subprocess.run([program, "calibrate"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([*compile_it, f"-DPER_US={per_us}ull"], check=True)
    return program


def in_memory(folder: Path) -> bool:
    """Return whether a folder lies on a file system in memory, where no page is ever read again."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], check=True, capture_output=True, text=True).stdout.strip()
    return kind in ("tmpfs", "ramfs")


def lay_out(case: Case, program: Path, folder: Path) -> None:
    """Fill a new folder with what a case needs."""
    folder.mkdir(parents=True)
    for name in ("adversary", *case.copies):
        shutil.copy2(program, folder / name)
    for name, kib in case.data.items():
        with (folder / name).open("wb") as file:
            file.write(os.urandom(kib << 10))
            file.flush()
            os.fsync(file.fileno())
            # Else its pages stay in folios as large as the write, which a program that drops them piece by piece does not drop.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    for name, text in case.scripts.items():
        (folder / name).write_text(text)


def _run(cases: Sequence[Case], program: Path, scratch: Path, options: argparse.Namespace) -> int:
    outcome = Outcome()
    plan = list(itertools.product(options.condition, cases))
    cost = [START_S + (options.budget or case.seconds) for _, case in plan]
    _progress(f"{len(plan)} comparisons, about {_minutes(sum(cost))}")
    done, start = 0, time.monotonic()
    try:
        for condition, pairs in itertools.groupby(plan, key=lambda each: each[0]):
            with load(condition, scratch / "load"):
                for _, case in pairs:
                    found = compare(case, condition, program, scratch, options)
                    done += 1
                    outcome.results += found.results
                    outcome.failures += found.failures
                    left = _minutes(sum(cost[done:]) * (time.monotonic() - start) / sum(cost[:done]))
                    _progress(f"[{done}/{len(plan)}] {condition} {case.name}: {_short(found)}; about {left} left")
    except KeyboardInterrupt:
        _progress("interrupted")
    finally:
        if options.json:
            options.json.write_text(json.dumps(as_json(outcome), indent=1) + "\n")
    status = _printed(outcome, cases, table_too=options.table)
    return status if done == len(plan) else 1


def _printed(outcome: Outcome, cases: Sequence[Case], *, table_too: bool) -> int:
    """Print the totals, and the table if wanted; return the exit status."""
    print(summary(outcome))
    if table_too:
        print("\n" + table(outcome, cases))
    wrong = any(result.judgement is Judgement.WRONG for result in outcome.results)
    return 1 if wrong or outcome.failures else 0


def compare(case: Case, condition: str, program: Path, scratch: Path, options: argparse.Namespace) -> Outcome:
    """Compare one pair by the command line, and judge the rows of its record."""
    folder = scratch / "case"
    record = scratch / "record"
    for old in (folder, record):
        shutil.rmtree(old, ignore_errors=True)
    lay_out(case, program, folder)
    seconds = options.budget or case.seconds
    status, message = swapstone(compare_arguments(case, seconds, record), folder, limit_s=20 * seconds + 120)
    rows, caveats = read_rows(record)
    found = judged(case, condition, Report(status, message, rows, caveats))
    wrong = [result for result in found.results if result.judgement is Judgement.WRONG]
    if options.keep and record.exists() and wrong:
        shutil.copytree(record, options.keep / f"{condition}-{case.name}", dirs_exist_ok=True)
    return found


def compare_arguments(case: Case, seconds: float, record: Path) -> list[str]:
    """Return the arguments of the comparison."""
    names = [word for name in case.names for word in ("--name", name)]
    limits = ["--budget", f"{seconds:g}s", "--margin", f"{case.margin:g}%", "--out", str(record)]
    return ["compare", case.baseline, case.candidate, *names, *limits, *case.options]


def judged(case: Case, condition: str, report: Report) -> Outcome:
    """Judge the rows of a comparison."""
    outcome = Outcome()

    def add(row: Statement, truth: Truth, judgement: Judgement, why: str) -> None:
        differs = case.same_work and not case.refused and truth.differs(case.margin / 100)
        outcome.results.append(
            Result(
                condition=condition,
                case=case.name,
                row=row,
                truth=str(truth) if case.same_work else "different work",
                judgement=judgement,
                why=why,
                differs=differs,
                same_work=case.same_work,
                caveats=report.caveats,
            )
        )

    if case.refused:
        refusal = Statement("wall", "refused" if report.status else "not refused", reason=report.message[-500:])
        add(refusal, case.truth["wall"], *judge_refusal(report.status, report.message, report.rows))
        return outcome
    for row in report.rows:
        truth = case.truth_of(row.metric)
        if truth is None:
            continue
        never = case.never if row.metric == "wall" else ()
        judgement, why = judge(
            row,
            truth,
            case.margin / 100,
            same_work=case.same_work,
            never=never,
            caveats=report.caveats,
            excusing=case.excusing,
        )
        add(row, truth, judgement, why)
    if not outcome.results:
        outcome.failures.append(
            Failure(condition, case.name, report.message.strip()[-500:] or f"exit status {report.status}")
        )
    return outcome


def read_rows(record: Path) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """Return the rows of a record's report, and the kinds of its caveats; nothing where there is no report.

    Sizes of program files and exit statuses are left out: they are facts, which nothing can mislead.
    """
    if not record.exists():
        return (), ()
    command = [str(TOP / "swapstone"), "export", str(record), "--format", "json"]
    exported = subprocess.run(command, capture_output=True, text=True, check=False)
    if exported.returncode:
        return (), ()
    analysis = json.loads(exported.stdout)["analysis"]
    rows = (row for row in analysis["comparisons"] if row["metric"]["quantity"] != "size")
    return tuple(statement_of(row) for row in rows if row["metric"]["name"] != "exit_status"), tuple(
        sorted({caveat["kind"] for caveat in analysis["caveats"]})
    )


def statement_of(row: dict[str, Any]) -> Statement:
    """Return a row of the JSON export; without numbers where they are no ratios."""
    ratio = row["scale"] == "ratio"
    return Statement(
        metric=row["metric"]["name"],
        verdict=row["verdict"],
        effect=row["effect"] if ratio else None,
        low=row["low"] if ratio else None,
        high=row["high"] if ratio else None,
        reason=row["reason"],
        better=row["metric"]["better"],
    )


def check_truths(cases: Sequence[Case], program: Path, scratch: Path, runs: int) -> int:
    """Run each program of each case after itself, in a new folder, and print measured ratios beside the truth.

    Returns:
        1 if a ratio lies outside the range that the case states, widened by a tenth for noise; else 0.
    """
    outside = 0
    print(f"{'case':40} {'metric':8} {'baseline':>10} {'candidate':>10} {'median':>8} {'mean':>8}  truth")
    for case in cases:
        if not case.alone or not case.same_work:
            continue
        sides = []
        for command in (case.baseline, case.candidate):
            folder = scratch / "alone"
            shutil.rmtree(folder, ignore_errors=True)
            lay_out(case, program, folder)
            sides.append(list(costs_alone(command, folder, runs)))
        for metric, before, after in zip(MEASURED_ALONE, *map(_columns, sides), strict=True):
            truth = case.truth.get(metric)
            if truth is None:
                continue
            median = statistics.median(after) / statistics.median(before)
            mean = statistics.fmean(after) / statistics.fmean(before)
            inside = near(truth.median, median) and near(truth.mean, mean)
            outside += not inside
            medians = f"{statistics.median(before):10.4g} {statistics.median(after):10.4g}"
            print(
                f"{case.name:40} {metric:8} {medians} {median:8.3f} {mean:8.3f}  {truth}{'' if inside else '  OUTSIDE'}",
                flush=True,
            )
    print(f"{outside} outside the stated range. Medians are in ms and MiB.")
    return 1 if outside else 0


def near(bounds: Bounds, ratio: float, tolerance: float = 0.1) -> bool:
    """Return whether a measured ratio lies in a range that is widened by a tolerance."""
    return bounds.low / (1 + tolerance) <= ratio <= bounds.high * (1 + tolerance)


def costs_alone(command: str, folder: Path, runs: int) -> Iterator[tuple[float, float, float]]:
    """Yield elapsed ms, CPU ms and peak MiB of successive runs of a command, after five runs that are discarded."""
    words = shlex.split(command)
    environment = dict(os.environ)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    for number in range(runs + 5):
        start = time.perf_counter()
        _, usage = run_alone(words, folder, environment)
        elapsed = time.perf_counter() - start
        if number >= 5:
            yield 1000 * elapsed, 1000 * (usage.ru_utime + usage.ru_stime), usage.ru_maxrss / 1024


def _columns(rows: Iterable[tuple[float, float, float]]) -> list[tuple[float, ...]]:
    return list(zip(*rows, strict=True))


def summary(outcome: Outcome) -> str:
    """Return the totals, those of each condition, and every wrong row."""
    conditions = list(dict.fromkeys(result.condition for result in outcome.results))
    lines = [totals(outcome.results)]
    if len(conditions) > 1:
        lines += [f"  {name:8} {totals([r for r in outcome.results if r.condition == name])}" for name in conditions]
    wrong = [result for result in outcome.results if result.judgement is Judgement.WRONG]
    for _, rows in itertools.groupby(wrong, key=lambda r: (r.condition, r.case, r.why)):
        first, *more = rows
        others = f"; {len(more)} more rows" if more else ""
        row = f"{first.row.metric}: {described(first.row)}"
        lines.append(f"WRONG {first.condition} {first.case}, {row}; truth: {first.truth}; {first.why}{others}")
    lines += [f"FAILED {each.condition} {each.case}: {each.message.splitlines()[-1]}" for each in outcome.failures]
    return "\n".join(lines)


def described(row: Statement) -> str:
    """Return verdict, ratio and interval."""
    if row.effect is None:
        return row.verdict
    interval = "" if row.low is None or row.high is None else f" ({row.low:.3f}-{row.high:.3f})"
    return f"{row.verdict} {row.effect:.3f}{interval}"


def totals(results: Sequence[Result]) -> str:
    """Return e.g. "0 of 61 statements wrong; 34 of 40 true differences stated"."""
    stated = [result for result in results if result.stated]
    wrong = sum(result.judgement is Judgement.WRONG for result in stated)
    true = [result for result in results if result.differs]
    found = sum(result.judgement is Judgement.RIGHT and result.row.verdict in DIRECTED for result in true)
    equal = [result for result in results if result.same_work and result.truth == "1"]
    alike = sum(result.row.verdict in EQUAL for result in equal)
    other = [result for result in results if not result.same_work and result.row.metric == "wall"]
    refused = sum(result.row.verdict in NOT_STATED for result in other)
    return (
        f"{wrong} of {len(stated)} statements wrong; {found} of {len(true)} true differences stated; "
        f"{alike} of {len(equal)} equal rows stated as equal; {refused} of {len(other)} pairs of different work not judged"
    )


def table(outcome: Outcome, cases: Sequence[Case]) -> str:
    """Return a Markdown table: elapsed time of each case under each condition; wrong rows of other metrics besides, in bold."""
    seen = [result.condition for result in outcome.results] + [each.condition for each in outcome.failures]
    conditions = list(dict.fromkeys(seen))
    lines = [
        f"| case | truth | {' | '.join(conditions)} |",
        f"|---|---|{'---|' * len(conditions)}",
    ]
    for case in cases:
        mine = [result for result in outcome.results if result.case == case.name]
        failed = {each.condition for each in outcome.failures if each.case == case.name}
        truth = next((r.truth for r in mine if r.row.metric == "wall"), mine[0].truth if mine else "")
        cells = ["failed" if name in failed else _cell([r for r in mine if r.condition == name]) for name in conditions]
        lines.append(f"| {case.name} | {truth} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(results: Sequence[Result]) -> str:
    wrong = [result for result in results if result.judgement is Judgement.WRONG]
    parts = [result.text for result in results if result.row.metric == "wall" and result not in wrong]
    for result in wrong[:2]:
        prefix = "" if result.row.metric == "wall" else f"{result.row.metric} "
        parts.append(f"**{prefix}{result.text}: wrong**")
    return ", ".join([*parts, *([f"**{len(wrong) - 2} more**"] if len(wrong) > 2 else [])])


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return everything as JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(outcome)
    return values


def from_json(files: Sequence[dict[str, Any]]) -> Outcome:
    """Return what `as_json` gave; of a case that several files have under one condition, what the last one has."""
    outcome = Outcome()
    for found in (msgspec.convert(each, Outcome) for each in files):
        rows: list[Result | Failure] = [*found.results, *found.failures]
        new = {(row.condition, row.case) for row in rows}
        outcome.results = [row for row in outcome.results if (row.condition, row.case) not in new] + found.results
        outcome.failures = [row for row in outcome.failures if (row.condition, row.case) not in new] + found.failures
    return outcome


def _short(found: Outcome) -> str:
    if found.failures:
        return f"FAILED, {found.failures[0].message.splitlines()[-1]}"
    leading = next((r for r in found.results if r.row.metric == "wall"), found.results[0])
    wrong = [r for r in found.results if r.judgement is Judgement.WRONG]
    return f"{leading.text}, {f'{len(wrong)} WRONG' if wrong else leading.judgement.value}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
