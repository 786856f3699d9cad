# SPDX-License-Identifier: MIT OR Apache-2.0
"""The explanation of a row: a document, and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from swapstone.core.model.memory_phases import MEMORY
from swapstone.core.model.number_text import ratio
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import (
    Block,
    BulletList,
    Commands,
    Document,
    Heading,
    Item,
    Links,
    Section,
    Tone,
)
from swapstone.core.report.formatting import safe
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.amounts import amount, duration, percent, signed
from swapstone.parts.explain.explanation.count_costs import distance
from swapstone.parts.explain.explanation.remedy_gaps import remedy_text
from swapstone.parts.explain.explanation.row_answer import function_text
from swapstone.parts.explain.explanation.time_split import SHOWN_FUNCTIONS, run_of
from swapstone.parts.explain.model.explanation import (
    RECORDED_SWITCHES,
    Count,
    Explanation,
    RowKey,
    RowMeasurements,
    TracedExplanation,
)
from swapstone.parts.explain.model.variant_label import short_label

INSTRUCTIONS = "instructions"
MOST_COUNTS = 24
MOST_FUNCTIONS = 8
MOST_WAITS = 12
TAKEN = "ready, and its processor taken by"
READY_TEXT = "ready, without a processor"
Rows = list[tuple[str, ...]]


def function_name(name: str, module: str = "") -> str:
    """Return a function as a report prints it, with its module if it has one."""
    return (safe(name) or "code without a name") + (f" [{safe(module)}]" if module else "")


def ratio_of(count: Count) -> str:
    """Return candidate / baseline as text: ``only candidate`` where the baseline has none."""
    if count.baseline is None or count.candidate is None:
        return "not counted on one side"
    if not count.baseline or not count.candidate:
        return (
            "equal" if count.baseline == count.candidate else f"only {'candidate' if count.candidate else 'baseline'}"
        )
    between = "" if count.interval is None else f" ({ratio(count.interval[0])} to {ratio(count.interval[1])})"
    return ratio(count.candidate / count.baseline) + between


def count_rows(explanation: Explanation) -> Rows:
    """Return the counts to show: those that differ by more than 2 %, without counts of single functions."""
    whole = [
        count
        for count in explanation.counts
        if count.group not in {"calls", MEMORY, RECORDED_SWITCHES}
        and (count.group != INSTRUCTIONS or count.name == "all")
    ]
    return [
        (
            count.group,
            count.name,
            "" if count.baseline is None else amount(count.baseline),
            "" if count.candidate is None else amount(count.candidate),
            ratio_of(count),
        )
        for count in [each for each in whole if distance(each) > 0.02][:MOST_COUNTS]
    ]


def function_rows(seen: RowMeasurements) -> Rows:
    """Return the functions with the most instructions, of each side."""
    rows: Rows = []
    for side, reference in zip(("baseline", "candidate"), seen.references, strict=True):
        run = run_of(seen, INSTRUCTIONS, reference.variant)
        named = [each for each in run.amounts if each.group == INSTRUCTIONS and each.name != "all"] if run else []
        rows += [(side, each.name, amount(each.value)) for each in named[:MOST_FUNCTIONS]]
    return rows


FUNCTION_HEAD = ("function, with what it calls", "difference", "interval", "share", "called by")


def time_rows(explanation: Explanation) -> Rows:
    """Return the functions that lead, and those with the largest differences, at most `SHOWN_FUNCTIONS`, and the sum of all."""
    time = explanation.time
    if time is None:
        return []
    whole = time.measured[1] - time.measured[0]
    shared = bool(whole) and explanation.differs and not (time.interval and time.interval[0] <= 0 <= time.interval[1])

    def row(name: str, more: float, interval: tuple[float, float] | None, caller: str = "") -> tuple[str, ...]:
        between = f"{signed(interval[0])} to {signed(interval[1])}" if interval else ""
        return (name, signed(more), between, percent(more / whole) if shared else "", caller)

    rows = [
        row(
            safe(function_text(one.symbol, one.object)),
            one.candidate - one.baseline,
            one.interval,
            safe(function_text(one.callers[0].symbol, one.callers[0].object)) if one.callers else "",
        )
        for one in time.functions[:SHOWN_FUNCTIONS]
    ]
    ready = time.ready[1] - time.ready[0]
    more = [(READY_TEXT, signed(ready), "", "", "")] if any(time.ready) else []
    return [*rows, row(f"all of them ({safe(time.metric)})", whole, time.interval), *more]


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
    return [row for row in rows if row[3] != "0 ns" or row[5] != "0 ns"]


def instrument_rows(seen: RowMeasurements) -> Rows:
    """Return each variant under each instrument, with the overhead."""
    return [
        (
            run.instrument,
            short_label(run.variant),
            amount(run.operations),
            "" if run.overhead is None else f"{run.overhead:.2f}",
            run.tool or "none",
        )
        for run in sorted(seen.runs, key=lambda run: (run.instrument, run.variant))
    ]


def summary_of(explanation: Explanation, pages: Sequence[tuple[str, str]]) -> ExplanationSummary:
    """Return an explanation as the record's report prints it.

    Args:
        explanation: of a row.
        pages: pairs (path, description) of the files beside it.
    """
    rows = time_rows(explanation)
    return ExplanationSummary(
        title=title(explanation.place),
        paragraph=explanation.sentence,
        evidence=tuple(
            (title, texts)
            for title, texts in (("Counted", explanation.evidence), ("Not known", explanation.unknown))
            if texts
        ),
        ledger=(FUNCTION_HEAD, *rows) if rows else (),
        pages=tuple(pages),
    )


def title(place: RowKey, load: str = "") -> str:
    """Return the title of an explanation: the row, with its load where that is printed, and its two variants."""
    under = f" under {load}" if load else ""
    return f"{place.workload}{under}, {place.metric}: {place.candidate} against {place.baseline}"


def document_of(
    seen: RowMeasurements, explanation: Explanation, pages: Sequence[tuple[str, str]] = (), record: str = ""
) -> Document:
    """Return the explanation of a row as a document, whose overview is the first screen.

    Args:
        seen: the evidence.
        explanation: what follows from it.
        pages: pairs (file, kind) of the flame graphs of differences in the same folder.
        record: path of the record, for the next command.
    """
    unknown = tuple(Item(safe(text), tone=Tone.WARNING) for text in explanation.unknown)
    return Document(
        kicker="why",
        title=f"Why: {title(seen.place)}",
        answer=safe(explanation.sentence),
        overview=tuple(_overview(seen, explanation, unknown, record)),
        sections=tuple(Section(title=name, blocks=blocks) for name, blocks in _parts(seen, explanation, pages)),
        notices=unknown,
    )


def _overview(
    seen: RowMeasurements, explanation: Explanation, unknown: tuple[Item, ...], record: str
) -> Iterator[Block]:
    """Yield the first screen: functions, counts, remedies, what is not known, and the next step."""
    if rows := time_rows(explanation):
        table = text_table("Time of an operation by function", FUNCTION_HEAD, rows, last=-1)
        callers = msgspec.structs.replace(table.columns[-1], optional=True)
        yield msgspec.structs.replace(table, columns=(*table.columns[:-1], callers))
    if explanation.evidence:
        yield Heading("Counted, a tenth of the difference or more")
        yield BulletList(items=tuple(Item(safe(text)) for text in explanation.evidence))
    if seen.remedies is not None:
        yield Heading("Remedies that were tried")
        tried = tuple(Item(remedy_text(each)) for each in seen.remedies)
        yield BulletList(items=tried or (Item("None is known for these functions."),))
    if unknown:
        yield Heading("Not known")
        yield BulletList(items=unknown)
    if record:
        yield Heading("Next")
        yield Commands(commands=(_next(seen, explanation, record),))


def _next(seen: RowMeasurements, explanation: Explanation, record: str) -> tuple[str, str]:
    """Return the next command, with its purpose."""
    place, time = seen.place, explanation.time
    if not explanation.differs or (time and time.interval and time.interval[0] <= 0 <= time.interval[1]):
        return "measure more pairs", f"swapstone compare --resume {record}"
    row = f"{record} {place.metric} --only {shlex.quote(place.workload)} --candidate {shlex.quote(place.candidate)}"
    if time is None:
        return "see which instruments work here, and what enables the others", "swapstone doctor"
    waits = sum(one.waiting for one in time.functions[: time.leading or 1])
    kind = "--off-cpu" if abs(waits) > sum(abs(one.own) for one in time.functions[:1]) / 2 else "--on-cpu"
    return "see callers and callees", f"swapstone profile {row} {kind} --open"


def _parts(
    seen: RowMeasurements, explanation: Explanation, pages: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, tuple[Block, ...]]]:
    yield (
        "Counts in one operation",
        (
            text_table(
                "Counts",
                ("group", "in one operation", "baseline", "candidate", "ratio"),
                count_rows(explanation),
                keys=2,
            ),
        ),
    )
    if waits := wait_rows(seen):
        yield (
            "Waits in one operation",
            (
                text_table(
                    "Waits", ("waits, all threads", "whose", "baseline", "time", "candidate", "time"), waits, keys=2
                ),
            ),
        )
    if functions := function_rows(seen):
        yield (
            "Instructions by function",
            (text_table("Functions", ("side", "function", "instructions"), functions, keys=2),),
        )
    if pages:
        yield "Flame graphs of the difference", (Links(links=tuple((kind, file) for file, kind in pages)),)
    yield (
        "Instruments",
        (
            text_table(
                "Instruments",
                ("instrument", "variant", "operations", "time / without", "tool"),
                instrument_rows(seen),
                keys=2,
            ),
        ),
    )


def to_json(seen: RowMeasurements, explanation: Explanation) -> str:
    """Return the explanation and its runs as JSON. Profiles are in separate files."""
    return printed_json(
        "explanation",
        explanation=explanation,
        references=seen.references,
        runs=[msgspec.structs.replace(run, profile=None, elapsed=None) for run in seen.runs],
        missing=seen.missing,
        costs=seen.costs,
        remedies=seen.remedies,
    )


def traced_json(kind: str, found: TracedExplanation) -> str:
    """Return all of an explanation on the exact clock as JSON of a kind of document."""
    return printed_json(kind, **msgspec.structs.asdict(found))
