# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of what instruments of this machine measured of a row: counts, waits, instructions, and the instruments themselves."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model.memory_phases import MEMORY
from swapstone.core.model.number_text import ratio
from swapstone.parts.explain.explanation.amounts import amount, duration, short_label
from swapstone.parts.explain.explanation.count_costs import distance
from swapstone.parts.explain.explanation.time_split import run_of
from swapstone.parts.explain.model.explanation import INSTRUCTIONS, Count, EvidenceTable, RowMeasurements

MOST_COUNTS = 24
MOST_WAITS = 12
TAKEN = "ready, and its processor taken by"
Rows = tuple[tuple[str, ...], ...]


def measured_tables(seen: RowMeasurements, counts: Sequence[Count]) -> tuple[EvidenceTable, ...]:
    """Return the tables, those with rows."""
    waits = ("waits, all threads", "whose", "baseline", "time", "candidate", "time")
    instruments = ("instrument", "variant", "operations", "time / without", "tool")
    made = (
        (
            "Counts in one operation",
            ("group", "in one operation", "baseline", "candidate", "ratio"),
            count_rows(counts),
        ),
        ("Waits in one operation", waits, wait_rows(seen)),
        ("Instruments", instruments, instrument_rows(seen)),
    )
    return tuple(EvidenceTable(title=title, head=head, rows=rows, keys=2) for title, head, rows in made if rows)


def ratio_of(count: Count) -> str:
    """Return candidate / baseline as text: ``only candidate`` where the baseline has none."""
    if count.baseline is None or count.candidate is None:
        return "not counted on one side"
    if any(count.least):
        return "not counted to the end"
    if not count.baseline or not count.candidate:
        return (
            "equal" if count.baseline == count.candidate else f"only {'candidate' if count.candidate else 'baseline'}"
        )
    between = "" if count.interval is None else f" ({ratio(count.interval[0])} to {ratio(count.interval[1])})"
    return ratio(count.candidate / count.baseline) + between


def count_rows(counts: Sequence[Count]) -> Rows:
    """Return the counts to show: those that differ by more than 2 %, without counts of single functions."""
    whole = [
        count
        for count in counts
        if count.group not in {"calls", MEMORY} and (count.group != INSTRUCTIONS or count.name == "all")
    ]
    return tuple(
        (
            count.group,
            count.name,
            *(
                "" if value is None else f"{'at least ' if least else ''}{amount(value)}"
                for value, least in zip((count.baseline, count.candidate), count.least, strict=True)
            ),
            ratio_of(count),
        )
        for count in [each for each in whole if distance(each) > 0.02][:MOST_COUNTS]
    )


def wait_rows(seen: RowMeasurements) -> Rows:
    """Return what ended the waits of both variants, those with the most time first, and who had the processor meanwhile."""
    none = ("", 0.0)
    sides: list[dict[tuple[str, str], tuple[str, float]]] = []
    for reference in seen.references:
        run = run_of(seen, "waits", reference.variant)
        found = {} if run is None else {(w.reason, w.whose): (amount(w.waits), w.total_ns) for w in run.waits}
        taken = {} if run is None else {(TAKEN, each.whose): ("", each.total_ns) for each in run.taken}
        sides.append({**found, **taken})
    keys = sorted({*sides[0], *sides[1]}, key=lambda key: (-max(side.get(key, none)[1] for side in sides), key))
    pairs = [(key, [side.get(key, none) for side in sides]) for key in keys[:MOST_WAITS]]
    rows = [(*key, *(text for waits, ns in times for text in (waits, duration(ns)))) for key, times in pairs]
    return tuple(row for row in rows if row[3] != "0 ns" or row[5] != "0 ns")


def instrument_rows(seen: RowMeasurements) -> Rows:
    """Return each variant under each instrument, with the overhead."""
    return tuple(
        (
            run.instrument,
            short_label(run.variant),
            amount(run.operations),
            "" if run.overhead is None else f"{run.overhead:.2f}",
            run.tool or "none",
        )
        for run in sorted(seen.runs, key=lambda run: (run.instrument, run.variant))
    )
