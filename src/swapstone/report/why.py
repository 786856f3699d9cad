"""The section "Why" of a report: what was said of the rows that were explained, for a terminal and as Markdown."""

from __future__ import annotations

from swapstone.report import columns, words
from swapstone.report.columns import Cell, Paint
from swapstone.report.context import ReportContext, Why
from swapstone.report.markdown_parts import plain, table

TITLE = "Why"


def text_lines(context: ReportContext, width: int, paint: Paint) -> list[str]:
    """Lay out what was explained for a terminal; nothing where nothing was."""
    found: list[str] = []
    for why in context.reasons:
        title = f"{TITLE}: {words.safe(why.title)}"
        found += ["", *(paint(line, "bold") for line in columns.wrap(title, width, "  "))]
        found += columns.wrap(words.safe(why.paragraph), width)
        for cause, evidence in why.evidence:
            found += columns.wrap(f"* {words.safe(cause)}", width, "  ")
            found += [line for each in evidence for line in columns.wrap(f"  - {words.safe(each)}", width, "    ")]
        found += _ledger(why, width, paint)
        found += [f"  {words.safe(what)}: {words.safe(where)}" for where, what in why.pages]
    return found


def _ledger(why: Why, width: int, paint: Paint) -> list[str]:
    if not why.ledger:
        return []
    body = [
        [Cell(words.safe(cell), "dim" if number == 0 else "") for cell in row] for number, row in enumerate(why.ledger)
    ]
    right = [False] + [True] * (len(why.ledger[0]) - 1)
    others = sum(max(len(row[at]) for row in why.ledger) + 1 for at in range(1, len(right)))
    return columns.table(body, right, [max(12, width - others), *([0] * (len(right) - 1))], paint)


def markdown_lines(context: ReportContext) -> list[str]:
    """Lay out what was explained as Markdown; where nothing was, the command alone."""
    if not context.reasons:
        return (
            ["", f"## {TITLE}", "", f"No row has been explained yet: {plain(context.explain)}", ""]
            if context.explain
            else []
        )
    found = ["", f"## {TITLE}"]
    for why in context.reasons:
        found += ["", f"### {plain(why.title)}", "", plain(why.paragraph), ""]
        for cause, evidence in why.evidence:
            found += [f"- **{plain(cause)}**", *(f"  - {plain(line)}" for line in evidence)]
        if why.ledger:
            head, *rows = why.ledger
            right = [False] + [True] * (len(head) - 1)
            found += ["", *table(list(head), right, [[plain(cell) for cell in row] for row in rows])]
        found += ["", *(f"- {plain(what)}: {plain(where)}" for where, what in why.pages)]
    return found
