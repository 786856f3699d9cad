# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explaining a row of a record on the exact clock: both variants run again under the emulator's plugin, which counts instructions."""

from __future__ import annotations

import dataclasses
import datetime
import shlex
from collections.abc import Sequence
from pathlib import Path

from swapstone.instruments.counted_runs import CountContext, CountedRun, count_run, machine_target, notes_of, paired
from swapstone.instruments.debug_files import DebugFiles
from swapstone.instruments.model_counts import require_modelled
from swapstone.model import Analysis, Comparison, RowKey, Run, Status, UnavailableError, UserError
from swapstone.model.instruction_counts import EXPLAINED_TIMES, InstructionExplanation
from swapstone.model.instruction_paths import InstructionPaths
from swapstone.model.modelled_cycles import Costs, ModelledCycles
from swapstone.model.safe_text import safe
from swapstone.model.temporary_folder import TemporaryFolder
from swapstone.record import RecordView
from swapstone.report import instruction_explanation
from swapstone.report.document import Document
from swapstone.run import prepare
from swapstone.session import explain_row, explanation_files
from swapstone.session.explain_row import DEFAULT_OPTIONS, ExplainOptions, RowExplanation, choose_row
from swapstone.session.explain_wakeup import WorstWakeups, explain_wakeups, workload_of
from swapstone.session.explanation_formats import explanation_text
from swapstone.session.machines import open_experiment_target
from swapstone.session.progress import NO_PROGRESS, Progress
from swapstone.session.trust import require_trust
from swapstone.session.worst_wakeups import has_wakeups, measures_wakeups
from swapstone.targets import find_target_kind
from swapstone.version import __version__

INSTRUCTIONS = "instructions"
"""The kind of the profiles."""


@dataclasses.dataclass(frozen=True)
class InstructionsByFunction:
    """The explanation of a row of a record on the exact clock.

    Attributes:
        folder: where it is stored.
        explanation: the instructions of both variants by function.
        files: everything that was written, in the order of writing.
    """

    folder: Path
    explanation: InstructionExplanation
    files: tuple[Path, ...]

    def document(self) -> Document:
        """Return the explanation as a document that any renderer prints."""
        return instruction_explanation.document_of(self.explanation)

    def report(self, format: str = "text") -> str:
        """Return the explanation as ``json``, or in a format of `swapstone report --format`.

        Raises:
            UserError: there is no such format.
        """
        return explanation_text(format, self.document, lambda: instruction_explanation.to_json(self.explanation))

    def profiles(self, kind: str) -> tuple[Path, ...]:
        """Return the files of the profiles of a kind.

        Raises:
            UnavailableError: it is not ``instructions``, or there is no flame graph of them.
        """
        if kind != INSTRUCTIONS:
            raise UnavailableError(
                f"There is no profile {kind}: records on the exact clock have instructions by call path.",
                "Write those: swapstone profile RECORD --instructions",
            )
        if self.explanation.no_graph:
            raise UnavailableError(
                f"There is no profile {kind}: {safe(self.explanation.no_graph)}.",
                "Print the instructions by function: swapstone explain RECORD",
            )
        return tuple(sorted(path for path in self.files if path.name.startswith(f"{kind}-")))


def explain_record(
    view: RecordView,
    analysis: Analysis,
    options: ExplainOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
) -> RowExplanation | InstructionsByFunction | WorstWakeups:
    """Explain a row of a record, by its stored explanation or by running both variants again.

    Raises:
        UntrustedRecordError: nothing is stored, and the user did not make the record here, or it was damaged or edited.
        UserError: no row matches the options, none of them differs, or the row can't be run again.
        UnavailableError: the machines have several processors, or the row is of a metric that instructions don't explain.
    """
    if not (view.experiment.virtual and "boots" in find_target_kind(view.experiment.target).opens.offers):
        if options.modelled_cycles:
            raise UserError(
                "Cycles are modelled for records of virtual machines on the exact clock only.",
                "Leave --modelled-cycles out.",
            )
        return explain_row.explain_record(view, analysis, options, progress)
    if options.classes is not None or options.without:
        raise UserError(
            "Records of virtual machines are explained by instructions, without classes of cost and without instruments.",
            "Leave --classes and --without out.",
        )
    if options.confirm:
        raise UserError(
            "Remedies are tried beside programs of this machine, not in virtual ones.", "Leave --confirm out."
        )
    if view.experiment.processors > 1:
        raise UnavailableError(
            f"A record of machines with {view.experiment.processors} processors can't be explained: the emulator's plugin follows the "
            "instructions of one processor.",
            "Compare without --smp and explain that record.",
        )
    row = choose_row(analysis, options, undecided=measures_wakeups(view.experiment))
    place = RowKey(
        suite=row.suite,
        workload=row.workload,
        load=row.load,
        metric=row.metric.name,
        baseline=row.baseline.label,
        candidate=row.candidate.label,
    )
    if has_wakeups(workload_of(view, row)):
        if options.modelled_cycles:
            raise UserError(
                "Cycles are modelled for rows of elapsed time and CPU time; latencies are explained by the path of the worst wake-up.",
                "Leave --modelled-cycles out.",
            )
        return explain_wakeups(view, row, place, options, progress)
    folder = explanation_files.folder_of(view, place)
    found = None if options.again else explanation_files.read_counts(folder, view)
    paths = explanation_files.read_paths(folder, view, found) if found is not None else None
    if found is None or (options.modelled_cycles and found.model is None) or (paths is None and not found.no_graph):
        found, paths = _count(view, row, place, options, progress)
        explanation_files.store_counts(folder, found, paths)
    return InstructionsByFunction(folder, found, tuple(explanation_files.write_counts(folder, found, paths)))


def _count(
    view: RecordView, row: Comparison, place: RowKey, options: ExplainOptions, progress: Progress
) -> tuple[InstructionExplanation, InstructionPaths | None]:
    if workload_of(view, row).load_generator:
        raise UnavailableError(
            "Instructions don't explain servers: the runs of two variants answer different numbers of requests.",
            "Compare the servers on this machine, without --target, and explain that record.",
        )
    if row.metric.name not in EXPLAINED_TIMES:
        raise UnavailableError(
            f"Instructions explain elapsed time and CPU time; this row is of {row.metric.name}.",
            f"Name one of these: swapstone explain {shlex.quote(str(view.path))} wall",
        )
    require_trust(
        view, "explain the row", trust=options.trust, more=["run both variants again under the emulator's plugin"]
    )
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to run again.")
    runs = _pair(view.runs, row)
    with (
        open_experiment_target(view.experiment, progress.note) as opened,
        TemporaryFolder("counts") as scratch,
    ):
        target = machine_target(opened)
        if options.modelled_cycles:
            require_modelled(target.architecture)
        prepared = prepare(view.experiment, target, lambda *_: None, progress.note)
        debug = DebugFiles(target.architecture, Path(scratch), progress.note)
        context = CountContext(prepared, target, Path(scratch), debug, options.modelled_cycles)
        counted = []
        for run in runs:
            progress.note(f"running {run.trial.key} again under the emulator's plugin")
            counted.append(count_run(context, run))
        tools = dict(target.tools())
    paths = _paths(view, *counted)
    found = InstructionExplanation(
        record=view.meta.id,
        chain=view.last_chain,
        swapstone=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        emulator=tools["qemu"],
        place=place,
        region=counted[0].region,
        sides=(counted[0].side, counted[1].side),
        functions=paired(counted[0], counted[1]),
        ns_per_instruction=view.experiment.ns_per_instruction,
        notes=(*notes_of(counted[0]), *debug.notes()),
        model=_model(*counted),
        no_graph="" if paths else next(side.no_paths for side in counted if side.no_paths),
    )
    return found, paths


def _paths(view: RecordView, baseline: CountedRun, candidate: CountedRun) -> InstructionPaths | None:
    if baseline.paths is None or candidate.paths is None:
        return None
    return InstructionPaths(chain=view.last_chain, sides=(baseline.paths, candidate.paths))


def _model(baseline: CountedRun, candidate: CountedRun) -> ModelledCycles | None:
    if baseline.model is None or candidate.model is None:
        return None
    events = (baseline.model.events, candidate.model.events)
    return ModelledCycles(caches=baseline.model.caches, costs=Costs(), sides=events)


def _pair(runs: Sequence[Run], row: Comparison) -> tuple[Run, Run]:
    """Return a run of each variant in the first block that has both.

    Raises:
        UserError: no block has both.
    """
    found: dict[tuple[int, str], Run] = {}
    for run in runs:
        trial = run.trial
        of_row = (trial.suite, trial.workload, trial.load) == (row.suite, row.workload, row.load)
        if of_row and run.status is Status.OK and run.output and run.name:
            found.setdefault((trial.block, trial.variant), run)
    for block in sorted({block for block, _ in found}):
        pair = [found.get((block, variant.label)) for variant in (row.baseline, row.candidate)]
        if pair[0] is not None and pair[1] is not None:
            return pair[0], pair[1]
    raise UserError("No replicate has a run of both variants with its output and its name: none can be run again.")
