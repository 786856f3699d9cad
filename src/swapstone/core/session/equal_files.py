# SPDX-License-Identifier: MIT OR Apache-2.0
"""Differences that variants can't have, or that may come from how their files lie in the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set

import msgspec
import numpy as np

from swapstone.core.comparison.caveats import DIFFERENT
from swapstone.core.comparison.findings import shortened
from swapstone.core.comparison.outputs import Agreement, agreement
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    COMMAND,
    DIRECTION_RULES,
    TAIL_RULES,
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Copy,
    Quantity,
    Variant,
    Verdict,
)
from swapstone.core.model.safe_text import safe
from swapstone.core.plan import variants
from swapstone.core.record import Artifact, MappedFile, RecordView
from swapstone.core.wire.own_program_output import STDOUT

EQUAL_SIDES = "not judged: both sides are the same file, with equal arguments, environment and mapped files"
"""Reason of a row that would have a mark by its values."""

_NOTED = 4
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
        if row.verdict not in {*DIFFERENT, Verdict.BELOW_MARGIN}:
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
    found: dict[str, list[str]] = {}
    order = [each.label for each in variants(view.experiment)]
    every = view.manifest.resident if view.manifest and view.experiment.own else ()
    for each in sorted(every, key=lambda each: order.index(each.variant) if each.variant in order else len(order)):
        sizes = f"{each.anonymous >> 10} KiB and {each.files >> 10} KiB"
        found.setdefault(each.workload, []).append(f"{sizes} ({each.variant})")
    return tuple(
        f"Memory at the end of {name}, anonymous and of files, in a run that is not measured: {shortened(sizes)}."
        for name, sizes in list(found.items())[:_NOTED]
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
