# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explaining a row: running its two variants under instruments, and splitting the difference into causes."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.explanation import explain as split_difference
from swapstone.explanation import load_classes
from swapstone.instruments import INSTRUMENTS, RowVariant, run_instruments
from swapstone.instruments.prepare_row import RowContext, ledger_metric, prepare_row, require_host_record
from swapstone.instruments.remedies import Gap, remedies_for, try_remedies
from swapstone.model import (
    Analysis,
    Comparison,
    Explanation,
    MissingInstrument,
    RemedyRuns,
    RowKey,
    RowMeasurements,
    UserError,
    Verdict,
    unknown,
)
from swapstone.model.safe_text import safe
from swapstone.model.temporary_folder import TemporaryFolder
from swapstone.record import FileProblemError, RecordView, read_regular
from swapstone.report import row_explanation
from swapstone.report.document import Document
from swapstone.run import prepare
from swapstone.session import explanation_files
from swapstone.session.explanation_formats import explanation_text
from swapstone.session.progress import NO_PROGRESS, Progress
from swapstone.session.trust import require_trust
from swapstone.session.unusable_values import named_record
from swapstone.subjects import Program
from swapstone.targets import open_target

__all__ = [
    "DEFAULT_OPTIONS",
    "EXCLUDED",
    "INSTRUMENTS",
    "ExplainOptions",
    "RowExplanation",
    "choose_row",
    "explain_record",
]

EXCLUDED = "it was left out by --without"
_DIFFERENT = {Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED}


@dataclasses.dataclass(frozen=True)
class ExplainOptions:
    """Which row is explained, and how.

    Attributes:
        metric: name of a metric; None for the preferred one.
        workload: name or pattern; None for all.
        candidate: label of a candidate, or its level; None for all.
        load: name of a load; None for all.
        classes: a TOML file with rules that come before the bundled table of cost classes.
        again: whether to run under instruments although evidence is stored.
        without: names of instruments to leave out.
        trust: whether the record's commands may run though another user or machine made it, or it was edited.
        modelled_cycles: whether a processor is modelled too, of a record on the exact clock.
        confirm: whether remedies for what is named are tried.
    """

    metric: str | None = None
    workload: str | None = None
    candidate: str | None = None
    load: str | None = None
    classes: Path | None = None
    again: bool = False
    without: tuple[str, ...] = ()
    trust: bool = False
    modelled_cycles: bool = False
    confirm: bool = False


DEFAULT_OPTIONS = ExplainOptions()


@dataclasses.dataclass(frozen=True)
class RowExplanation:
    """The explanation of a row.

    Attributes:
        folder: where the evidence, the flame graphs and the explanation are stored.
        evidence: what the instruments measured.
        explanation: the ledger and the findings.
        files: everything that was written, in the order of writing.
    """

    folder: Path
    evidence: RowMeasurements
    explanation: Explanation
    files: tuple[Path, ...]

    def document(self) -> Document:
        """Return the explanation as a document that any renderer prints."""
        return row_explanation.document_of(self.evidence, self.explanation)

    def report(self, format: str = "text") -> str:
        """Return the explanation as ``json``, or in a format of `swapstone report --format`.

        Raises:
            UserError: there is no such format.
        """
        if format == "html":  # links to the flame graphs beside it
            place = self.folder / explanation_files.PAGES[0][0]
            try:
                return read_regular(place, explanation_files.MOST_BYTES).decode(errors="backslashreplace")
            except (FileNotFoundError, FileProblemError) as error:
                raise UserError(f"{place} can't be read: {error}.", "Explain the row again.") from error
        return explanation_text(format, self.document, lambda: row_explanation.to_json(self.evidence, self.explanation))

    def profiles(self, kind: str) -> tuple[Path, ...]:
        """Return the files of the profiles of a kind: ``on-cpu``, ``off-cpu``, ``allocations`` or ``syscalls``.

        Raises:
            UserError: there is no profile of this kind, with the reason.
        """
        written = tuple(sorted(path for path in self.files if path.name.startswith(f"{kind}-")))
        if not written:
            missing = next((each for each in self.evidence.missing if each.instrument == kind), None)
            unfollowed = "callgrind counts them without their callers" if kind == "instructions" else ""
            reason = unfollowed or (missing.reason if missing else "neither side has any stack")
            raise UserError(f"There is no profile {kind}: {reason}.", missing.remedy if missing else "")
        return written


def explain_record(
    view: RecordView,
    analysis: Analysis,
    options: ExplainOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> RowExplanation:
    """Explain a row of a record, from stored evidence or by running its two variants under instruments.

    Raises:
        UntrustedRecordError: no evidence is stored, and the user did not make the record here, or it was damaged or edited.
        UserError: no row matches the options, none of them differs, or the row can't be run under instruments.
    """
    chosen = choose_row(analysis, options)
    classes = load_classes(options.classes)
    folder, evidence = _evidence(view, chosen, options, progress)
    with named_record(view.path):  # stored evidence may come from a stranger
        explanation = split_difference(evidence, classes)
    if options.confirm and evidence.remedies is None:
        evidence = _with_remedies(view, chosen, options, progress, (folder, evidence, explanation))
    with named_record(view.path):
        explanation = split_difference(evidence, classes)
        files = explanation_files.write(folder, evidence, explanation, classes)
    return RowExplanation(folder, evidence, explanation, tuple(files))


def choose_row(analysis: Analysis, options: ExplainOptions, *, undecided: bool = False) -> Comparison:
    """Return the row with the largest difference among those that match.

    If a workload is named and all rows that match lacked processors (`Verdict.DISTURBED`), it is one of them: the runs under instruments
    have a difference of their own.

    Args:
        analysis: of the record.
        options: which rows match.
        undecided: whether a row may be chosen whose verdict is not that it differs, though several match.

    Raises:
        UserError: no row matches, or none of those that match differs.
    """
    metric, workload, candidate, load = options.metric, options.workload, options.candidate, options.load
    copies = {null.copy for null in analysis.nulls}
    every = [row for row in analysis.comparisons if row.candidate not in copies]
    rows = [row for row in every if row.effect is not None]
    named = [
        row
        for row in every
        if (row.preferred if metric is None else row.metric.name == metric)
        and (workload is None or fnmatch.fnmatchcase(row.workload, workload) or row.workload == workload)
        and (candidate is None or candidate in {row.candidate.label, row.candidate.short_label})
        and (load is None or row.load == load)
    ]
    matching = [row for row in named if row.effect is not None]
    disturbed = [row for row in named if row.verdict is Verdict.DISTURBED]
    if not matching and disturbed and workload is not None:
        return disturbed[0]
    if not matching:
        _check_results(named)
        _check_names(every, options)
        names = ", ".join(dict.fromkeys(row.workload for row in rows)) or "none"
        raise UserError(
            "No row of the record matches.",
            safe(
                f"Workloads: {names}. Candidates: {', '.join(dict.fromkeys(row.candidate.label for row in rows)) or 'none'}. "
                f"Metrics: {', '.join(dict.fromkeys(row.metric.name for row in rows)) or 'none'}."
            ),
        )
    different = [row for row in matching if row.verdict in _DIFFERENT]
    if not different and not undecided and (workload is None or len(matching) > 1):
        raise UserError(
            f"There is no difference to explain: none of the {len(matching)} rows that match has a different median.",
            "Name one with --only to see its counts and its ledger.",
        )
    return max(different or matching, key=_distance)


def _check_results(named: Sequence[Comparison]) -> None:
    """Raise the error of rows that exist, and have no result.

    Raises:
        UserError: there is such a row; the hint has the record's reason.
    """
    for row in (each for each in named if each.reason):
        raise UserError(
            safe(f"The row {row.workload}, {row.metric.name}, has no result to explain: {row.verdict.value}."),
            safe(f"{row.reason}. Repeat the experiment: swapstone rerun RECORD"),
        )


def _check_names(rows: Sequence[Comparison], options: ExplainOptions) -> None:
    """Check each name by itself.

    Raises:
        UserError: the record has no row with a result, or no such metric, workload, candidate or load; the hint has those of the record.
    """
    if all(row.effect is None for row in rows):
        raise UserError(
            "No row of this record has a result to explain.",
            "`swapstone show RECORD` prints why, and `swapstone verify RECORD` whether it was edited.",
        )
    metric, workload, candidate = options.metric, options.workload, options.candidate
    loads = {row.load for row in rows}
    if options.load is not None and options.load not in loads:
        raise unknown("load of this record", options.load, loads)
    metrics, workloads = {row.metric.name for row in rows}, {row.workload for row in rows}
    candidates = {label for row in rows for label in (row.candidate.label, row.candidate.short_label)}
    if metric is not None and metric not in metrics:
        raise unknown("metric of this record", metric, metrics)
    if workload is not None and workload not in workloads and not fnmatch.filter(workloads, workload):
        raise unknown("workload of this record", workload, workloads)
    if candidate is not None and candidate not in candidates:
        raise unknown("candidate of this record", candidate, {row.candidate.label for row in rows})


def _distance(row: Comparison) -> float:
    if row.effect is None:
        return 0.0
    return abs(math.log(row.effect)) if row.scale.value == "ratio" and row.effect > 0 else abs(row.effect)


def _evidence(
    view: RecordView, row: Comparison, options: ExplainOptions, progress: Progress
) -> tuple[Path, RowMeasurements]:
    """Return the folder of a row's evidence, and the evidence: stored, or measured now."""
    place = RowKey(
        suite=row.suite,
        workload=row.workload,
        load=row.load,
        metric=row.metric.name,
        baseline=row.baseline.label,
        candidate=row.candidate.label,
    )
    folder = explanation_files.folder_of(view, place)
    stored = None if options.again or options.without else explanation_files.read(folder, view)
    if stored is not None and not any(each.reason == EXCLUDED for each in stored.missing):
        return folder, stored
    if not options.again and (problem := explanation_files.unusable(folder, view)):
        progress.note(safe(f"{problem}: it is measured again"))
    with _prepared_pair(view, row, options, progress) as (pair, _):
        only = [name for name in INSTRUMENTS if name not in options.without]
        seen = run_instruments(place, row.metric.unit, ledger_metric(row), pair, progress.note, only=only)
    excluded = tuple(MissingInstrument(instrument=name, reason=EXCLUDED) for name in options.without)
    no_result = f"{row.verdict.value}: {row.reason}" if row.effect is None else ""
    differs = row.verdict in _DIFFERENT or bool(no_result)
    seen = msgspec.structs.replace(seen, differs=differs, no_result=no_result, missing=(*seen.missing, *excluded))
    explanation_files.store(folder, view, seen)
    return folder, seen


@contextlib.contextmanager
def _prepared_pair(
    view: RecordView, row: Comparison, options: ExplainOptions, progress: Progress
) -> Iterator[tuple[tuple[RowVariant, RowVariant], Path]]:
    """Prepare both variants of a row to run again.

    Yields:
        The variants, and a scratch folder that programs can read.

    Raises:
        UntrustedRecordError: the record's commands may not run.
        UserError: the row can't be run again.
    """
    require_trust(view, "explain the row", trust=options.trust, more=[f"run all of it under: {', '.join(INSTRUMENTS)}"])
    require_host_record(view.experiment, row.load)
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to run again.")
    passes = {(suite, name): count for suite, name, count in view.manifest.passes}
    with open_target("host") as target, TemporaryFolder("symbols") as scratch:
        prepared = prepare(view.experiment, target, lambda *_: None, progress.note)
        _note_other_programs(view, prepared.programs, progress)
        context = RowContext(view.experiment, prepared, target, passes.get((row.suite, row.workload), 1), Path(scratch))
        yield prepare_row(context, row), Path(scratch)


def _with_remedies(
    view: RecordView,
    row: Comparison,
    options: ExplainOptions,
    progress: Progress,
    found: tuple[Path, RowMeasurements, Explanation],
) -> RowMeasurements:
    """Try the remedies that belong to what is named, and store what they gave with the evidence."""
    folder, evidence, explanation = found
    remedies = remedies_for(explanation)
    tried: tuple[RemedyRuns, ...] = ()
    if remedies:
        ledger = explanation.ledger
        slow = int(ledger is None or ledger.difference >= 0)
        with _prepared_pair(view, row, options, progress) as (pair, scratch):
            gap = Gap(pair[slow], pair[1 - slow], ledger_metric(row))
            tried = try_remedies(remedies, gap, scratch, progress.note)
    evidence = msgspec.structs.replace(evidence, remedies=tried)
    explanation_files.store(folder, view, evidence)
    return evidence


def _note_other_programs(
    view: RecordView, programs: Mapping[tuple[str, str, str], Program], progress: Progress
) -> None:
    """Report the programs whose bytes differ from those of the record."""
    assert view.manifest is not None
    before = {(a.suite, a.workload, a.variant): a.sha256 for a in view.manifest.artifacts if not a.layout}
    other = [
        key
        for key, program in programs.items()
        if program.artifact and before.get(key) not in {None, program.artifact.sha256}
    ]
    for _, workload, variant in other[:3]:
        progress.note(
            f"note: {workload} on {variant} is not the record's program: it was built again, and the bytes differ"
        )
