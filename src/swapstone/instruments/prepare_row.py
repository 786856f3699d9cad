"""Prepare both variants of a record's row to run again: find or build their programs as for its trials."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path

from swapstone.artifacts import build_whole
from swapstone.instruments.acquisition import ReferenceRun, RowVariant
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import IDLE, Comparison, Experiment, Sample, Source, Status, UnavailableError, UserError, Variant
from swapstone.run.owntrial import OwnTrials, judge_own, own_request
from swapstone.run.prepare import Prepared
from swapstone.run.program import Program
from swapstone.run.serving import as_server
from swapstone.run.trial import Asked as TrialAsked
from swapstone.run.trial import judge, request_for
from swapstone.targets import Target, find_target_kind
from swapstone.wire import TrialRequest, decode_workload_report


def require_host_record(experiment: Experiment, load: str) -> None:
    """Check that the programs of a record ran directly on this machine, where instruments can attach to them.

    Raises:
        UnavailableError: they ran elsewhere.
    """
    reachable = find_target_kind(experiment.target).opens.runs_instruments
    if not reachable or load != IDLE.name:
        where = f"the load {load}" if reachable else f"the target {experiment.target}"
        raise UnavailableError(
            f"Instruments attach to processes of this machine; this row was measured with {where}.",
            "Measure it on --target host, and explain that record.",
        )


@dataclasses.dataclass(frozen=True)
class RowContext:
    """What the rows of a record share.

    Attributes:
        experiment: of the record.
        prepared: its programs, found or built again.
        target: this machine.
        passes: of each reference run, as in the record.
        scratch: a folder for files that only the instruments read.
    """

    experiment: Experiment
    prepared: Prepared
    target: Target
    passes: int
    scratch: Path


def prepare_row(context: RowContext, comparison: Comparison) -> tuple[RowVariant, RowVariant]:
    """Return both variants of a row, ready to run.

    Args:
        context: the record.
        comparison: the row.

    Raises:
        UnavailableError: a program is not available any more, or runs only in a machine of its own.
    """
    found = []
    pairs = ((comparison.baseline, comparison.baseline_values), (comparison.candidate, comparison.candidate_values))
    for label, values in ((variant.label, values) for variant, values in pairs):
        key = (comparison.suite, comparison.workload, label)
        if key not in context.prepared.programs:
            raise UnavailableError(
                f"{label} can't be run again: {context.prepared.refused.get(key, 'its program is missing')}."
            )
        program, variant = context.prepared.programs[key].in_block(1), context.prepared.variants[label]
        served = context.prepared.workloads[comparison.suite, comparison.workload].load_generator is not None
        make = _served if served else _own if context.experiment.own is not None else _ours
        tracee, plain = make(context, comparison, variant, program)
        digest = program.artifact.sha256 if program.artifact else ""
        recorded = statistics.median(values)
        found.append(RowVariant(tracee, plain, recorded, time_of(comparison, recorded), digest, program.recipe.preload))
    return found[0], found[1]


def ledger_metric(comparison: Comparison) -> str:
    """Return the time that a row's ledger splits: CPU time for a row of CPU time, else elapsed time."""
    return "cpu" if comparison.metric.name in {"cpu", "cpu_per_request"} else "wall"


def time_of(comparison: Comparison, recorded: float) -> float | None:
    """Return the time of an operation in ns that follows from a row's value; None if none follows.

    For a server's rate it is the mean time between two responses.
    """
    if comparison.metric.name in {"wall", "cpu", "cpu_per_request"}:
        return recorded
    return 1e9 / recorded if comparison.metric.name == "requests" and recorded else None


def _medians(samples: tuple[Sample, ...]) -> dict[str, float]:
    return {sample.metric: statistics.median(sample.values) for sample in samples}


def _ours(
    context: RowContext, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Tracee, Callable[[int], ReferenceRun]]:
    target = context.target
    workload = context.prepared.workloads[comparison.suite, comparison.workload]
    if not (isinstance(workload.origin, Source) and workload.origin.harness):
        raise UnavailableError(f"{workload.name} does not mark the begin and end of its work.")
    request = request_for(
        "explain",
        program.path,
        workload,
        program.recipe,
        passes=context.passes,
        cwd=target.scratch(),
        cpus=target.describe().cpus,
    )

    def plain(number: int) -> ReferenceRun:
        del number
        answer = target.run(request)
        outcome = judge(answer, TrialAsked(workload, variant, program, ""), target.inspect)
        if outcome.status is not Status.OK:
            raise UserError(f"{workload.name} can't be run again with {variant.label}: {outcome.reason}")
        report = decode_workload_report(answer.stdout)
        return ReferenceRun({**_medians(outcome.samples), "operations": float(report.ops)}, report.mapped)

    operations = plain(0).metrics["operations"]
    layout = program.artifact.layout if program.artifact else 0
    twin = (
        None
        if layout
        else build_whole(
            workload.origin, program.recipe, context.scratch / variant.label.replace("/", "_"), like=program.path
        )
    )
    return Tracee(variant.label, request, Region.PASSES, operations, twin), plain


def _own(
    context: RowContext, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Tracee, Callable[[int], ReferenceRun]]:
    own, target = context.experiment.own, context.target
    assert own is not None
    cpus = target.describe().cpus
    trials = OwnTrials(own, target, cpus)

    def plain(number: int) -> ReferenceRun:
        outcome = trials.make(f"explain-{number}", variant, program)
        if outcome.verdict.status is not Status.OK or outcome.answer is None:
            raise UserError(f"{comparison.workload} can't be run again with {variant.label}: {outcome.verdict.reason}")
        return ReferenceRun(_medians(outcome.verdict.samples), outcome.answer.objects)

    request = own_request("explain", own, program, cpus)
    return Tracee(variant.label, request, Region.PROGRAM), plain


_PER_REQUEST = "_per_request"


def _served(
    context: RowContext, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Tracee, Callable[[int], ReferenceRun]]:
    workload = context.prepared.workloads[comparison.suite, comparison.workload]
    own, target, generator = context.experiment.own, context.target, workload.load_generator
    assert generator is not None
    cpus = target.describe().cpus

    def request() -> TrialRequest:
        alone = (
            request_for("explain", program.path, workload, program.recipe, passes=1, cwd=target.scratch(), cpus=cpus)
            if own is None
            else own_request("explain", own, program, cpus)
        )
        pinned = workload.cpus if own is None else own.cpus
        environment = program.recipe.environment
        return as_server(
            alone, generator, driver=program.load_generator, cpus=cpus, pinned=pinned, environment=environment
        )

    def plain(number: int) -> ReferenceRun:
        del number
        answer = target.run(request())
        outcome = (
            judge(answer, TrialAsked(workload, variant, program, ""), target.inspect)
            if own is None
            else judge_own(answer, own, variant, program, target.inspect, generator=generator)
        )
        if outcome.status is not Status.OK:
            raise UserError(f"{workload.name} can't be run again with {variant.label}: {outcome.reason}")
        said = _medians(outcome.samples)
        metrics = {
            name.removesuffix(_PER_REQUEST): value for name, value in said.items() if name.endswith(_PER_REQUEST)
        }
        if said.get("requests"):
            metrics["wall"] = 1e9 / said["requests"]
        return ReferenceRun(metrics, answer.objects)

    twin = (
        None
        if not isinstance(workload.origin, Source)
        else build_whole(
            workload.origin, program.recipe, context.scratch / variant.label.replace("/", "_"), like=program.path
        )
    )
    return Tracee(variant.label, request(), Region.DRIVEN, 1.0, twin, renew=request, load_generator=generator), plain
