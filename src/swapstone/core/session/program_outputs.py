# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report states on the work of an own program: whether outputs agree, and in which line they differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.outputs import REMEDY, Agreement, agreement, agreement_text
from swapstone.core.comparison.run_table import EXIT_STATUS, OK, as_table
from swapstone.core.model import (
    TAIL_RULES,
    Analysis,
    Comparison,
    Copy,
    Run,
    Verdict,
    WireError,
)
from swapstone.core.plan import variants
from swapstone.core.record import KeptOutputs, RecordView
from swapstone.core.wire.kept_answer import decode_kept
from swapstone.core.wire.own_program_output import masked

_LARGEST_BYTES = 1 << 20
"""The raw output of a run of an own program has at most 128 KiB, and what was observed."""

_RUNS = 3
"""How many runs of each side are read."""

_NOTED = 4
"""How many candidates, and how many rows of each, have their outputs in the notes."""

_WIDTH, _BEFORE = 60, 20
_HEAD = b"--- stdout\n"

_Place = tuple[str, str, str, str]


def with_differing_lines(view: RecordView, analysis: Analysis) -> Analysis:
    """Add the first differing line to the reason of each row that is invalid because the variants print other output.

    Args:
        view: the record; rows whose raw output is missing keep their reason.
        analysis: of that record.
    """
    known: dict[_Place, str] = {}

    def extended(row: Comparison) -> Comparison:
        if row.verdict is not Verdict.INVALID or not row.reason.endswith(REMEDY):
            return row
        place = row.suite, row.workload, row.load, row.candidate.label
        if place not in known:
            known[place] = _clause(view, place, row.baseline.label)
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
    """
    experiment = view.experiment
    if experiment.own is None or experiment.rules < TAIL_RULES:
        return ()
    baseline, *others = [variant for variant in variants(experiment) if variant.copy is Copy.FIRST]
    notes = []
    table = as_table(view.runs, ())
    for candidate in others[:_NOTED]:
        clauses = []
        same = len(experiment.workloads) <= _NOTED
        for suite, workload in experiment.workloads[:_NOTED]:
            group = suite, workload, experiment.loads[0]
            relations = agreement(experiment, group, baseline.label, candidate.label, table)
            equal = {Agreement.EQUAL, Agreement.SIMILAR}
            compared = {each.agreement for name, each in relations.items() if name != EXIT_STATUS}
            same &= {each.agreement for each in relations.values()} <= {*equal, Agreement.NONE} and bool(
                compared & equal
            )
            text = "" if compared == {Agreement.DISCARDED} else agreement_text(relations)  # a caveat has the remedy
            clauses += [f"{workload}, {text}" if len(experiment.workloads) > 1 else text] if text else []
        more = "; ..." if len(experiment.workloads) > _NOTED and clauses else ""
        if clauses:
            which = "same work" if same else "work"
            notes.append(f"The {which} of {candidate.label} against {baseline.label}: {'; '.join(clauses)}{more}.")
    return tuple(notes)


def _clause(view: RecordView, place: _Place, baseline: str) -> str:
    suite, workload, load, candidate = place
    outputs: dict[str, list[bytes]] = {baseline: [], candidate: []}
    table = as_table(view.runs, ())
    of_place = [each in {(suite, workload, load, label) for label in outputs} for each in table.places]
    mine = np.array(of_place, dtype=np.bool_)[table.place] if len(table) else np.zeros(0, dtype=np.bool_)
    with KeptOutputs(view.path) as kept:
        for row in np.flatnonzero(mine & (table.status == OK)).tolist():
            variant = table.labels[int(table.label[row])]
            if len(outputs[variant]) < _RUNS and (stdout := _stdout(kept, table.run(row))) is not None:
                outputs[variant].append(_without_paths(view, stdout, workload, variant))
    if not all(outputs.values()) or (found := first_difference(*outputs.values())) is None:
        return ""
    old, new = found
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    begin = max(0, sum(1 for _ in same) - _BEFORE)
    return f" (first differing line: baseline {literal_of(old, begin)}, candidate {literal_of(new, begin)})"


def literal_of(line: bytes, begin: int) -> str:
    """Return a part of a line as a literal: printed bytes are untrusted."""
    part = line[begin : begin + _WIDTH]
    text = f"{'...' if begin else ''}{part.decode(errors='replace')}{'...' if begin + _WIDTH < len(line) else ''}"
    return repr(text)


def _without_paths(view: RecordView, stdout: bytes, workload: str, variant: str) -> bytes:
    """Replace the path of the program, as before its digest was taken."""
    artifacts = view.manifest.artifacts if view.manifest else ()
    for artifact in artifacts:
        if (artifact.workload, artifact.variant) == (workload, variant) and len(artifact.path) > 1:
            stdout = stdout.replace(os.fsencode(artifact.path), b"{program}")
    return stdout


def _stdout(outputs: KeptOutputs, run: Run) -> bytes | None:
    """Return what the record keeps of a run's standard output; None if it can't be read."""
    raw, kept = (outputs.read(digest, _LARGEST_BYTES) for digest in (run.output, run.answer))
    if raw is None or kept is None:
        return None
    try:
        length = decode_kept(kept).kept_bytes[0]
    except WireError:
        return None
    if not raw.startswith(_HEAD):
        return b"" if length == 0 else None
    return raw[len(_HEAD) : len(_HEAD) + max(0, length)]
