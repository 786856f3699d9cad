# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explaining a row of latencies of a record on the exact clock: the path of each variant's worst wake-up."""

from __future__ import annotations

import dataclasses
import datetime
import shlex
from pathlib import Path

from swapstone.instruments.counted_runs import CountContext, machine_target
from swapstone.instruments.debug_files import DebugFiles
from swapstone.instruments.traced_wakeups import WakeupTracer, worst_run
from swapstone.model import Comparison, RowKey, Run, UnavailableError, UserError, Workload
from swapstone.model.temporary_folder import TemporaryFolder
from swapstone.model.wakeup_paths import EXPLAINED_LATENCY, WakeupExplanation
from swapstone.record import RecordView
from swapstone.report import wakeup_explanation
from swapstone.report.document import Document
from swapstone.run import prepare
from swapstone.session import explanation_files
from swapstone.session.explain_row import ExplainOptions
from swapstone.session.explanation_formats import explanation_text
from swapstone.session.machines import open_experiment_target
from swapstone.session.progress import Progress
from swapstone.session.trust import require_trust
from swapstone.version import __version__
from swapstone.workloads import workloads_of


@dataclasses.dataclass(frozen=True)
class WorstWakeups:
    """The explanation of a row of latencies of a record on the exact clock.

    Attributes:
        folder: where it is stored.
        explanation: the paths of the worst wake-ups of both variants.
        files: everything that was written, in the order of writing.
    """

    folder: Path
    explanation: WakeupExplanation
    files: tuple[Path, ...]

    def document(self) -> Document:
        """Return the explanation as a document that any renderer prints."""
        return wakeup_explanation.document_of(self.explanation)

    def report(self, format: str = "text") -> str:
        """Return the explanation as ``json``, or in a format of `swapstone report --format`.

        Raises:
            UserError: there is no such format.
        """
        return explanation_text(format, self.document, lambda: wakeup_explanation.to_json(self.explanation))

    def profiles(self, kind: str) -> tuple[Path, ...]:
        """Return the files of the profiles of a kind.

        Raises:
            UnavailableError: always; the path of one wake-up is no profile.
        """
        raise UnavailableError(
            f"There is no profile {kind}: a row of latencies is explained by the path of its worst wake-up.",
            "Print it: swapstone explain RECORD",
        )


def workload_of(view: RecordView, row: Comparison) -> Workload:
    """Return the workload of a row."""
    return workloads_of(view.experiment)[row.suite, row.workload]


def explain_wakeups(
    view: RecordView, row: Comparison, place: RowKey, options: ExplainOptions, progress: Progress
) -> WorstWakeups:
    """Explain a row of latencies, by its stored explanation or by running the worst replicate of each variant again.

    Raises:
        UntrustedRecordError: nothing is stored, and the user did not make the record here, or it was damaged or edited.
        UserError: the row can't be run again, or its path can't be derived.
    """
    folder = explanation_files.folder_of(view, place)
    found = None if options.again else explanation_files.read_wakeups(folder, view)
    if found is None:
        found = _trace(view, row, place, options, progress)
        explanation_files.store_wakeups(folder, found)
    return WorstWakeups(folder, found, tuple(explanation_files.write_wakeups(folder, found)))


def _trace(
    view: RecordView, row: Comparison, place: RowKey, options: ExplainOptions, progress: Progress
) -> WakeupExplanation:
    if row.metric.name != EXPLAINED_LATENCY:
        raise UnavailableError(
            f"The path of the worst wake-up explains {EXPLAINED_LATENCY}; this row is of {row.metric.name}.",
            f"Name that one: swapstone explain {shlex.quote(str(view.path))} {EXPLAINED_LATENCY}",
        )
    require_trust(
        view,
        "explain the row",
        trust=options.trust,
        more=["run a replicate of both variants again under the emulator's plugin"],
    )
    if view.manifest is None:
        raise UserError(f"{view.path} ended before anything was built: there is nothing to run again.")
    runs = [_worst(view, row, variant.label) for variant in (row.baseline, row.candidate)]
    with (
        open_experiment_target(view.experiment, progress.note) as opened,
        TemporaryFolder("wakeups") as scratch,
    ):
        target = machine_target(opened)
        prepared = prepare(view.experiment, target, lambda *_: None, progress.note)
        debug = DebugFiles(target.architecture, Path(scratch), progress.note)
        tracer = WakeupTracer(CountContext(prepared, target, Path(scratch), debug), view.experiment.ns_per_instruction)
        paths = []
        for run in runs:
            progress.note(f"running {run.trial.key} again under the emulator's plugin")
            paths.append(tracer.trace(run))
        tools = dict(target.tools())
    return WakeupExplanation(
        record=view.meta.id,
        chain=view.last_chain,
        swapstone=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        emulator=tools["qemu"],
        place=place,
        sides=(paths[0], paths[1]),
        ns_per_instruction=view.experiment.ns_per_instruction,
    )


def _worst(view: RecordView, row: Comparison, variant: str) -> Run:
    of_row = [
        run
        for run in view.runs
        if (run.trial.suite, run.trial.workload, run.trial.load) == (row.suite, row.workload, row.load)
    ]
    found = worst_run(of_row, variant)
    if found is None:
        raise UserError(f"No run of {variant} has its output and its name: none can be run again.")
    return found
