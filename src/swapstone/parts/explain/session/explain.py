# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explaining a row: its two variants run again under the instruments that its place offers; what those observed is stored, and explained.

Rows of this machine run under perf, valgrind and the kernel's counters, and their time is divided by function. Rows on the exact clock run
under the emulator's plugin, which counts instructions or traces a wake-up. All of them become two profiles and their difference.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fnmatch
import functools
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from swapstone.core.model import (
    Analysis,
    Comparison,
    Direction,
    Run,
    Scale,
    Status,
    UnavailableError,
    UserError,
    Verdict,
    Workload,
    unknown,
)
from swapstone.core.model.metric import TIMES
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record import RecordView
from swapstone.core.report.verdict_groups import DIFFERS
from swapstone.core.run.prepare import prepare
from swapstone.core.run.variant_program import Program
from swapstone.core.session.explainer import RowExplanation
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.record_errors import named_record
from swapstone.core.session.trust import require_trust
from swapstone.core.targets import find_target_kind, open_target
from swapstone.core.workloads import workloads_of
from swapstone.parts.explain.explanation.row_answer import named
from swapstone.parts.explain.instruments.acquisition import (
    INSTRUMENTS,
    RowVariant,
    ledger_metric,
    prepare_row,
    require_host_record,
    run_instruments,
)
from swapstone.parts.explain.instruments.counted_runs import (
    NOT_FOLLOWED,
    CountContext,
    count_run,
    events_of,
    machine_target,
    notes_of,
)
from swapstone.parts.explain.instruments.plugin_file import DebugFiles
from swapstone.parts.explain.instruments.remedies import remedies_for, try_remedies
from swapstone.parts.explain.instruments.wakeup_path import trace_wakeup
from swapstone.parts.explain.model.explanation import (
    EXCLUDED,
    EXPLAINED_LATENCY,
    CountedRow,
    Explanation,
    MissingInstrument,
    RemedyRuns,
    RowKey,
    RowMeasurements,
    TracedRow,
)
from swapstone.parts.explain.report.explanation_document import Evidence, document_of, to_json
from swapstone.parts.explain.session import explanation_files
from swapstone.parts.explain.session.explanation_files import (
    KINDS_OF_EVIDENCE,
    compare,
    evidence_files,
    evidence_pages,
    explain,
    read,
    store,
    write,
)
from swapstone.parts.explain.session.wakeups import has_wakeups, measures_wakeups
from swapstone.version import __version__


@dataclasses.dataclass(frozen=True)
class ExplainOptions:
    """Which row is explained, and how.

    Attributes:
        metric: name of a metric; None for the preferred one.
        workload: name or pattern; None for all.
        candidate: label of a candidate, or its level; None for all.
        load: name of a load; None for all.
        again: whether to run under instruments although evidence is stored.
        without: names of instruments to leave out.
        trust: whether the record's commands may run though another user or machine made it, or it was edited.
        confirm: whether remedies for what is named are tried.
        paths: whether calls are followed on the exact clock; without, there are functions and no call paths.
    """

    metric: str | None = None
    workload: str | None = None
    candidate: str | None = None
    load: str | None = None
    again: bool = False
    without: tuple[str, ...] = ()
    trust: bool = False
    confirm: bool = False
    paths: bool = True


DEFAULT_OPTIONS = ExplainOptions()


@dataclasses.dataclass(frozen=True)
class ExplainedRow:
    """A row of a record that is explained.

    Attributes:
        view: the record.
        comparison: the row.
        options: how it is explained.
        progress: receives events.
    """

    view: RecordView
    comparison: Comparison
    options: ExplainOptions = DEFAULT_OPTIONS
    progress: Progress = NO_PROGRESS

    @cached_property
    def place(self) -> RowKey:
        """Return the row's key."""
        row = self.comparison
        return RowKey(
            suite=row.suite,
            workload=row.workload,
            load=row.load,
            metric=row.metric.name,
            baseline=row.baseline.label,
            candidate=row.candidate.label,
        )

    @property
    def folder(self) -> Path:
        """Return where its explanation is stored."""
        return explanation_files.folder_of(self.view, self.place)

    @property
    def workload(self) -> Workload:
        """Return its workload."""
        return workloads_of(self.view.experiment)[self.place.suite, self.place.workload]

    def runs(self) -> list[Run]:
        """Return the runs of the row that can be run again and compared with the record: they are ok, with output and name."""
        key = (self.place.suite, self.place.workload, self.place.load)
        return [
            run
            for run in self.view.runs
            if run.trial.group == key and run.status is Status.OK and run.output and run.name
        ]

    def require_runnable(self, needs: str) -> None:
        """Check that the row's programs may run again.

        Args:
            needs: what would run, as the error has it.

        Raises:
            UntrustedRecordError: the user did not make the record here, or it was damaged or edited.
            UserError: nothing was built.
        """
        require_trust(self.view, "explain the row", trust=self.options.trust, more=[needs])
        if self.view.manifest is None:
            raise UserError(f"{self.view.path} ended before anything was built: there is nothing to run again.")


def has_other_medians(row: Comparison) -> bool:
    """Return whether a row's verdict is a difference, and its ratio of medians shows it: that is what an explanation splits."""
    if row.verdict not in DIFFERS or row.effect is None or row.median_low is None or row.median_high is None:
        return row.verdict in DIFFERS
    none = 1.0 if row.scale is Scale.RATIO else 0.0
    return row.median_low > none if row.effect > none else row.median_high < none


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
        if row := next((each for each in named if each.reason), None):
            raise UserError(
                safe(f"The row {row.workload}, {row.metric.name}, has no result to explain: {row.verdict.value}."),
                safe(f"{row.reason}. Repeat the experiment: swapstone rerun RECORD"),
            )
        _check_names(every, options)
        rows = [row for row in every if row.effect is not None]
        names = ", ".join(dict.fromkeys(row.workload for row in rows)) or "none"
        raise UserError(
            "No row of the record matches.",
            safe(
                f"Workloads: {names}. Candidates: {', '.join(dict.fromkeys(row.candidate.label for row in rows)) or 'none'}. "
                f"Metrics: {', '.join(dict.fromkeys(row.metric.name for row in rows)) or 'none'}."
            ),
        )
    different = [row for row in matching if has_other_medians(row)]
    if not different and not undecided and (workload is None or len(matching) > 1):
        undecided_rows = sum(row.verdict is Verdict.INCONCLUSIVE for row in matching)
        if undecided_rows:
            raise UserError(
                f"Too few pairs: {undecided_rows} of the {len(matching)} rows that match decide no difference.",
                "Measure more: swapstone compare --resume RECORD. Or name a row with --only to see its functions and its counts.",
            )
        raise UserError(
            f"There is nothing to explain: none of the {len(matching)} rows that match has a different median.",
            "Name one with --only to see its functions and its counts.",
        )
    return max(different or matching, key=_distance)


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
    candidates = {label for row in rows for label in (row.candidate.label, row.candidate.short_label)}
    workloads = {row.workload for row in rows}
    wanted = options.workload or ""
    patterns = {wanted} if fnmatch.filter(workloads, wanted) else set()
    for what, name, known, shown in (
        ("load", options.load, {row.load for row in rows}, None),
        ("metric", options.metric, {row.metric.name for row in rows}, None),
        ("workload", options.workload, workloads | patterns, workloads),
        ("candidate", options.candidate, candidates, {row.candidate.label for row in rows}),
    ):
        if name is not None and name not in known:
            raise unknown(f"{what} of this record", name, shown or known)


def _distance(row: Comparison) -> float:
    if row.effect is None:
        return 0.0
    return abs(math.log(row.effect)) if row.scale.value == "ratio" and row.effect > 0 else abs(row.effect)


Observed = TypeVar("Observed")


def explain_record(
    view: RecordView,
    analysis: Analysis,
    options: ExplainOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> RowExplanation:
    """Explain a row of a record, from what is stored or by running its two variants again under instruments.

    Raises:
        UntrustedRecordError: nothing is stored, and the user did not make the record here, or it was damaged or edited.
        UserError: no row matches the options, none of them differs, or the row can't be run under instruments.
    """
    machine = view.experiment.virtual and "boots" in find_target_kind(view.experiment.target).opens.offers
    _check_options(view, options, machine=machine)
    row = ExplainedRow(
        view, choose_row(analysis, options, undecided=measures_wakeups(view.experiment)), options, progress
    )
    kind: type[Evidence] = RowMeasurements if not machine else TracedRow if has_wakeups(row.workload) else CountedRow
    evidence = None if options.again else _stored(row, kind)
    if evidence is None:
        needs, observe = _OBSERVE[kind]
        row.require_runnable(needs)
        evidence = observe(row)
        store(row.folder, evidence_files(view, evidence))
    with named_record(view.path):  # stored evidence is untrusted
        explanation = explain(evidence)
    if options.confirm and isinstance(evidence, RowMeasurements) and evidence.remedies is None:
        evidence = msgspec.structs.replace(evidence, remedies=_tried(row, explanation))
        store(row.folder, evidence_files(view, evidence))
        explanation = explain(evidence)
    with named_record(view.path):
        files = tuple(write(row.folder, evidence_pages(evidence, explanation)))
    printed = document_of(explanation, record=shlex.quote(str(view.path)))
    no_profile = functools.partial(_no_profile, evidence)
    return RowExplanation(
        row.folder,
        explanation,
        files,
        printed,
        to_json(explanation, evidence),
        no_profile,
        evidence,
        functools.partial(compare, evidence),
    )


def _stored(row: ExplainedRow, kind: type[Evidence]) -> Evidence | None:
    """Return the stored evidence, if nothing was left out of it that is needed, and no instrument is left out now."""
    found = read(row.folder, row.view, kind, lambda reason: row.progress.note(safe(f"{reason}: it is measured again")))
    if isinstance(found, RowMeasurements) and (
        row.options.without or any(each.reason == EXCLUDED for each in found.missing)
    ):
        return None
    if row.options.paths and isinstance(found, CountedRow) and found.no_paths == NOT_FOLLOWED:
        return None
    return found


def _no_profile(evidence: Evidence, kind: str) -> UserError:
    """Return the error that there is no profile of a kind."""
    if isinstance(evidence, CountedRow) and kind == "instructions":
        return UnavailableError(
            f"There is no profile {kind}: {safe(evidence.no_paths)}.",
            "Print the instructions by function: swapstone explain RECORD",
        )
    missing = None
    if isinstance(evidence, RowMeasurements) and kind != "instructions":
        missing = next((each for each in evidence.missing if each.instrument == kind), None)
        if missing is None:
            return UserError(f"There is no profile {kind}: neither side has any stack.")
    reason, hint = KINDS_OF_EVIDENCE[type(evidence)].no_profile if missing is None else (missing.reason, missing.remedy)
    return UnavailableError(f"There is no profile {kind}: {reason}.", hint)


def _check_options(view: RecordView, options: ExplainOptions, *, machine: bool) -> None:
    """Refuse options that a kind of record does not have, and machines that can't be observed."""
    processors = view.experiment.processors
    refused = (
        (
            machine and bool(options.without),
            UserError(
                "Records of virtual machines are explained by instructions, without instruments.",
                "Leave --without out.",
            ),
        ),
        (
            machine and options.confirm,
            UserError(
                "Remedies are tried beside programs of this machine, not in virtual ones.", "Leave --confirm out."
            ),
        ),
        (
            machine and processors > 1,
            UnavailableError(
                f"A record of machines with {processors} processors can't be explained: the emulator's plugin follows the instructions of "
                "one processor.",
                "Compare without --smp and explain that record.",
            ),
        ),
    )
    for wrong, error in refused:
        if wrong:
            raise error


def _measure(row: ExplainedRow) -> RowMeasurements:
    """Run both variants under every instrument that is not left out.

    Raises:
        UserError: the row can't be run again.
    """
    comparison, without = row.comparison, row.options.without
    with _prepared_pair(row) as (pair, _):
        metric = ledger_metric(comparison)
        only = [name for name in INSTRUMENTS if name not in without]
        seen = run_instruments(row.place, comparison.metric.unit, metric, pair, row.progress.note, only=only)
    excluded = tuple(MissingInstrument(instrument=name, reason=EXCLUDED) for name in without)
    no_result = f"{comparison.verdict.value}: {comparison.reason}" if comparison.effect is None else ""
    return msgspec.structs.replace(
        seen,
        differs=has_other_medians(comparison) or bool(no_result),
        no_result=no_result,
        medians=_recorded_medians(comparison),
        missing=(*seen.missing, *excluded),
    )


def _recorded_medians(row: Comparison) -> tuple[float, float, float] | None:
    """Return the ratio of the medians of a row's time, with its interval; None if it is of another metric, or if it has none."""
    low, high = row.median_low, row.median_high
    if row.scale is not Scale.RATIO or row.median_effect is None or low is None or high is None:
        return None
    if row.metric.better is Direction.HIGHER:  # a rate
        return (1 / row.median_effect, 1 / high, 1 / low)
    return (row.median_effect, low, high)


@contextlib.contextmanager
def _prepared_pair(row: ExplainedRow) -> Iterator[tuple[tuple[RowVariant, RowVariant], Path]]:
    """Prepare both variants of a row to run again.

    Yields:
        The variants, and a scratch folder that programs can read.

    Raises:
        UnavailableError: the row's programs did not run directly on this machine.
    """
    require_host_record(row.view.experiment, row.place.load)
    view = row.view
    assert view.manifest is not None
    with open_target("host") as target, TemporaryFolder("symbols") as scratch:
        prepared = prepare(view.experiment, target, lambda *_: None, row.progress.note)
        _note_other_programs(row, prepared.programs)
        passes = {(suite, name): count for suite, name, count in view.manifest.passes}
        made = passes.get((row.place.suite, row.place.workload), 1)
        yield prepare_row(prepared, target, row.comparison, passes=made, scratch=Path(scratch)), Path(scratch)


def _tried(row: ExplainedRow, explanation: Explanation) -> tuple[RemedyRuns, ...]:
    """Try the remedies that belong to what is named."""
    if not (remedies := remedies_for(named(explanation))):
        return ()
    row.require_runnable(_OBSERVE[RowMeasurements][0])
    slow = int(explanation.time is None or explanation.time.measured[1] >= explanation.time.measured[0])
    with _prepared_pair(row) as (pair, scratch):
        metric = ledger_metric(row.comparison)
        return try_remedies(remedies, (pair[slow], pair[1 - slow]), metric, scratch, row.progress.note)


def _note_other_programs(row: ExplainedRow, programs: Mapping[tuple[str, str, str], Program]) -> None:
    """Report the programs whose bytes differ from those of the record."""
    assert row.view.manifest is not None
    before = {(a.suite, a.workload, a.variant): a.sha256 for a in row.view.manifest.artifacts if not a.layout}
    other = [
        key
        for key, program in programs.items()
        if program.artifact and before.get(key) not in {None, program.artifact.sha256}
    ]
    for _, workload, variant in other[:3]:
        row.progress.note(
            f"note: {workload} on {variant} is not the record's program: it was built again, and the bytes differ"
        )


@contextlib.contextmanager
def _machines(row: ExplainedRow) -> Iterator[tuple[CountContext, dict[str, Any]]]:
    """Open the record's machines, and prepare its programs.

    Yields:
        What both runs share, and what all evidence on the exact clock has.
    """
    view, notify = row.view, row.progress.note
    with open_experiment_target(view.experiment, notify) as opened, TemporaryFolder("explain") as scratch:
        target = machine_target(opened)
        prepared = prepare(view.experiment, target, lambda *_: None, notify)
        debug = DebugFiles(target.debug_file, Path(scratch), notify)
        yield (
            CountContext(prepared, target, Path(scratch), debug),
            {
                "record": view.meta.id,
                "chain": view.last_chain,
                "swapstone": __version__,
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "emulator": dict(target.tools())["qemu"],
                "place": row.place,
                "ns_per_instruction": view.experiment.ns_per_instruction,
            },
        )


def _both(row: ExplainedRow, runs: tuple[Run, Run], observe: Callable[[Run], Observed]) -> tuple[Observed, Observed]:
    """Observe a run of each variant."""

    def observed(run: Run) -> Observed:
        row.progress.note(f"running {run.trial.key} again under the emulator's plugin")
        return observe(run)

    return observed(runs[0]), observed(runs[1])


def _count(row: ExplainedRow) -> CountedRow:
    """Count the instructions of a trial of each variant, of the first replicate that has both.

    Raises:
        UnavailableError: the row is of a server, or of another metric than a time.
        UserError: no replicate has both, or the runs are other ones than in the record.
    """
    if row.workload.load_generator:
        raise UnavailableError(
            "Instructions don't explain servers: the runs of two variants answer different numbers of requests.",
            "Compare the servers on this machine, without --target, and explain that record.",
        )
    if row.place.metric not in TIMES:
        raise UnavailableError(
            f"Instructions explain elapsed time and CPU time; this row is of {row.place.metric}.",
            f"Name one of these: swapstone explain {shlex.quote(str(row.view.path))} wall",
        )
    runs = _pair(row)
    with _machines(row) as (context, facts):
        before, after = _both(row, runs, functools.partial(count_run, context, follow=row.options.paths))
    return CountedRow(
        **facts,
        region=before.region,
        sides=(before.side, after.side),
        events=events_of(before, after),
        notes=(*notes_of(before), *context.debug.notes()),
        no_paths=before.no_paths or after.no_paths,
    )


def _trace(row: ExplainedRow) -> TracedRow:
    """Run the worst replicate of each variant again.

    Raises:
        UnavailableError: the row is of another metric.
        UserError: a replicate can't be run again, or its path can't be derived.
    """
    if row.place.metric != EXPLAINED_LATENCY:
        raise UnavailableError(
            f"The path of the worst wake-up explains {EXPLAINED_LATENCY}; this row is of {row.place.metric}.",
            f"Name that one: swapstone explain {shlex.quote(str(row.view.path))} {EXPLAINED_LATENCY}",
        )
    runs = _worst(row, row.place.baseline), _worst(row, row.place.candidate)
    with _machines(row) as (context, facts):
        trace = functools.partial(trace_wakeup, context, {}, row.view.experiment.ns_per_instruction)
        return TracedRow(**facts, sides=_both(row, runs, trace))


def _pair(row: ExplainedRow) -> tuple[Run, Run]:
    """Return a run of each variant in the first block that has both.

    Raises:
        UserError: no block has both.
    """
    found: dict[tuple[int, str], Run] = {}
    for run in row.runs():
        found.setdefault((run.trial.block, run.trial.variant), run)
    for block in sorted({block for block, _ in found}):
        before, after = (found.get((block, variant)) for variant in (row.place.baseline, row.place.candidate))
        if before is not None and after is not None:
            return before, after
    raise UserError("No replicate has a run of both variants with its output and its name: none can be run again.")


def _worst(row: ExplainedRow, variant: str) -> Run:
    """Return the run of a variant with the largest maximum, the first of several.

    Raises:
        UserError: none can be run again.
    """
    runs = [run for run in row.runs() if run.trial.variant == variant]
    if not runs:
        raise UserError(f"No run of {variant} has its output and its name: none can be run again.")
    latencies = ((max(sample.values) for sample in run.samples if sample.metric == EXPLAINED_LATENCY) for run in runs)
    return max(zip(runs, latencies, strict=True), key=lambda pair: max(pair[1], default=0.0))[0]


_OBSERVE: Mapping[type[Evidence], tuple[str, Callable[[ExplainedRow], Evidence]]] = {
    RowMeasurements: (f"run all of it under: {', '.join(INSTRUMENTS)}", _measure),
    CountedRow: ("run both variants again under the emulator's plugin", _count),
    TracedRow: ("run a replicate of both variants again under the emulator's plugin", _trace),
}
"""What runs both variants of a row again, after its name in an `UntrustedRecordError`. Its errors are those of `explain_record`."""
