# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report states on the work of an own program: whether outputs agree, and in which line they differ.

Variants of one file can't differ in some rows, and in others by how their files lie in the page cache: the report states that too.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import msgspec
import numpy as np

from swapstone.core.comparison.outputs import HEADS, REMEDY, Agreement, agreement, agreement_text
from swapstone.core.comparison.run_table import EXIT_STATUS, OK, Place, as_table
from swapstone.core.model import (
    COMMAND,
    DECIDED,
    DIRECTION_RULES,
    REFERENCE_SUITE,
    TAIL_RULES,
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Copy,
    Quantity,
    Variant,
    Verdict,
    grouped,
    named_first,
)
from swapstone.core.model.safe_text import safe
from swapstone.core.plan import variants
from swapstone.core.record import Artifact, MappedFile, RecordView
from swapstone.core.session.varied_outputs import PrintedOutputs, literal_of, parts_between
from swapstone.core.wire.own_program_output import STDOUT, masked

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
    if experiment.alone:
        return tuple(_outputs_alone(view, experiment.own.output))
    baseline, *others = [variant for variant in variants(experiment) if variant.copy is Copy.FIRST]
    notes = []
    table = as_table(view.runs, ())
    for candidate in others[:_NOTED]:
        clauses = []
        equal = len(experiment.workloads) <= _NOTED
        works = [each for each in experiment.workloads if each[0] != REFERENCE_SUITE]
        for suite, workload in works[:_NOTED]:
            group = suite, workload, experiment.loads[0]
            relations = agreement(experiment, group, baseline.label, candidate.label, table)
            compared = {each.agreement for name, each in relations.items() if name != EXIT_STATUS}
            found = {each.agreement for each in relations.values()}
            equal &= found <= {*_ALIKE, Agreement.NONE} and not _ALIKE.isdisjoint(compared)
            text = "" if compared == {Agreement.DISCARDED} else agreement_text(relations)  # a caveat has the remedy
            clauses += [f"{workload}, {text}" if len(works) > 1 else text] if text else []
        more = "; ..." if len(experiment.workloads) > _NOTED and clauses else ""
        if clauses:
            which = "same work" if equal else "work"
            notes.append(
                f"The {which} of {candidate.shown_label} against {baseline.shown_label}: {'; '.join(clauses)}{more}."
            )
    return tuple(notes)


def _outputs_alone(view: RecordView, hidden: str) -> Iterator[str]:
    """Yield what each program printed in its first run, and whether all runs printed the same; nothing for a hidden output."""
    with PrintedOutputs(view) as printed:
        for suite, workload in view.experiment.workloads[: 0 if hidden else _NOTED]:
            rows = [row for row in range(len(printed.table)) if printed.table.trial(row).group[:2] == (suite, workload)]
            rows = [row for row in rows if printed.table.status[row] == OK]
            digests = {dict(printed.table.run(row).digests).get(STDOUT, "") for row in rows}
            same = (
                f"the same in all {len(rows)} runs"
                if len(digests) == 1
                else f"one of {len(digests)} in {len(rows)} runs"
            )
            if suite != REFERENCE_SUITE and rows:
                text = printed.read(rows[0]).get(STDOUT, b"")
                yield f"Output of {workload}: {literal_of(text, 0) if text else 'none'} on standard output, {same}."


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


EQUAL_SIDES = "not judged: both sides are the same file, with equal arguments, environment and mapped files"
"""Reason of a row that would have a mark by its values."""

_NAMED = 4
"""How many workloads have their memory in the notes."""

_Work = tuple[str, str]
_Artifacts = Mapping[tuple[_Work, str], Artifact]
"""By workload and variant."""

_Files = Mapping[str, MappedFile]
"""By path."""


def same_files(view: RecordView) -> Iterator[Caveat]:
    """Yield a caveat for each two programs or command lines that are the same file with the same arguments."""
    every = [variant for variant in variants(view.experiment) if variant.copy is Copy.FIRST]
    known, found = _artifacts(view), dict[tuple[str, str], None]()
    for work in dict.fromkeys(work for work, _ in known):
        for number, one in enumerate(every):
            for other in every[number + 1 :]:
                if _same_file(view, known, work, one, other) and (names := _names(one, other)):
                    found[names] = None
    for one_name, other_name in found:
        yield Caveat(
            kind=CaveatKind.SAME_FILE,
            message=f"{one_name} and {other_name} are the same file: what differs is argv[0], the path and its length.",
            hint="If they should differ, build or name the other one. To see how often a program seems to differ from itself: --null",
        )


def without_marks(view: RecordView, analysis: Analysis, *, mark_equal: bool = False) -> Analysis:
    """Leave rows undecided whose difference is no difference of the variants.

    That is each difference of two sides that are equal in all that was recorded of them: content of the program, arguments, environment,
    files mapped executable, and standard output if argv[0] has another last component. A program may read what lies beside its file, so
    that both must be in one folder, or alone in theirs. Null comparisons keep their marks, which are false by design.

    And it is a difference in memory that is not larger than the files whose pages could not be brought into one state: so much of them may
    be mapped on one side alone.

    Args:
        view: the record; those of earlier rules keep their verdicts.
        analysis: of that record.
        mark_equal: whether sides that are equal keep their marks, to measure how often they have one.
    """
    if view.experiment.rules < DIRECTION_RULES or view.manifest is None:
        return analysis
    files, known = _mapped(view.manifest.mapped), _artifacts(view)
    programs = {each.sha256 for each in view.manifest.artifacts}
    equal: dict[tuple[str, str, str, str], bool] = {}
    kept: dict[str, None] = {}

    def undecided(row: Comparison) -> Comparison:
        if row.verdict not in {*DECIDED, Verdict.BELOW_MARGIN}:
            return row
        old, new = (files.get(((row.suite, row.workload), each.label), {}) for each in (row.baseline, row.candidate))
        if row.candidate.copy is Copy.FIRST and not mark_equal:
            place = row.suite, row.workload, row.load, row.candidate.label
            if place not in equal:
                equal[place] = _equal_sides(view, known, row, old, new)
            if equal[place]:
                return msgspec.structs.replace(row, verdict=Verdict.INCONCLUSIVE, reason=EQUAL_SIDES)
        if row.metric.quantity is Quantity.MEMORY and (uneven := _unsettled(old, new, programs)):
            difference = abs(np.median(row.candidate_values) - np.median(row.baseline_values))
            if difference <= sum(each.bytes for each in uneven):
                kept.update((f"{safe(each.path)} ({each.kept})", None) for each in uneven)
                reason = "so much of a file that only one side maps may lie otherwise in the page cache"
                return msgspec.structs.replace(row, verdict=Verdict.INCONCLUSIVE, reason=reason)
        return row

    comparisons = tuple(map(undecided, analysis.comparisons))
    caveats = tuple(_page_cache(tuple(kept))) if kept else ()
    return msgspec.structs.replace(analysis, comparisons=comparisons, caveats=(*analysis.caveats, *caveats))


def memory_notes(view: RecordView) -> tuple[str, ...]:
    """Return a sentence for each workload of an own program: which memory was resident at the end of its variants' warm-up runs."""
    shown = {each.label: each.shown_label for each in variants(view.experiment)}
    order = list(shown)
    recorded = view.manifest.resident if view.manifest and view.experiment.own else ()
    every = sorted(recorded, key=lambda each: order.index(each.variant) if each.variant in order else len(order))
    found = grouped((each for each in every if each.suite != REFERENCE_SUITE), lambda each: each.workload)
    sizes = {
        name: [
            f"{each.anonymous >> 10} KiB and {each.files >> 10} KiB ({shown.get(each.variant, each.variant)})"
            for each in of
        ]
        for name, of in list(found.items())[:_NAMED]
    }
    return tuple(
        f"Memory at the end of {name}, anonymous and of files, in a run that is not measured: {named_first(texts)}."
        for name, texts in sizes.items()
    )


def _page_cache(kept: tuple[str, ...]) -> Iterator[Caveat]:
    more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    yield Caveat(
        kind=CaveatKind.PAGE_CACHE,
        message=f"The variants' files do not lie in the page cache alike: {kept[0]}{more}. Memory is not judged where the difference is "
        "smaller than these files; differences of a few per cent in CPU time may come from it too.",
        hint="End what has the files mapped, or compare copies of them on a disk that has room.",
    )


def _artifacts(view: RecordView) -> _Artifacts:
    every = view.manifest.artifacts if view.manifest else ()
    own = view.experiment.own is not None and view.experiment.rules >= TAIL_RULES
    return {((a.suite, a.workload), a.variant): a for a in every if own and not a.layout and a.sha256}


def _mapped(files: tuple[MappedFile, ...]) -> dict[tuple[_Work, str], dict[str, MappedFile]]:
    found: dict[tuple[_Work, str], dict[str, MappedFile]] = {}
    for each in files:
        found.setdefault(((each.suite, each.workload), each.variant), {})[each.path] = each
    return found


def _unsettled(old: _Files, new: _Files, programs: Set[str]) -> list[MappedFile]:
    """Return the files of one side alone whose pages kept their state: programs, and libraries of which the other side has another.

    Args:
        old: the files of the baseline.
        new: those of the candidate.
        programs: SHA-256 of all programs.
    """
    return [
        each
        for side, other in ((old, new), (new, old))
        for path, each in side.items()
        if path not in other
        and each.kept
        and (each.sha256 in programs or os.path.basename(path) in map(os.path.basename, other))  # noqa: PTH119
    ]


def _same_file(view: RecordView, known: _Artifacts, work: _Work, one: Variant, other: Variant) -> bool:
    """Return whether two variants start files of the same content with the same arguments and environment."""
    old, new = known.get((work, one.label)), known.get((work, other.label))
    return (
        old is not None
        and new is not None
        and old.sha256 == new.sha256
        and _names(one, other) is not None
        and _arguments(view, one) == _arguments(view, other)
    )


def _equal_sides(view: RecordView, known: _Artifacts, row: Comparison, old: _Files, new: _Files) -> bool:
    """Return whether nothing that was recorded of two sides differs, but for the path of their program."""
    work = row.suite, row.workload
    if view.experiment.layouts or not _same_file(view, known, work, row.baseline, row.candidate):
        return False
    one, other = (known[work, each.label].path for each in (row.baseline, row.candidate))
    if (
        one not in old
        or other not in new
        or {each.sha256 for each in old.values()} != {each.sha256 for each in new.values()}
    ):
        return False
    if os.path.dirname(one) != os.path.dirname(other) and not (old[one].alone and new[other].alone):  # noqa: PTH120
        return False
    if os.path.basename(one) == os.path.basename(other):  # noqa: PTH119
        return True
    group = row.suite, row.workload, row.load
    found = agreement(view.experiment, group, row.baseline.label, row.candidate.label, as_table(view.runs, ()))
    return STDOUT in found and found[STDOUT].agreement is Agreement.EQUAL


def _names(one: Variant, other: Variant) -> tuple[str, str] | None:
    """Return the levels of the only factor in which two variants differ, if its levels are programs or command lines."""
    levels = dict(other.levels)
    differing = [(name, level, levels[name]) for name, level in one.levels if levels[name] != level]
    if len(differing) != 1 or differing[0][0] not in {COMMAND, "program"}:
        return None
    return differing[0][1:]


def _arguments(view: RecordView, variant: Variant) -> object:
    own = view.experiment.own
    assert own is not None
    line = own.command_of(dict(variant.levels))
    return line.words if own.shell else line.words[1:], line.environment
