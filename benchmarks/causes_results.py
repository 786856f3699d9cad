# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results of `benchmarks/causes`: what explain named, stored per pair, and the tables of all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swapstone.explanation.remedies_tried import closed_gap
from swapstone.model import RemedyRuns

TOP = Path(__file__).parents[1]

CONFIRMED: Mapping[str, str] = {
    "false-sharing": "one processor",
    "faults": "kept mappings",
    "mmap": "kept mappings",
    "huge-pages": "huge mappings",
    "unbuffered": "larger buffers",
    "nagle": "TCP_NODELAY",
    "fsync": "no forced writes",
    "direct": "page cache",
    "sleep": "no sleeps",
    "timeouts": "no sleeps",
    "growth": "room to grow",
}
"""Causes that a remedy takes away, with its name."""


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


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a pair.

    Attributes:
        name: of the cause.
        null: whether the plain program was compared with itself.
        verdict: ``right``; ``class``: the right class, without the evidence that names the cause; ``counts``: another class by counts
            alone, without a share; ``WRONG``; ``missed`` (nothing was named); ``none`` (no difference in the record); ``silent``;
            ``LOUD`` or ``FAILED``.
        outcome: what explain gave.
        seconds: of the comparison and the explanation.
        load: average of the last minute before it.
        costs: of the instruments, as in the explanation's JSON, with `slower`.
        remedies: that were tried, as in the explanation's JSON.
    """

    name: str
    null: bool
    verdict: str
    outcome: Outcome
    seconds: float
    load: float = 0.0
    costs: tuple[dict[str, Any], ...] = ()
    remedies: tuple[dict[str, Any], ...] = ()

    def store(self, path: Path) -> None:
        """Write it; a kill leaves no part of it under this name."""
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self))
        part.replace(path)


def stored(path: Path) -> Result | None:
    """Return a stored result; None if there is none, it is damaged, or the pair failed."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError):
        return None
    return None if found.verdict == "FAILED" else found


def state_of(top: Path = TOP, **settings: object) -> str:
    """Return a name for the state of the program, of the planted causes and of the settings: 12 hexadecimal digits.

    Args:
        top: folder of the repository.
        settings: of the benchmark.
    """
    digest = hashlib.sha256(json.dumps([settings, os.uname().release, os.uname().nodename], sort_keys=True).encode())
    sources = [
        *(top / "src").rglob("*.py"),
        *(top / "src").rglob("*.toml"),
        *(top / "benchmarks").glob("*causes*.[cph]*"),
    ]
    for path in sorted(sources):
        digest.update(f"{path.relative_to(top)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def row(result: Result) -> str:
    """Return a line of the table that is printed while it runs."""
    found, name = result.outcome, f"null {result.name}" if result.null else result.name
    between = "" if found.interval is None else f"{found.interval[0]:.0%} to {found.interval[1]:.0%}"
    share = f"{found.share:.0%}" if found.named else ""
    return (
        f"{name[:14]:14} {result.verdict:6} {found.named or 'nothing':22} {share:>5} {between:14} {found.how:26} "
        f"{result.seconds:6.0f} s"
    )


def tables(results: Sequence[Result], state: str, summary: str) -> str:
    """Return the results as Markdown: the causes and nulls, the remedies if any were tried, and the costs of the instruments."""
    loads = [each.load for each in results]
    load = f"load {min(loads):.1f} to {max(loads):.1f}" if loads else "nothing ran"
    parts = [f"State `{state}`, {len(os.sched_getaffinity(0))} processors, {load}. {summary}.", _of_causes(results)]
    if tried := _of_remedies(results):
        parts.append(tried)
    if costs := _of_costs(results):
        parts.append(costs)
    return "\n\n".join(parts) + "\n"


def with_slowdowns(costs: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return costs of instruments with the largest factor by which an operation takes longer under each; None if it is unknown.

    Args:
        costs: as in the explanation's JSON.
        runs: as there.
    """
    found = []
    for cost in costs:
        factors = [run["overhead"] for run in runs if run["instrument"] == cost["instrument"] and run["overhead"]]
        found.append({**cost, "slower": max(factors, default=None)})
    return tuple(found)


def _table(head: str, rows: Sequence[Sequence[str]]) -> str:
    columns = head.split(" | ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def _of_causes(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        found = each.outcome
        interval = "" if found.interval is None else f"{100 * found.interval[0]:.0f} to {100 * found.interval[1]:.0f} %"
        share = f"{100 * found.share:.0f} %" if found.named else ""
        name = f"null of `{each.name}`" if each.null else f"`{each.name}`"
        rows.append((name, each.verdict, found.named or "nothing", share, interval, found.how))
    return _table("planted | verdict | named first | share | interval | how", rows)


def gap_closed(result: Result) -> tuple[str, float, tuple[float, float]] | None:
    """Return the remedy that closes most of a gap, its share and its interval; None if none was measured with an interval."""
    found = []
    for each in result.remedies:
        gap = closed_gap(msgspec.convert(each, RemedyRuns))
        if gap is not None and gap.interval is not None:
            found.append((each["name"], gap.share, gap.interval))
    return max(found, key=lambda one: one[1]) if found else None


def _of_remedies(results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        if not each.remedies:
            continue
        best = gap_closed(each)
        others = [one["name"] for one in each.remedies if best is None or one["name"] != best[0]]
        closed = ("none measured", "", "") if best is None else (best[0], f"{100 * best[1]:.0f} %", _between(best[2]))
        rows.append((f"`{each.name}`", *closed, ", ".join(others)))
    if not rows:
        return ""
    table = _table("planted | remedy | closes | interval | tried as well", rows)
    good = sum((best := gap_closed(each)) is not None and best[2][0] > 0 for each in results if each.remedies)
    return f"{table}\n\nOf {len(rows)} gaps, {good} are closed in part or whole (interval above 0)."


def _between(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"


def _of_costs(results: Sequence[Result]) -> str:
    """Return for each instrument the median and the maximum over all pairs of its time, and of its time in trials of both variants."""
    seconds, trials, slower = dict[str, list[float]](), dict[str, list[float]](), dict[str, list[float]]()
    for result in results:
        for cost in result.costs:
            seconds.setdefault(cost["instrument"], []).append(cost["seconds"])
            if cost["trial_s"] > 0:
                trials.setdefault(cost["instrument"], []).append(cost["seconds"] / cost["trial_s"])
            if cost["slower"]:
                slower.setdefault(cost["instrument"], []).append(cost["slower"])
    rows = []
    for name, each in seconds.items():
        ratio, factors = trials.get(name, []), slower.get(name, [])
        many = (f"{statistics.median(ratio):.0f}", f"{max(ratio):.0f}") if ratio else ("", "")
        times = (f"{statistics.median(factors):.1f}", f"{max(factors):.1f}") if factors else ("", "")
        label = "none" if name == "reference" else name
        rows.append((label, f"{statistics.median(each):.1f} s", f"{max(each):.1f} s", *many, *times))
    head = "instrument | elapsed, median | longest | trials as long, median | most | slower, median | most"
    return _table(head, rows) if rows else ""
