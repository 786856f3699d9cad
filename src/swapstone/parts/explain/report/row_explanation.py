# SPDX-License-Identifier: MIT OR Apache-2.0
"""The explanation of a row: a document, and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from swapstone.core.model.memory_phases import MEMORY
from swapstone.core.model.number_text import ratio
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import (
    Block,
    BulletList,
    Document,
    Item,
    Links,
    Section,
    Tone,
)
from swapstone.core.report.formatting import safe
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.evidence import SMALLEST_NS, amount, duration
from swapstone.parts.explain.explanation.findings import distance, nothing_named, percent, remedy_text, span
from swapstone.parts.explain.explanation.ledger import run_of
from swapstone.parts.explain.model.explanation import (
    RECORDED_SWITCHES,
    Count,
    Explanation,
    Finding,
    Ledger,
    LedgerLine,
    RowKey,
    RowMeasurements,
    TracedExplanation,
)
from swapstone.parts.explain.model.variant_label import short_label

_MOST = 3
_LEAST = 0.05


def sentence(explanation: Explanation) -> str:
    """Return which causes account for a row's difference, with the share that has no cause.

    For example: b_malloc_big1 takes 4.1 ms with musl instead of 1.2 ms with glibc; 62 % of the difference is page faults and 34 % system
    calls; 4 % is unexplained.
    """
    place, ledger = explanation.place, explanation.ledger
    candidate, baseline = safe(short_label(place.candidate)), safe(short_label(place.baseline))
    if not explanation.differs:
        decided = "has no result, and its runs now decide" if explanation.no_result else "decides"
        return (
            f"There is nothing to explain: the record {decided} no difference between the medians of {candidate} and "
            f"{baseline} on {safe(place.workload)}."
        )
    if ledger is None:
        causes = [safe(finding.cause) for finding in explanation.findings[:_MOST]]
        found = f" that are consistent with it: {listed(causes)}" if causes else ", and no count differs"
        return f"How the time of {safe(place.workload)} splits into causes is unavailable; there are counts{found}."
    start = (
        f"{safe(place.workload)} takes {duration(ledger.candidate)} ({safe(ledger.metric)}) with {candidate} instead of "
        f"{duration(ledger.baseline)} with {baseline}"
    )
    shares = [
        f"{percent(finding.share)} {'of the difference ' if not number else ''}is {safe(finding.cause)}"
        + (f" ({safe(finding.how)})" if finding.how else "")
        for number, finding in enumerate(
            [each for each in explanation.findings if each.share is not None and each.share >= _LEAST][:_MOST]
        )
        if finding.share is not None
    ]
    if not shares:
        counted = listed([safe(finding.cause) for finding in explanation.findings[:_MOST]])
        return f"{start}; {nothing_named(ledger)}{f'; counts differ in {counted}' if counted else ''}."
    rest = ledger.residual / ledger.difference if ledger.difference else 0.0
    unexplained = f"; {percent(rest)} is unexplained" if abs(rest) >= _LEAST else ""
    return f"{start}; {listed(shares)}{unexplained}."


INSTRUCTIONS = "instructions"
MOST_COUNTS = 24
MOST_FUNCTIONS = 8
MOST_LINES = 14
MOST_WAITS = 12
TAKEN = "ready, and its processor taken by"
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


def ledger_head(ledger: Ledger) -> tuple[str, ...]:
    """Return the heads of the ledger's columns; that of the intervals only if there are any."""
    interval = () if ledger.sampling is None else ("interval",)
    return ("time of an operation in", "baseline", "candidate", "difference", *interval, "share")


def ledger_rows(ledger: Ledger, *, differs: bool = True) -> Rows:
    """Return the ledger's rows, the sum of those left out, the residual, the sampling error, and the total.

    Args:
        ledger: of a row.
        differs: whether the record has a difference; shares of none are left out.
    """
    rows = [
        _row(ledger, f"{line.cause} {line.detail}".strip(), line, line.interval, differs=differs)
        for line in ledger.lines[:MOST_LINES]
    ]
    rest = ledger.lines[MOST_LINES:]
    left = LedgerLine(
        cause="", detail="", baseline=sum(one.baseline for one in rest), candidate=sum(one.candidate for one in rest)
    )
    more: tuple[tuple[str, LedgerLine | float], ...] = (
        *(((f"{len(rest)} more", left),) if rest else ()),
        ("residual: without a name, or not repeated", ledger.residual),
        ("  of it without a name", ledger.residual - ledger.drift),
        ("  of it not repeated by the runs now", ledger.drift),
    )
    rows += [_row(ledger, name, value, None, differs=differs) for name, value in more]
    if ledger.sampling is not None:
        sampling = math.copysign(ledger.sampling, ledger.difference)
        taken = " and ".join(amount(samples) for samples in ledger.samples)
        name = f"sampling: half the widest interval; {taken} samples"
        rows.append((name, "", "", f"+-{duration(ledger.sampling)}", "", _share(ledger, sampling, differs=differs)))
    whole = LedgerLine(cause="", detail="", baseline=ledger.baseline, candidate=ledger.candidate)
    rows.append(_row(ledger, f"whole ({ledger.metric})", whole, None, differs=differs))
    return rows


def _row(
    ledger: Ledger, name: str, times: LedgerLine | float, interval: tuple[float, float] | None, *, differs: bool
) -> tuple[str, ...]:
    line = times if isinstance(times, LedgerLine) else None
    sides = (duration(line.baseline), duration(line.candidate)) if line else ("", "")
    difference = line.difference if line else float(times)  # type: ignore[arg-type]
    between = f"{_signed(interval[0])} to {_signed(interval[1])}" if interval else ""
    column = () if ledger.sampling is None else (between,)
    return (name, *sides, _signed(difference), *column, _share(ledger, difference, differs=differs))


def _signed(value_ns: float) -> str:
    return f"{'+' if value_ns >= SMALLEST_NS else ''}{duration(value_ns)}"


def _share(ledger: Ledger, value_ns: float, *, differs: bool) -> str:
    """Return a share of the difference; empty if there is none that is known to be other than 0."""
    unknown = ledger.repeated is not None and ledger.repeated[0] <= 0 <= ledger.repeated[1]
    return "" if not differs or unknown or not ledger.difference else percent(value_ns / ledger.difference)


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
    return ExplanationSummary(
        title=title(explanation.place),
        paragraph=explanation.paragraph,
        evidence=tuple((_heading(finding), finding.evidence) for finding in explanation.findings),
        ledger=(ledger_head(explanation.ledger), *ledger_rows(explanation.ledger, differs=explanation.differs))
        if explanation.ledger
        else (),
        pages=tuple(pages),
    )


def _heading(finding: Finding) -> str:
    if finding.share is None:
        return finding.cause
    how = f" ({finding.how})" if finding.how else ""
    between = "" if finding.interval is None else f" ({span(finding.interval)})"
    return f"{finding.cause}{how}, {percent(finding.share)}{between} of the difference"


def title(place: RowKey, load: str = "") -> str:
    """Return the title of an explanation: the row, with its load where that is printed, and its two variants."""
    under = f" under {load}" if load else ""
    return f"{place.workload}{under}, {place.metric}: {place.candidate} against {place.baseline}"


def document_of(seen: RowMeasurements, explanation: Explanation, pages: Sequence[tuple[str, str]] = ()) -> Document:
    """Return the explanation of a row as a document.

    Args:
        seen: the evidence.
        explanation: what follows from it.
        pages: pairs (file, kind) of the flame graphs of differences in the same folder.
    """
    return Document(
        kicker="why",
        title=f"Why: {title(seen.place)}",
        answer=sentence(explanation),
        lead=(explanation.paragraph,),
        sections=tuple(Section(title=name, blocks=blocks) for name, blocks in _parts(seen, explanation, pages)),
        notices=tuple(Item(text, tone=Tone.WARNING) for text in explanation.caveats),
    )


def _parts(
    seen: RowMeasurements, explanation: Explanation, pages: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, tuple[Block, ...]]]:
    if findings := tuple(Item(_heading(finding), items=finding.evidence) for finding in explanation.findings):
        yield "Evidence", (BulletList(items=findings),)
    if seen.remedies is not None:
        tried = tuple(Item(remedy_text(each)) for each in seen.remedies)
        none = Item("None is known for what is named, or nothing is named.")
        yield "Remedies that were tried", (BulletList(items=tried or (none,)),)
    if explanation.ledger is not None:
        rows = ledger_rows(explanation.ledger, differs=explanation.differs)
        yield "Ledger", (text_table("Ledger", ledger_head(explanation.ledger), rows),)
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
