# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report states on the work of an own program: whether outputs agree, and in which line they differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.outputs import HEADS, REMEDY, Agreement, agreement, agreement_text
from swapstone.core.comparison.run_table import EXIT_STATUS, OK, Place, as_table
from swapstone.core.model import (
    TAIL_RULES,
    Analysis,
    Comparison,
    Copy,
    Verdict,
)
from swapstone.core.plan import variants
from swapstone.core.record import RecordView
from swapstone.core.session.varied_outputs import PrintedOutputs, literal_of, parts_between
from swapstone.core.wire.own_program_output import masked

_ALIKE = frozenset({Agreement.EQUAL, Agreement.SIMILAR})

_RUNS = 3
"""How many runs of each side are read."""

_NOTED = 4
"""How many candidates, and how many rows of each, have their outputs in the notes."""

_BEFORE = 20


def with_differing_lines(view: RecordView, analysis: Analysis) -> Analysis:
    """Add the first differing line to the reason of each row that is invalid because the variants print other output.

    Args:
        view: the record; rows whose raw output is missing keep their reason.
        analysis: of that record.
    """
    known: dict[Place, str] = {}

    def extended(row: Comparison) -> Comparison:
        if row.verdict is not Verdict.INVALID or not row.reason.endswith(REMEDY):
            return row
        place = row.suite, row.workload, row.load, row.candidate.label
        output = next((name for name, head in HEADS.items() if row.reason.startswith(head)), "")
        if place not in known:
            known[place] = _clause(view, place, row.baseline.label, output) if output else ""
        return msgspec.structs.replace(row, reason=row.reason.removesuffix(REMEDY) + known[place] + REMEDY)

    return msgspec.structs.replace(analysis, comparisons=tuple(map(extended, analysis.comparisons)))


def first_difference(baseline: Sequence[bytes], candidate: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the first line that is the same in all outputs of each side and differs between them; if there is none, of the masked lines.

    Args:
        baseline: outputs of some runs.
        candidate: the same of the other side. A line behind the end of an output is empty.
    """
    changes: tuple[Callable[[bytes], bytes], ...] = (bytes, masked)
    for change in changes:
        sides = [[change(output).split(b"\n") for output in outputs] for outputs in (baseline, candidate)]
        for number in range(max((len(lines) for side in sides for lines in side), default=0)):
            old, new = ({lines[number] if number < len(lines) else b"" for lines in side} for side in sides)
            if len(old) == len(new) == 1 and old != new:
                return old.pop(), new.pop()
    return None


def output_notes(view: RecordView) -> tuple[str, ...]:
    """Return a sentence for each candidate of an own program: how its outputs relate to the baseline's; of several rows, the first few.

    It begins with "The same work" if all of them are equal.

    Args:
        view: the record.
    """
    experiment = view.experiment
    if experiment.own is None or experiment.rules < TAIL_RULES:
        return ()
    baseline, *others = [variant for variant in variants(experiment) if variant.copy is Copy.FIRST]
    notes = []
    table = as_table(view.runs, ())
    for candidate in others[:_NOTED]:
        clauses = []
        equal = len(experiment.workloads) <= _NOTED
        for suite, workload in experiment.workloads[:_NOTED]:
            group = suite, workload, experiment.loads[0]
            relations = agreement(experiment, group, baseline.label, candidate.label, table)
            compared = {each.agreement for name, each in relations.items() if name != EXIT_STATUS}
            found = {each.agreement for each in relations.values()}
            equal &= found <= {*_ALIKE, Agreement.NONE} and not _ALIKE.isdisjoint(compared)
            text = "" if compared == {Agreement.DISCARDED} else agreement_text(relations)  # a caveat has the remedy
            clauses += [f"{workload}, {text}" if len(experiment.workloads) > 1 else text] if text else []
        more = "; ..." if len(experiment.workloads) > _NOTED and clauses else ""
        if clauses:
            which = "same work" if equal else "work"
            notes.append(f"The {which} of {candidate.label} against {baseline.label}: {'; '.join(clauses)}{more}.")
    return tuple(notes)


def _clause(view: RecordView, place: Place, baseline: str, output: str) -> str:
    suite, workload, load, candidate = place
    outputs: dict[str, list[bytes]] = {baseline: [], candidate: []}
    with PrintedOutputs(view) as printed:
        group, table = (suite, workload, load), printed.table
        between = parts_between(printed, view.experiment, group, baseline, candidate, only=output)
        found = [
            each for each in itertools.islice(between, _NOTED) if each.other_runs and each.line + each.baseline.shown
        ]
        best = next((each for each in found if each.is_distinct), next(iter(found), None))
        part = f" ({best.where}: baseline {best.baseline.text}, candidate {best.candidate.text})" if best else ""
        if best and max(best.baseline.values, best.candidate.values) > 1:
            return part
        of_place = [each in {(*group, label) for label in outputs} for each in table.places]
        mine = np.array(of_place, dtype=np.bool_)[table.place] if len(table) else np.zeros(0, dtype=np.bool_)
        for row in np.flatnonzero(mine & (table.status == OK)).tolist():
            texts = outputs[table.labels[int(table.label[row])]]
            if len(texts) < _RUNS and (text := printed.read(row).get(output)) is not None:
                texts.append(text)
    if not all(outputs.values()) or (lines := first_difference(*outputs.values())) is None:
        return part
    old, new = lines
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    begin = max(0, sum(1 for _ in same) - _BEFORE)
    return f" (first differing line: baseline {literal_of(old, begin)}, candidate {literal_of(new, begin)})"
