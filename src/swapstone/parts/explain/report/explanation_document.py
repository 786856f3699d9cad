# SPDX-License-Identifier: MIT OR Apache-2.0
"""The explanation of a row, whichever instruments observed it: a document, a summary, and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from swapstone.core.model import IDLE
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.report.document import Block, BulletList, Commands, Document, Heading, Item, Links, Section, Tone
from swapstone.core.report.formatting import safe
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.parts.explain.explanation.by_function import function_text, in_unit, percent, placed_text, signed
from swapstone.parts.explain.explanation.time_split import SHOWN_FUNCTIONS
from swapstone.parts.explain.model.explanation import (
    CountedRow,
    EvidenceTable,
    Explanation,
    RowKey,
    RowMeasurements,
    TracedRow,
)

READY_TEXT = "ready, without a processor"
FUNCTION_HEAD = (
    *("function, with what it calls", "baseline", "candidate", "difference", "interval"),
    *("share", "itself", "called by"),
)
Evidence = RowMeasurements | CountedRow | TracedRow


def function_table(explanation: Explanation) -> tuple[tuple[str, ...], ...]:
    """Return the head and the rows of the functions that lead, and of those with the largest differences, at most `SHOWN_FUNCTIONS`.

    The sum of all is the last row, or the last but time without a processor. Columns without a text are left out. Functions without
    intervals have exact numbers, which are printed of both sides. Empty without a difference by function.
    """
    time = explanation.time
    if time is None:
        return ()
    exact, whole = time.unit == "1", time.measured[1] - time.measured[0]
    shared = bool(whole) and explanation.differs and not (time.interval and time.interval[0] <= 0 <= time.interval[1])

    def more(value: float) -> str:
        return signed(value) if not exact else f"{'+' if value > 0 else ''}{in_unit(value, time.unit)}"

    def row(
        name: str,
        sides: tuple[float, float],
        interval: tuple[float, float] | None,
        own: float | None = None,
        caller: str = "",
    ) -> tuple[str, ...]:
        both = tuple(in_unit(each, time.unit) if exact else "" for each in sides)
        between = f"{more(interval[0])} to {more(interval[1])}" if interval else ""
        itself = more(own) if exact and own is not None else ""
        difference = sides[1] - sides[0]
        return (name, *both, more(difference), between, percent(difference / whole) if shared else "", itself, caller)

    rows = [
        row(
            safe(placed_text(one)),
            (one.baseline, one.candidate),
            one.interval,
            one.own,
            safe(function_text(one.callers[0].symbol, one.callers[0].object)) if one.callers else "",
        )
        for one in time.functions[:SHOWN_FUNCTIONS]
    ]
    ready = [(READY_TEXT, "", "", more(time.ready[1] - time.ready[0]), "", "", "", "")] if any(time.ready) else []
    rows += [row(f"all of them ({safe(time.metric)})", time.measured, time.interval), *ready]
    used = [at for at in range(len(FUNCTION_HEAD)) if any(each[at] for each in rows)]
    return tuple(tuple(each[at] for at in used) for each in (FUNCTION_HEAD, *rows))


def document_of(explanation: Explanation, pages: Sequence[tuple[str, str]] = (), record: str = "") -> Document:
    """Return the explanation of a row as a document, whose overview is the first screen.

    Args:
        explanation: of the row.
        pages: pairs (file, kind) of the flame graphs of differences in the same folder.
        record: path of the record, for the next command.
    """
    unknown = tuple(Item(safe(text), tone=Tone.WARNING) for text in explanation.unknown)
    return Document(
        kicker="why",
        title=f"Why: {safe(title(explanation.place))}",
        answer=safe(explanation.sentence),
        overview=tuple(_overview(explanation, unknown, record)),
        sections=tuple(Section(title=name, blocks=blocks) for name, blocks in _parts(explanation, pages)),
        notices=unknown,
    )


def _overview(explanation: Explanation, unknown: tuple[Item, ...], record: str) -> Iterator[Block]:
    """Yield the first screen: functions, tables, surroundings, counts, remedies, what is not known, and the next step."""
    if found := function_table(explanation):
        head, *rows = found
        what = "Instructions" if explanation.time and explanation.time.unit == "1" else "Time"
        last = -1 if head[-1] == FUNCTION_HEAD[-1] else None
        table = text_table(f"{what} of an operation by function", head, rows, last=last)
        callers = msgspec.structs.replace(table.columns[-1], optional=True)
        yield msgspec.structs.replace(table, columns=(*table.columns[:-1], callers))
    yield from (_table(each) for each in explanation.tables if each.brief)
    tried = [each.text for each in explanation.remedies or ()] or ["None is known for these functions."]
    for heading, texts in (
        ("Surroundings", explanation.surroundings),
        ("Counted, a tenth of the difference or more", explanation.evidence),
        ("Remedies that were tried", () if explanation.remedies is None else tried),
    ):
        if texts:
            yield Heading(heading)
            yield _bullets(texts)
    if unknown:
        yield Heading("Not known")
        yield BulletList(items=unknown)
    if record:
        yield Heading("Next")
        yield Commands(commands=tuple(_next(explanation, record)))


def _bullets(texts: Iterable[str]) -> Block:
    return BulletList(items=tuple(Item(safe(text)) for text in texts))


def _table(found: EvidenceTable) -> Block:
    return text_table(found.title, found.head, [tuple(map(safe, row)) for row in found.rows], keys=found.keys)


def _next(explanation: Explanation, record: str) -> Iterator[tuple[str, str]]:
    """Yield the next commands, each after its purpose."""
    place, time = explanation.place, explanation.time
    if not explanation.differs or (time and time.interval and time.interval[0] <= 0 <= time.interval[1]):
        yield "measure more pairs", f"swapstone compare --resume {record}"
        return
    if time is None:
        yield "see which instruments work here, and what enables the others", "swapstone doctor"
        return
    row = f"{record} {place.metric} --only {shlex.quote(place.workload)} --candidate {shlex.quote(place.candidate)}"
    waits = sum(one.waiting for one in time.functions[: time.leading or 1])
    waiting = abs(waits) > sum(abs(one.own) for one in time.functions[:1]) / 2
    kind = "--instructions" if time.unit == "1" else "--off-cpu" if waiting else "--on-cpu"
    yield "see callers and callees", f"swapstone profile {row} {kind} --open"
    if time.unit != "1" and explanation.remedies is None:
        yield "try remedies", f"swapstone explain {row} --confirm"


def _parts(explanation: Explanation, pages: Sequence[tuple[str, str]]) -> Iterator[tuple[str, tuple[Block, ...]]]:
    yield from ((each.title, (_table(each),)) for each in explanation.tables if not each.brief)
    if pages:
        yield "Flame graphs of the difference", (Links(links=tuple((kind, file) for file, kind in pages)),)
    if explanation.methods:
        yield "How it was observed", (_bullets(explanation.methods),)


def summary_of(explanation: Explanation, pages: Sequence[tuple[str, str]]) -> ExplanationSummary:
    """Return an explanation as the record's report prints it.

    Args:
        explanation: of a row.
        pages: pairs (path, description) of the files beside it.
    """
    return ExplanationSummary(
        title=title(explanation.place),
        paragraph=safe(explanation.sentence),
        evidence=tuple(
            (name, tuple(map(safe, texts)))
            for name, texts in (
                ("Surroundings", explanation.surroundings),
                ("Counted", explanation.evidence),
                ("Not known", explanation.unknown),
            )
            if texts
        ),
        ledger=function_table(explanation),
        pages=tuple(pages),
    )


def title(place: RowKey) -> str:
    """Return the title of an explanation: the row and its two variants."""
    under = "" if place.load == IDLE.name else f" under {place.load}"
    return f"{place.workload}{under}, {place.metric}: {place.shown[1]} against {place.shown[0]}"


def to_json(explanation: Explanation, evidence: Evidence) -> str:
    """Return the explanation and what was observed as JSON. Profiles are in separate files."""
    measured = counted = traced = None
    if isinstance(evidence, RowMeasurements):
        runs = tuple(msgspec.structs.replace(run, profile=None, elapsed=None) for run in evidence.runs)
        measured = msgspec.structs.replace(evidence, runs=runs)
    elif isinstance(evidence, CountedRow):
        counted = evidence.without_profiles()
    else:
        traced = evidence.without_profiles()
    return printed_json("explanation", explanation=explanation, measured=measured, counted=counted, traced=traced)
