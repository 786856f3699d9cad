# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts about pairs of programs whose truth is known: how many are wrong, and how many true differences are stated.

    benchmarks/verdicts                                       all pairs, under all conditions: five hours
    benchmarks/verdicts --condition idle --only 'dd-*'        some
    benchmarks/verdicts --kind 'planted *' --tree OLD --tree . true differences that two checkouts state, in turns
    benchmarks/verdicts --kind 'elapsed time' --others        beside hyperfine and benchstat, in the same window
    benchmarks/verdicts --results FILE                        what the file has is not run again
    benchmarks/verdicts --list                                the pairs, what is true of them, and why

Each pair is compared by `swapstone compare` with a budget of a few seconds, in a folder of its own, on an idle machine or beside
processes that this program starts and ends. A row is wrong if its verdict contradicts the truth. Inconclusive, invalid, disturbed and
unavailable rows state nothing. The answer's clauses about time, CPU time and memory are statements as well, so is a sentence that denies
a stated difference, and so is the exit status of --fail-if worse. The exit status is 1 if a statement is wrong or a comparison failed.

With --others, hyperfine runs each pair of elapsed or CPU time after Swapstone did. It states a difference where its ratio of means is
further from 1 than the error that it prints beside; benchstat is given hyperfine's runs, and states one where it prints no ``~``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.shared import TOP, parser_of, swapstone
from benchmarks.shared import table as table_of
from benchmarks.verdict_cases import ALL, CASES, PLAIN, Case
from benchmarks.verdict_hogs import CONDITIONS, beside, load
from benchmarks.verdict_truth import (
    DIRECTED,
    NOT_STATED,
    Bounds,
    Judgement,
    Statement,
    Truth,
    clauses,
    denied,
    judge,
    judge_refusal,
)

START_S = 3.0
"""Time of a comparison besides its budget, for the estimate of the remaining time."""

EQUAL = frozenset({"equivalent", "same median"})

TIMES = frozenset({"wall", "cpu", "tree_cpu"})
"""Metrics whose decided difference no sentence denies and --fail-if worse counts, besides those that a program prints."""

OTHERS = ("hyperfine", "benchstat")
MEMORY = ("tree_memory", "maxrss")
FAILED, WORSE, NOTHING = 2, 3, 4
"""Exit statuses: the command could not do its work; those of --fail-if worse."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What a comparison answered.

    Attributes:
        condition, case: what was compared.
        status: exit status.
        message: what it printed to standard error.
        rows: of its report; none without a record.
        caveats: their kinds.
        answer: the sentence of its report.
        printed: the whole short report.
    """

    condition: str
    case: str
    status: int
    message: str
    rows: tuple[Statement, ...]
    caveats: tuple[str, ...] = ()
    answer: str = ""
    printed: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """One row of one comparison, judged.

    Attributes:
        condition, case: what was compared.
        row: what the report states.
        judgement, why: of the row.
    """

    condition: str
    case: Case
    row: Statement
    judgement: Judgement
    why: str

    @property
    def text(self) -> str:
        """Return verdict and ratio, e.g. ``worse 2.51``."""
        has_number = self.judgement is not Judgement.NOT_STATED and self.row.effect is not None
        return f"{self.row.verdict} {self.row.effect:.3g}" if has_number else self.row.verdict


def main(arguments: Sequence[str]) -> int:
    """Run the selected pairs; return the exit status."""
    parser = parser_of("verdicts", __doc__)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="cases whose name matches; repeatable")
    parser.add_argument("--kind", action="append", metavar="PATTERN", help="cases whose kind matches; repeatable")
    parser.add_argument("--condition", default=",".join(CONDITIONS), help="some of: %(default)s")
    parser.add_argument("--budget", type=float, metavar="S", help="the same for all cases, in seconds")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep what each comparison answers")
    parser.add_argument(
        "--tree",
        action="append",
        type=Path,
        metavar="FOLDER",
        help="checkout to judge, set up; repeatable; default: this",
    )
    parser.add_argument("--others", action="store_true", help="judge hyperfine and benchstat, too")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--folder", type=Path, help="for programs, their files and records; default: a temporary one")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.condition.split(",")) - set(CONDITIONS)):
        parser.error(f"unknown condition {unknown[0]}: choose from {', '.join(CONDITIONS)}")
    chosen = options.only or ["*"]
    kinds = options.kind or ["*"]
    cases = [
        case
        for case in CASES
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in chosen)
        and any(fnmatch.fnmatch(case.kind, pattern) for pattern in kinds)
    ]
    if not cases:
        print(f"No case matches {' '.join(chosen)}. --list prints them.", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(map(listed, cases)))
        return 0
    if options.others and (missing := [name for name in OTHERS if not shutil.which(name)]):
        parser.error(f"--others needs {' and '.join(missing)} on PATH")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="swapstone-verdicts-", dir=options.folder) as name:
        trees = [tree.resolve() for tree in options.tree or [TOP]]
        reports = _run(
            cases,
            options.condition.split(","),
            trees,
            Path(name),
            file=options.results,
            budget_s=options.budget,
            others=options.others,
        )
    results = [result for report in reports for result in judged(report)]
    print(f"{summary(reports)}\n\n{table(reports)}")
    wrong = any(result.judgement is Judgement.WRONG for result in results)
    return 1 if wrong or any(not judged(report) for report in reports) else 0


def listed(case: Case) -> str:
    """Return a case as text: name, commands, truth, reason."""
    truth = "; ".join(f"{metric}: {truth}" for metric, truth in case.truth.items())
    work = truth if case.same_work else "different work"
    commands = [shlex.join(case.arguments)] if case.arguments else [case.baseline, case.candidate]
    return "\n    ".join([case.name, *commands, f"{work}. {case.why}"])


def build(scratch: Path) -> Path:
    """Compile `adversary` with the iterations of a microsecond on this machine; return its path."""
    program, source = scratch / "adversary", TOP / "benchmarks" / "adversary.c"
    compile_it = ["cc", "-O2", "-pthread", "-static", "-o", str(program), str(source)]
    subprocess.run(compile_it, check=True)
    per_us = subprocess.run([program, "calibrate"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([*compile_it, f"-DPER_US={per_us}ull"], check=True)
    return program


@functools.cache
def _compiled(name: str, text: str, folder: Path) -> Path:
    """Compile a source once for all cases that have it; return the program."""
    made = Path(tempfile.mkdtemp(dir=folder)) / name.removesuffix(".c")
    (made.parent / name).write_text(text)
    subprocess.run(["cc", "-O2", "-pthread", "-o", made.name, name], cwd=made.parent, check=True)
    return made


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
        if name.endswith(".c"):
            shutil.copy2(_compiled(name, text, program.parent), folder)


def _run(
    cases: Sequence[Case],
    conditions: Sequence[str],
    trees: Sequence[Path],
    scratch: Path,
    *,
    file: Path | None,
    budget_s: float | None,
    others: bool,
) -> list[Report]:
    """Return the reports of all trees about all cases under all conditions; those of the file are not made again.

    Of several trees, which take turns, the condition of a report has the name besides.
    """
    stored = msgspec.json.decode(file.read_bytes(), type=list[Report]) if file and file.exists() else []
    found = {(report.condition, report.case): report for report in stored}
    build(scratch)
    began, spent = time.monotonic(), 0.0
    kind = subprocess.run(["stat", "-f", "-c", "%T", scratch], check=True, capture_output=True, text=True).stdout
    if kind.strip() in ("tmpfs", "ramfs"):  # no page is ever read again there
        print(f"Cases that read from a disk are left out: {scratch.parent} lies in memory (--folder)", file=sys.stderr)
        cases = [case for case in cases if not case.needs_disk]
    labels = {(name, tree): f"{name} {tree.name}" if len(trees) > 1 else name for name in conditions for tree in trees}
    plan = [
        (name, case, tree)
        for name, case, tree in itertools.product(conditions, cases, trees)
        if (labels[name, tree], case.name) not in found
    ]
    whole = sum(START_S + (budget_s or case.seconds) for _, case, _ in plan)
    for condition, pairs in itertools.groupby(plan, key=lambda each: each[0]):
        with load(condition, scratch / "load"):
            for _, case, tree in pairs:
                seconds, label = budget_s or case.seconds, labels[condition, tree]
                report = found[label, case.name] = compare(case, label, scratch, seconds, tree)
                if others and is_timed(case):
                    found |= {(each.condition, each.case): each for each in by_others(case, label, scratch)}
                spent += START_S + seconds
                left_min = (whole - spent) * (time.monotonic() - began) / spent / 60
                print(f"{label} {case.name}: {_cell(report)}; {left_min:.0f} min left", file=sys.stderr, flush=True)
                if file:
                    file.write_bytes(msgspec.json.encode(list(found.values())))
    wanted = {case.name for case in cases}
    shown = {
        f"{label}{other}" for label in labels.values() for other in ("", *(f" {name}" for name in OTHERS if others))
    }
    return [report for report in found.values() if report.condition in shown and report.case in wanted]


def is_timed(case: Case) -> bool:
    """Return whether a pair is about time alone, which other programs measure too."""
    return case.kind in (PLAIN, "planted cpu") and not (case.arguments or case.beside or case.refused or case.options)


def by_others(case: Case, condition: str, scratch: Path) -> tuple[Report, ...]:
    """Return what hyperfine and benchstat state about elapsed time; hyperfine runs the two commands one after the other."""
    folder, file = scratch / "case", scratch / "hyperfine.json"
    shutil.rmtree(folder, ignore_errors=True)
    lay_out(case, scratch / "adversary", folder)
    words = ["hyperfine", "--shell=none", "--ignore-failure", "--export-json", str(file), case.baseline, case.candidate]
    environment = {**os.environ, **case.environment}
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        return tuple(Report(f"{condition} {name}", case.name, ended.returncode, ended.stderr, ()) for name in OTHERS)
    base, candidate = json.loads(file.read_text())["results"]
    ratio = candidate["mean"] / base["mean"]
    error = ratio * math.hypot(*(each["stddev"] / each["mean"] for each in (base, candidate)))
    low, high = ratio - error, ratio + error
    rows = [Statement("wall", _direction(ratio) if low > 1 or high < 1 else "inconclusive", ratio, low, high)]
    names = [scratch / name for name in ("base", "candidate")]
    for path, side in zip(names, (base, candidate), strict=True):
        path.write_text("".join(f"BenchmarkPair 1 {each * 1e9:.0f} ns/op\n" for each in side["times"]))
    printed = subprocess.run(["benchstat", "-format", "csv", *names], capture_output=True, text=True, check=True).stdout
    change = next(line for line in printed.splitlines() if line.startswith("Pair,")).split(",")[5]
    ratio = 1 if change == "~" else 1 + float(change.strip("%")) / 100
    rows.append(Statement("wall", "inconclusive" if change == "~" else _direction(ratio), ratio))
    return tuple(
        Report(f"{condition} {name}", case.name, 0, "", (row,)) for name, row in zip(OTHERS, rows, strict=True)
    )


def _direction(ratio: float) -> str:
    return "worse" if ratio > 1 else "better"


def compare(case: Case, condition: str, scratch: Path, seconds: float, tree: Path = TOP) -> Report:
    """Compare one pair by the command line of a checkout."""
    folder, record = scratch / "case", scratch / "record"
    for old in (folder, record):
        shutil.rmtree(old, ignore_errors=True)
    lay_out(case, scratch / "adversary", folder)
    names = [word for name in case.names for word in ("--name", name)]
    compared = case.arguments or (case.baseline, case.candidate, *names)
    limits = ["--budget", f"{seconds:g}s", "--margin", f"{case.margin:g}%", "--out", str(record)]
    words = ["compare", *limits, "--fail-if", "worse", *case.options, *compared]
    script = ["sh", "-c", case.beside]
    with beside(script, folder, {**os.environ, "RECORD": str(record)}) if case.beside else contextlib.nullcontext():
        environment = {**os.environ, **case.environment}
        ended = swapstone(words, folder, limit_s=20 * seconds + 120, environment=environment, tree=tree)
    command = [str(tree / "swapstone"), "export", str(record), "--format", "json"]
    exported = subprocess.run(command, capture_output=True, text=True, check=False)
    content = {} if exported.returncode else json.loads(exported.stdout)
    found = content.get("analysis", {"comparisons": [], "caveats": []})
    # Sizes of program files and exit statuses are facts, which nothing can mislead.
    rows = [row for row in found["comparisons"] if row["metric"]["quantity"] != "size"]
    return Report(
        condition,
        case.name,
        ended.returncode,
        ended.stderr,
        tuple(statement_of(row) for row in rows if row["metric"]["name"] != "exit_status"),
        tuple(sorted({caveat["kind"] for caveat in found["caveats"]})),
        content.get("answer", ""),
        ended.stdout,
    )


def statement_of(row: dict[str, Any]) -> Statement:
    """Return a row of the JSON export; without numbers where they are no ratios."""
    numbers = {name: row[name] for name in ("effect", "low", "high")} if row["scale"] == "ratio" else {}
    return Statement(row["metric"]["name"], row["verdict"], **numbers, better=row["metric"]["better"])


def judged(report: Report, cases: Sequence[Case] = CASES) -> list[Result]:
    """Judge the rows of a comparison; none if it failed."""
    case = next(case for case in cases if case.name == report.case)
    if case.refused:
        row = Statement("wall", "refused" if report.status else "not refused")
        return [Result(report.condition, case, row, *judge_refusal(report.status, report.message, report.rows))]
    if not report.rows and not case.statuses and not case.expected_words:
        return []

    def decide(row: Statement, truth: Truth, never: frozenset[str] = frozenset()) -> tuple[Judgement, str]:
        return judge(
            row,
            truth,
            case.margin / 100,
            same_work=case.same_work,
            never=never,
            caveats=report.caveats,
            excusing=case.excusing,
        )

    found = [
        (row, decide(row, truth, case.never if row.metric == "wall" else frozenset()))
        for row in report.rows
        if (truth := case.truth_of(row.metric)) is not None
    ]
    for clause in clauses(report.answer):
        names = MEMORY if clause.metric == "memory" else (f"tree_{clause.metric}", clause.metric)
        if truth := next((case.truth[name] for name in names if name in case.truth), case.truth.get(ALL)):
            found.append((dataclasses.replace(clause, metric=f"answer: {clause.metric}"), decide(clause, truth)))
    found += [(Statement("sentence", text), (Judgement.WRONG, why)) for text, why in _wrong_sentences(case, report)]
    if case.statuses or report.answer:
        row = Statement("exit status", str(report.status))
        why = wrong_status(case, report)
        found.append((row, (Judgement.WRONG, why) if why else (Judgement.RIGHT, "")))
    return [Result(report.condition, case, row, *judgement) for row, judgement in found]


def _leading(case: Case) -> frozenset[str]:
    """Return the metrics of time, and those that --metric names."""
    return TIMES | set(re.findall(r"--metric (\w+)", " ".join(case.options)))


def _wrong_sentences(case: Case, report: Report) -> Iterator[tuple[str, str]]:
    """Yield each sentence that denies a row, and each rule of the case about words that the report breaks, with the reason."""
    text = f"{report.answer}\n{report.printed}"
    if line := denied(text, report.rows, _leading(case)):
        yield line, "it denies a row of the same report"
    text_of_answer = report.message if report.status == FAILED else report.answer or report.message
    for pattern in case.expected_words:
        if not re.search(pattern, text_of_answer):
            yield text_of_answer.strip().rpartition("\n")[2] or "nothing", f"{pattern} is not in it"
    for pattern in case.excluded_words:
        for line in f"{report.printed}\n{report.message}".splitlines():
            if re.search(pattern, line):
                yield line.strip(), f"{pattern} is false"


def wrong_status(case: Case, report: Report) -> str:
    """Return why the exit status of --fail-if worse is wrong; empty if it is right."""
    leading = [row for row in report.rows if row.metric in _leading(case)]
    few = "few-blocks" in report.caveats and not any(row.verdict not in NOT_STATED for row in leading)
    if report.status == NOTHING and (few or any(row.verdict == "disturbed" for row in leading)):
        return ""
    if report.status == FAILED and few and "budget" in report.message:
        return ""
    if case.statuses:
        return "" if report.status in case.statuses else f"right: {', '.join(map(str, sorted(case.statuses)))}"
    stated = [row for row in leading if row.verdict not in NOT_STATED]
    if not case.same_work:
        return "" if report.status == WORSE or not set(case.excusing).isdisjoint(report.caveats) else "different work"
    worse = [row for row in leading if row.verdict in ("worse", "worse tail", "mixed")]
    if worse and report.status in (0, WORSE):
        return (
            "a row is worse" if report.status == 0 and any(_is_beyond(row, case.margin / 100) for row in worse) else ""
        )
    if report.status == NOTHING:
        return "rows are compared" if stated else ""
    return "" if report.status == 0 else "no row is worse"


def _is_beyond(row: Statement, margin: float) -> bool:
    """Return whether the whole interval of a worse row is beyond the margin. That of a tail is of means, which a row does not have."""
    if row.verdict != "worse" or row.low is None or row.high is None:
        return False
    bounds = Bounds(row.low, row.high)
    return (bounds.inverse() if row.better == "higher" else bounds).low > 1 + margin


def summary(reports: Sequence[Report], cases: Sequence[Case] = CASES) -> str:
    """Return the totals, those of each condition, and every wrong row."""
    results = [result for report in reports for result in judged(report, cases)]
    conditions = list(dict.fromkeys(result.condition for result in results))
    kinds = list(dict.fromkeys(result.case.kind for result in results))
    lines = [totals(results)]
    if len(conditions) > 1:
        lines += [f"  {name:8} {totals([r for r in results if r.condition == name])}" for name in conditions]
    if len(kinds) > 1:
        lines += [f"  {name:14} {totals([r for r in results if r.case.kind == name])}" for name in kinds]
    wrong = [result for result in results if result.judgement is Judgement.WRONG]
    for (condition, case, why), rows in itertools.groupby(wrong, key=lambda r: (r.condition, r.case.name, r.why)):
        first, *more = rows
        others = f"; {len(more)} more rows" if more else ""
        truth = first.case.truth_text(first.row.metric)
        lines.append(f"WRONG {condition} {case}, {first.row.metric}: {first.row}; truth: {truth}; {why}{others}")
    lines += [
        f"FAILED {each.condition} {each.case}: {(each.message.strip() or f'exit status {each.status}').splitlines()[-1][:200]}"
        for each in reports
        if not judged(each, cases)
    ]
    return "\n".join(lines)


def totals(results: Sequence[Result]) -> str:
    """Return e.g. "0 of 61 statements wrong; 34 of 40 true differences stated"."""
    stated = [result for result in results if result.judgement is not Judgement.NOT_STATED]
    wrong = sum(result.judgement is Judgement.WRONG for result in stated)
    true = [
        result
        for result in results
        if result.case.same_work
        and not result.case.refused
        and (truth := result.case.truth_of(result.row.metric)) is not None
        and truth.differs(result.case.margin / 100)
    ]
    found = sum(result.judgement is Judgement.RIGHT and result.row.verdict in DIRECTED for result in true)
    equal = [result for result in results if result.case.truth_text(result.row.metric) == "1"]
    alike = sum(result.row.verdict in EQUAL for result in equal)
    other = [result for result in results if not result.case.same_work and result.row.metric == "wall"]
    refused = sum(result.row.verdict in NOT_STATED for result in other)
    return (
        f"{wrong} of {len(stated)} statements wrong; {found} of {len(true)} true differences stated; "
        f"{alike} of {len(equal)} equal rows stated as equal; {refused} of {len(other)} pairs of different work not judged"
    )


def table(reports: Sequence[Report], cases: Sequence[Case] = CASES) -> str:
    """Return a Markdown table: elapsed time of each case under each condition; wrong rows of other metrics besides, in bold."""
    conditions = list(dict.fromkeys(report.condition for report in reports))
    cells = {(report.case, report.condition): _cell(report, cases) for report in reports}
    rows = [
        [case.name, case.truth_text("wall"), *(cells.get((case.name, name), "") for name in conditions)]
        for case in cases
        if case.name in {report.case for report in reports}
    ]
    return table_of(("case", "truth", *conditions), rows)


def _cell(report: Report, cases: Sequence[Case] = CASES) -> str:
    results = judged(report, cases)
    wrong = [result for result in results if result.judgement is Judgement.WRONG]
    parts = [result.text for result in results if result.row.metric == "wall" and result not in wrong]
    for result in wrong[:2]:
        prefix = "" if result.row.metric == "wall" else f"{result.row.metric} "
        parts.append(f"**{prefix}{result.text}: wrong**")
    more = [f"**{len(wrong) - 2} more**"] if len(wrong) > 2 else []
    return ", ".join([*parts, *more]) if results else "failed"
