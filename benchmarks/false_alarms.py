# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many reports about identical programs hold a mark, idle and under load: each such mark is false.

benchmarks/false-alarms --out FOLDER --reports 30       30 reports of programs compared with themselves, under each condition
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.shared import parser_of, share, swapstone
from benchmarks.verdict_hogs import CONDITIONS
from benchmarks.verdict_hogs import load as loaded
from benchmarks.verdict_truth import DIRECTED
from benchmarks.verdicts import build

from swapstone.core.model import Analysis, UserError, Verdict
from swapstone.core.record import load
from swapstone.core.session.analysis import analyse_record

NOT_JUDGED = (Verdict.DISTURBED, Verdict.INVALID)


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
    """Make and count the reports; return the exit status."""
    parser = parser_of("false-alarms", __doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the records, on a disk")
    parser.add_argument("--reports", type=int, default=30, help="for each condition (default 30)")
    parser.add_argument("--condition", default="idle,bursts", help=f"some of: {','.join(CONDITIONS)}")
    parser.add_argument("--budget", type=float, default=15, metavar="S", help="of each comparison (default 15 s)")
    options = parser.parse_args(arguments)
    try:
        _measure(options)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


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
