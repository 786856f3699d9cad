# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a record to its analysis."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.comparison.cells import OF_ALL, measured_candidates
from swapstone.core.comparison.rows import SizeValues
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import Analysis, Caveat, CaveatKind, Comparison, Verdict
from swapstone.core.model.observation import EMULATED
from swapstone.core.record import RecordView
from swapstone.core.report import comparison_columns
from swapstone.core.session.program_outputs import same_files, with_differing_lines, without_marks
from swapstone.core.session.report_context import description_of, works_of


def analyse_record(view: RecordView, *, mark_equal: bool = False) -> Analysis:
    """Compute the comparisons, effects and caveats of a record.

    Args:
        view: the record.
        mark_equal: whether rows of sides that are equal in all that was recorded keep their marks: the rate of false ones is measured so.

    Raises:
        UserError: the record has a workload that this version of Swapstone does not have.
    """
    sizes = _sizes(view)
    # The empty programs are not in the experiment's plan: they are never run, only their size is measured.
    described, built = description_of(view.meta, view.experiment), {place[:2] for place in sizes}
    planned = set(view.experiment.workloads)
    empty = [place for place in described.specs() if place not in planned and place in built]
    shown = (*view.experiment.workloads, *empty)
    analysis = analyse(
        msgspec.structs.replace(view.experiment, workloads=shown),
        plan.variants(view.experiment),
        works_of(view),
        view.runs,
        caveats=_caveats(view),
        sizes=sizes,
    )
    if described.place.boots:  # a new machine for each run: its conditions are its own
        kept = tuple(each for each in analysis.caveats if each.kind is not CaveatKind.CHANGED_CONDITIONS)
        analysis = msgspec.structs.replace(analysis, caveats=kept)
    return with_differing_lines(view, without_marks(view, analysis, mark_equal=mark_equal))


def record_verdicts(view: RecordView) -> str:
    """Return the digest of a record's verdicts, with those of comparisons that the analysis leaves out because no run was made."""
    return verdicts_digest(analyse_record(view), _left_out(view))


_LeftOut = Callable[[Sequence[Comparison]], Iterator[Comparison | str]]


def _left_out(view: RecordView) -> _LeftOut:
    """Return a function that adds the lines of comparisons that the analysis leaves out to those that it has, in their order."""
    experiment, variants, workloads = view.experiment, plan.variants(view.experiment), works_of(view)
    kept = measured_candidates(experiment, variants, workloads, as_table(view.runs, ()))

    def added(found: Sequence[Comparison]) -> Iterator[Comparison | str]:
        if kept is None:
            yield from found
            return
        rest, rows = collections.deque(found), {(c.suite, c.workload, c.load, c.metric.name) for c in found}
        labels, verdict = [variant.label for variant in variants[1:]], f"{Verdict.INCONCLUSIVE.value} none"
        for suite, name in experiment.workloads:
            for load in experiment.loads:
                has = {each.label for each in kept.get((suite, name, load), ())}
                for metric in workloads[name].metrics:
                    if metric.name in OF_ALL.values() and (suite, name, load, metric.name) not in rows:
                        continue  # as `metrics_of`
                    for label in labels:
                        if label in has:
                            yield rest.popleft()
                        else:
                            yield f"{suite} {name} {load} {metric.name} {label} {verdict}"
                while rest and (rest[0].suite, rest[0].workload, rest[0].load) == (suite, name, load):
                    yield rest.popleft()  # sizes
        yield from rest  # of the empty programs

    return added


def verdicts_digest(analysis: Analysis, added: _LeftOut = iter) -> str:
    """Return a SHA-256 of every verdict and its effect, rounded to six digits.

    Six digits exceed the precision that a verdict depends on, and are the same with every version of numpy.

    Args:
        analysis: with all comparisons that it has.
        added: adds the lines of others.
    """
    lines = [c if isinstance(c, str) else _verdict_line(c) for c in added(analysis.comparisons)]
    for row in comparison_columns.effect_rows(analysis):
        effect = "none" if row["effect"] is None else f"{row['effect']:.6g}"
        where = " ".join(
            str(row[name]) for name in ("kind", "suite", "workload", "load", "metric", "change", "changed_by", "held")
        )
        lines.append(f"{where} {row['verdict']} {effect}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _verdict_line(c: Comparison) -> str:
    effect = "none" if c.effect is None else f"{c.effect:.6g}"
    return f"{c.suite} {c.workload} {c.load} {c.metric.name} {c.candidate.label} {c.verdict.value} {effect}"


def _caveats(view: RecordView) -> tuple[Caveat, ...]:
    sessions = view.seal.sessions if view.seal else 0
    rows = (
        *(
            (True, CaveatKind.DAMAGED_RECORD, str(each), "`swapstone verify` lists all damage.")
            for each in view.damages
        ),
        (
            view.seal is None or view.seal.state != "complete",
            CaveatKind.INTERRUPTED,
            "The experiment was interrupted before it was precise enough or its budget was spent.",
            f"Resume it: swapstone compare --resume {view.path}",
        ),
        (
            sessions > 1 and not view.experiment.virtual,  # the virtual clock gives the same values in every session
            CaveatKind.RESUMED,
            f"It was measured in {sessions} sessions; a pair that spans two of them is further apart in time.",
            "",
        ),
        *((True, each.kind, each.message, each.hint) for each in same_files(view)),
        (
            _virtual(view),
            CaveatKind.VIRTUAL_MACHINE,
            "This is a virtual machine: ratios hold for it, absolute times may not hold on hardware.",
            "",
        ),
    )
    return tuple(Caveat(kind=kind, message=message, hint=hint) for holds, kind, message, hint in rows if holds)


def _virtual(view: RecordView) -> bool:
    # Reports have a note on the virtual clock, and a caveat on emulated boards.
    if view.experiment.clock == "virtual":
        return False
    machine = dict(view.manifest.machine) if view.manifest else {}
    return machine.get("virtualization", "") not in {"", "none", EMULATED}


def _sizes(view: RecordView) -> SizeValues:
    """Return the sizes of every built program, as (suite, workload, variant) -> ((metric, bytes), ...)."""
    metrics = {metric.name: metric for metric in description_of(view.meta, view.experiment).sizes}
    artifacts = view.manifest.artifacts if view.manifest else ()
    return {
        (artifact.suite, artifact.workload, artifact.variant): tuple(
            (metrics[name], size) for name, size in artifact.sizes if name in metrics
        )
        for artifact in artifacts
        if not artifact.layout
    }
