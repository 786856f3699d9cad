"""What explains a row, as text, Markdown, HTML and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from swapstone.explanation.findings import amount, distance, duration, percent, short
from swapstone.explanation.ledger import run_of
from swapstone.model import Count, Explanation, Finding, InstrumentResult, Ledger, RowMeasurements
from swapstone.report.context import Why
from swapstone.report.html import template
from swapstone.report.markdown_parts import plain as escaped
from swapstone.report.markdown_parts import table as markdown_table
from swapstone.report.words import safe

INSTRUCTIONS = "instructions"
MOST_COUNTS = 24
MOST_FUNCTIONS = 8
MOST_LINES = 14
Rows = list[tuple[str, ...]]


def ratio_of(count: Count) -> str:
    """Return candidate / baseline in words: ``only here`` where one side has none."""
    if count.baseline is None or count.candidate is None:
        return "not counted on one side"
    if not count.baseline or not count.candidate:
        return (
            "equal" if count.baseline == count.candidate else f"only {'candidate' if count.candidate else 'baseline'}"
        )
    return f"{count.candidate / count.baseline:.3g}"


def count_rows(explanation: Explanation) -> Rows:
    """Return the counts to show: those that differ, and never a function's that is too rare to matter."""
    whole = [
        count
        for count in explanation.counts
        if count.group != "calls" and (count.group != INSTRUCTIONS or count.name == "all")
    ]
    shown = [count for count in whole if distance(count) > 0.02]
    return [
        (
            count.group,
            count.name,
            "" if count.baseline is None else amount(count.baseline),
            "" if count.candidate is None else amount(count.candidate),
            ratio_of(count),
        )
        for count in shown[:MOST_COUNTS]
    ]


def function_rows(seen: RowMeasurements) -> Rows:
    """Return the functions that execute most instructions, of each side."""
    rows: Rows = []
    for side, reference in zip(("baseline", "candidate"), seen.references, strict=True):
        run = run_of(seen, INSTRUCTIONS, reference.variant)
        named = [each for each in run.amounts if each.group == INSTRUCTIONS and each.name != "all"] if run else []
        rows += [(side, each.name, amount(each.value)) for each in named[:MOST_FUNCTIONS]]
    return rows


def ledger_rows(ledger: Ledger) -> Rows:
    """Return the ledger's lines, the sum of those that are not shown, the residual, and the whole."""

    def row(name: str, before: float | None, after: float | None, difference: float) -> tuple[str, ...]:
        share = percent(difference / ledger.difference) if ledger.difference else ""
        times = ("" if value is None else duration(value) for value in (before, after))
        return (name, *times, f"{'+' if difference >= 0 else ''}{duration(difference)}", share)

    rows = [
        row(f"{line.cause} {line.detail}".strip(), line.baseline, line.candidate, line.difference)
        for line in ledger.lines[:MOST_LINES]
    ]
    rest = ledger.lines[MOST_LINES:]
    if rest:
        rows.append(
            row(
                f"{len(rest)} more",
                sum(one.baseline for one in rest),
                sum(one.candidate for one in rest),
                sum(one.difference for one in rest),
            )
        )
    rows.append(row("residual: without a name, or not repeated", None, None, ledger.residual))
    rows.append(row("  of it without a name", None, None, ledger.residual - ledger.drift))
    rows.append(row("  of it the record's runs less those now", None, None, ledger.drift))
    rows.append(row(f"whole ({ledger.metric})", ledger.baseline, ledger.candidate, ledger.difference))
    return rows


def instrument_rows(seen: RowMeasurements) -> Rows:
    """Return what ran under what, with its overhead."""
    return [
        (
            run.instrument,
            short(run.variant),
            amount(run.operations),
            "" if run.overhead is None else f"{run.overhead:.2f}",
            run.tool or "none",
        )
        for run in sorted(seen.runs, key=_order)
    ]


def _order(run: InstrumentResult) -> tuple[str, str]:
    return (run.instrument, run.variant)


COUNT_HEAD = ("group", "in one operation", "baseline", "candidate", "ratio")
LEDGER_HEAD = ("time of an operation in", "baseline", "candidate", "difference", "share")
FUNCTION_HEAD = ("side", "function", "instructions")
INSTRUMENT_HEAD = ("instrument", "variant", "operations", "time / without", "tool")


def why(explanation: Explanation, pages: Sequence[tuple[str, str]]) -> Why:
    """Return an explanation as a record's own report shows it.

    Args:
        explanation: of a row.
        pages: pairs (where, what) of what lies beside it.
    """
    place = explanation.place
    return Why(
        title=f"{place.workload}, {place.metric}: {place.candidate} against {place.baseline}",
        paragraph=explanation.paragraph,
        evidence=tuple((_heading(finding), finding.evidence) for finding in explanation.findings),
        ledger=(LEDGER_HEAD, *ledger_rows(explanation.ledger)) if explanation.ledger else (),
        pages=tuple(pages),
    )


def _heading(finding: Finding) -> str:
    share = "" if finding.share is None else f", {percent(finding.share)} of the difference"
    return f"{finding.cause}{share}"


def title(seen: RowMeasurements) -> str:
    """Return what is explained, in one line."""
    place = seen.place
    return f"{place.workload}, {place.metric}: {place.candidate} against {place.baseline}"


def text(seen: RowMeasurements, explanation: Explanation) -> str:
    """Render as text for a terminal.

    Args:
        seen: the evidence.
        explanation: what is said of it.
    """
    parts = [safe(title(seen)), "", *_wrapped(explanation.paragraph), ""]
    for finding in explanation.findings:
        parts.append(
            safe(
                f"- {finding.cause}"
                + ("" if finding.share is None else f", {percent(finding.share)} of the difference")
            )
        )
        parts += [safe(f"    {line}") for line in finding.evidence]
    if explanation.ledger is not None:
        parts += ["", *_table(LEDGER_HEAD, ledger_rows(explanation.ledger))]
    parts += ["", *_table(COUNT_HEAD, count_rows(explanation))]
    if functions := function_rows(seen):
        parts += ["", *_table(FUNCTION_HEAD, functions)]
    parts += ["", *_table(INSTRUMENT_HEAD, instrument_rows(seen))]
    for caveat in explanation.caveats:
        parts += ["", *_wrapped(f"note: {caveat}")]
    return "\n".join(parts) + "\n"


def _wrapped(sentence: str) -> list[str]:
    import textwrap  # noqa: PLC0415 - beside its only use

    return [safe(line) for line in textwrap.wrap(sentence, 118)]


def _table(head: Sequence[str], rows: Rows) -> list[str]:
    cells = [tuple(map(safe, row)) for row in (tuple(head), *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    numeric = [column >= 2 or (column == 1 and head[1] == "baseline") for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def markdown(seen: RowMeasurements, explanation: Explanation) -> str:
    """Render as Markdown, for an issue or a merge request."""
    parts = [f"## Why: {escaped(title(seen))}", "", escaped(explanation.paragraph), ""]
    for finding in explanation.findings:
        share = "" if finding.share is None else f", {percent(finding.share)} of the difference"
        parts.append(f"- **{escaped(finding.cause)}**{share}")
        parts += [f"  - {escaped(line)}" for line in finding.evidence]
    tables = [
        ("Counts", COUNT_HEAD, count_rows(explanation)),
        ("Functions", FUNCTION_HEAD, function_rows(seen)),
        ("Instruments", INSTRUMENT_HEAD, instrument_rows(seen)),
    ]
    if explanation.ledger is not None:
        tables.insert(0, ("Ledger", LEDGER_HEAD, ledger_rows(explanation.ledger)))
    for name, head, rows in tables:
        numeric = [column >= 2 for column in range(len(head))]
        parts += [
            "",
            f"### {name}",
            *markdown_table(list(head), numeric, [[escaped(cell) for cell in row] for row in rows]),
        ]
    parts += ["", *(f"- {escaped(caveat)}" for caveat in explanation.caveats)]
    return "\n".join(parts).rstrip() + "\n"


def html(seen: RowMeasurements, explanation: Explanation, pages: Sequence[tuple[str, str]]) -> str:
    """Render as one page that needs no network, but links to the flame graphs beside it.

    Args:
        seen: the evidence.
        explanation: what is said of it.
        pages: pairs (file, kind) of the pages of differences in the same folder.
    """
    return template("explained.html.j2").render(
        title=title(seen),
        explanation=explanation,
        ledger=ledger_rows(explanation.ledger) if explanation.ledger else [],
        ledger_head=LEDGER_HEAD,
        counts=count_rows(explanation),
        count_head=COUNT_HEAD,
        functions=function_rows(seen),
        function_head=FUNCTION_HEAD,
        instruments=instrument_rows(seen),
        instrument_head=INSTRUMENT_HEAD,
        pages=pages,
        percent=percent,
    )


def to_json(seen: RowMeasurements, explanation: Explanation) -> str:
    """Return everything that is said, with the runs it rests on, as JSON; profiles are in files of their own."""
    runs = [msgspec.to_builtins(msgspec.structs.replace(run, profile=None, elapsed=None)) for run in seen.runs]
    content = {
        "explanation": msgspec.to_builtins(explanation),
        "references": msgspec.to_builtins(seen.references),
        "runs": runs,
        "missing": msgspec.to_builtins(seen.missing),
    }
    return json.dumps(content, indent=1) + "\n"
