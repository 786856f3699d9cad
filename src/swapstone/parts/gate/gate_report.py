# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a gate as a document, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from swapstone.core.model.number_text import exact_effect, quantity
from swapstone.core.model.profile import OWN_OBJECT
from swapstone.core.model.safe_text import safe
from swapstone.core.report.document import BulletList, Commands, Document, Item, Section, Table
from swapstone.core.report.export import JunitCase, junit_xml
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.exit_status import ExitStatus
from swapstone.parts.gate.gate_result import Cause, GateResult, Row
from swapstone.parts.gate.revisions import SHORT

MARKER = "<!-- swapstone gate -->"
"""First line of the Markdown, by which a comment is found again."""
_MOST_ANNOTATIONS = 9
"""GitHub shows 10 of each kind a step, and the first is the answer."""
_JUNIT: Mapping[str | ExitStatus, tuple[str, ...]] = {
    **dict.fromkeys(("accepted", "more", "fewer", "same"), ()),
    "worse": ("failure", "worse"),
    ExitStatus.WORSE: ("failure", "worse"),
    ExitStatus.NO_RESULT: ("error", "no result"),
}
"""Element and type of a test case by the state of a row or the status of a finding."""


def document_of(result: GateResult) -> Document:
    """Return the document: the sentence, the rows that changed, why, and how to repeat and accept."""
    changed = [row for row in result.rows if row.state != "same"]
    sections = [
        *([Section(title="What changed", blocks=(_rows(changed),))] if changed else []),
        *(
            [Section(title="Why", blocks=(BulletList(items=tuple(map(_cause, result.causes))),))]
            if result.causes
            else []
        ),
    ]
    facts = [f"{each.clause}." for each in result.findings]
    facts += [f"Accepted: {each}." for each in result.accepted]
    return Document(
        title=f"Gate of {result.head[:SHORT]}",
        answer=result.answer,
        lead=(f"Base {result.base[:SHORT]}: {result.base_reason}.", *facts),
        sections=tuple(sections),
        notices=tuple(map(Item, result.notes)),
        closing=(Section(title="What to do next", blocks=(Commands(commands=tuple(_commands(result))),)),),
    )


def _rows(rows: Sequence[Row]) -> Table:
    head = ("run", "row", "base", "head", "difference", "three floors", "limit", "")
    return text_table("What changed", head, map(_cells, rows), keys=2, last=-1)


def _cells(row: Row) -> tuple[str, ...]:
    share = exact_effect(row.ratio) if row.ratio else ""
    amount = exact_effect(row.difference, row.unit)
    values = (quantity(each, row.unit, significant=4) for each in (row.base, row.head))
    floor = quantity(3 * row.floor, row.unit) if row.floor else "0"
    return (
        row.run,
        row.detail or row.metric,
        *values,
        f"{amount} ({share})" if share else amount,
        floor,
        row.limit or "none",
        row.state,
    )


def _cause(cause: Cause) -> Item:
    return Item(f"{cause.run}: {_cause_text(cause)}")


def _cause_text(cause: Cause) -> str:
    edited = {None: "", True: f", edited here ({cause.source})", False: f", recompiled, not edited ({cause.source})"}
    where = "" if cause.object == OWN_OBJECT else f" ({cause.object})"
    return f"{cause.function}{where} {exact_effect(cause.difference, '1')} instructions{edited[cause.edited]}"


def _commands(result: GateResult) -> Iterator[tuple[str, str]]:
    yield "repeat", result.repeat
    yield from ((f"every row of {name}", f"swapstone show {path} --all") for name, path in result.records[:1])
    worse = next((row for row in result.rows if row.state == "worse"), None)
    if worse is not None:
        share = worse.difference / worse.base if worse.base else 0.0
        size = f"{math.ceil(1e4 * share) / 100:g}%" if 0 < share < 1 else f"{worse.difference:.0f}"
        keys = f'run = "{worse.run}", metric = "{worse.metric}", size = "{size}", reason = "..."'
        yield "accept, above the first table of swapstone.toml", f"accept = [{{ {keys} }}]"


def to_json(result: GateResult) -> str:
    """Return the result as JSON of the format ``swapstone-gate-result``."""
    return printed_json("gate-result", **{name: getattr(result, name) for name in result.__struct_fields__})


def to_markdown(result: GateResult) -> str:
    """Return the document as Markdown that begins with `MARKER`."""
    from swapstone.core.report.render import find_renderer  # noqa: PLC0415 - few gates write it

    return f"{MARKER}\n{find_renderer('markdown').render(document_of(result))}"


def to_annotations(result: GateResult) -> str:
    """Return the answer and the functions that the change edits as workflow commands of GitHub, a line each.

    Their form is that of https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
    """
    worse = {row.run for row in result.rows if row.state == "worse"}
    edited = [each for each in result.causes if each.edited][:_MOST_ANNOTATIONS]
    lines = [_annotation("error" if result.status else "notice", result.answer)]
    lines += [
        _annotation(
            "error" if each.run in worse else "notice", f"{each.run}: {_cause_text(each)}", each.source, each.line
        )
        for each in edited
    ]
    return "".join(f"{line}\n" for line in lines)


def _annotation(kind: str, text: str, file: str = "", line: int = 0) -> str:
    facts = {"title": "swapstone gate", "file": file, "line": str(line or "")}
    shown = (f"{name}={_escaped(value, ':,')}" for name, value in facts.items() if value)
    return f"::{kind} {','.join(shown)}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Return a text in which no character ends a workflow command or a property of it, or is a control character."""
    plain = safe(text)
    for char in f"%\r\n{more}":
        plain = plain.replace(char, f"%{ord(char):02X}")
    return plain


def to_junit(result: GateResult) -> str:
    """Return JUnit XML: a test suite for each run and program, with a test case for each row and finding."""
    names = dict.fromkeys((*(each.run for each in result.findings), *(row.run for row in result.rows)))
    suites = [
        (
            name or "both sides",
            [
                *(
                    JunitCase(f"gate.{name}", "run", each.clause, *_JUNIT[each.status])
                    for each in result.findings
                    if each.run == name
                ),
                *(
                    JunitCase(
                        f"gate.{name}", row.detail or row.metric, " ".join(_cells(row)[2:]).strip(), *_JUNIT[row.state]
                    )
                    for row in result.rows
                    if row.run == name
                ),
            ],
        )
        for name in names
    ]
    return junit_xml(f"swapstone gate {result.head[:SHORT]}", suites)
