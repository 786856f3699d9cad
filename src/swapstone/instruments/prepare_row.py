"""A row of a record, made ready to run again: found or built as its trials were."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path

from swapstone.artifacts import build_whole
from swapstone.instruments.acquisition import Asked, Plain
from swapstone.instruments.tracee import Region, Subject
from swapstone.model import IDLE, Comparison, Experiment, Sample, Source, Status, UnavailableError, UserError, Variant
from swapstone.run.owntrial import OwnTrials, judge_own, own_request
from swapstone.run.prepare import Prepared
from swapstone.run.program import Program
from swapstone.run.serving import as_server
from swapstone.run.trial import Asked as TrialAsked
from swapstone.run.trial import judge, request_for
from swapstone.targets import Target, find_target_kind
from swapstone.wire import TrialRequest, decode_workload_report


def check_host(experiment: Experiment, load: str) -> None:
    """Refuse a record whose programs did not run on this machine, where instruments can reach them.

    Raises:
        UnavailableError: they ran elsewhere.
    """
    reachable = find_target_kind(experiment.target).opens.runs_instruments
    if not reachable or load != IDLE.name:
        where = f"the load {load}" if reachable else f"the target {experiment.target}"
        raise UnavailableError(
            f"Instruments run on this machine, beside the programs; this row was measured with {where}.",
            "Measure it on --target host, and explain that record.",
        )


@dataclasses.dataclass(frozen=True)
class Asking:
    """What a record's rows have in common.

    Attributes:
        experiment: of the record.
        prepared: its programs, found or built again.
        target: this machine.
        passes: of each run without an instrument, as in the record.
        scratch: a folder for what is built only to be looked at.
    """

    experiment: Experiment
    prepared: Prepared
    target: Target
    passes: int
    scratch: Path


def asked_for(asking: Asking, comparison: Comparison) -> tuple[Asked, Asked]:
    """Return both variants of a row, ready to run.

    Args:
        asking: the record.
        comparison: the row.

    Raises:
        UnavailableError: a variant can't be had any more, or its program is one that only a machine of its own has.
    """
    found = []
    pairs = ((comparison.baseline, comparison.baseline_values), (comparison.candidate, comparison.candidate_values))
    for label, values in ((variant.label, values) for variant, values in pairs):
        key = (comparison.suite, comparison.workload, label)
        if key not in asking.prepared.programs:
            raise UnavailableError(
                f"{label} can't be run again: {asking.prepared.refused.get(key, 'it is not there')}."
            )
        program, variant = asking.prepared.programs[key].in_block(1), asking.prepared.variants[label]
        served = asking.prepared.workloads[comparison.suite, comparison.workload].load_generator is not None
        make = _served if served else _own if asking.experiment.own is not None else _ours
        subject, plain = make(asking, comparison, variant, program)
        digest = program.artifact.sha256 if program.artifact else ""
        recorded = statistics.median(values)
        found.append(Asked(subject, plain, recorded, time_of(comparison, recorded), digest, program.recipe.preload))
    return found[0], found[1]


def ledger_metric(comparison: Comparison) -> str:
    """Return which time of an operation is split for a row: processor time for a row of that, else elapsed time."""
    return "cpu" if comparison.metric.name in {"cpu", "cpu_per_request"} else "wall"


def time_of(comparison: Comparison, recorded: float) -> float | None:
    """Return the time of an operation in ns that a row's value says; None where it says none.

    Of a server's rate it is the time from one answer to the next.
    """
    if comparison.metric.name in {"wall", "cpu", "cpu_per_request"}:
        return recorded
    return 1e9 / recorded if comparison.metric.name == "requests" and recorded else None


def _medians(samples: tuple[Sample, ...]) -> dict[str, float]:
    return {sample.metric: statistics.median(sample.values) for sample in samples}


def _ours(
    asking: Asking, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Subject, Callable[[int], Plain]]:
    target = asking.target
    workload = asking.prepared.workloads[comparison.suite, comparison.workload]
    if not (isinstance(workload.origin, Source) and workload.origin.harness):
        raise UnavailableError(f"{workload.name} tells nothing of where its work begins and ends.")
    request = request_for(
        "explain",
        program.path,
        workload,
        program.recipe,
        passes=asking.passes,
        cwd=target.scratch(),
        cpus=target.describe().cpus,
    )

    def plain(number: int) -> Plain:
        del number
        answer = target.run(request)
        outcome = judge(answer, TrialAsked(workload, variant, program, ""), target.inspect)
        if outcome.status is not Status.OK:
            raise UserError(f"{workload.name} can't be run again with {variant.label}: {outcome.reason}")
        report = decode_workload_report(answer.stdout)
        return Plain({**_medians(outcome.samples), "operations": float(report.ops)}, report.mapped)

    operations = plain(0).metrics["operations"]
    layout = program.artifact.layout if program.artifact else 0
    twin = (
        None
        if layout
        else build_whole(
            workload.origin, program.recipe, asking.scratch / variant.label.replace("/", "_"), like=program.path
        )
    )
    return Subject(variant.label, request, Region.PASSES, operations, twin), plain


def _own(
    asking: Asking, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Subject, Callable[[int], Plain]]:
    own, target = asking.experiment.own, asking.target
    assert own is not None
    cpus = target.describe().cpus
    trials = OwnTrials(own, target, cpus)

    def plain(number: int) -> Plain:
        outcome = trials.make(f"explain-{number}", variant, program)
        if outcome.verdict.status is not Status.OK or outcome.answer is None:
            raise UserError(f"{comparison.workload} can't be run again with {variant.label}: {outcome.verdict.reason}")
        return Plain(_medians(outcome.verdict.samples), outcome.answer.objects)

    request = own_request("explain", own, program, cpus)
    return Subject(variant.label, request, Region.PROGRAM), plain


_PER_REQUEST = "_per_request"


def _served(
    asking: Asking, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Subject, Callable[[int], Plain]]:
    workload = asking.prepared.workloads[comparison.suite, comparison.workload]
    own, target, generator = asking.experiment.own, asking.target, workload.load_generator
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

    def plain(number: int) -> Plain:
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
        return Plain(metrics, answer.objects)

    twin = (
        None
        if not isinstance(workload.origin, Source)
        else build_whole(
            workload.origin, program.recipe, asking.scratch / variant.label.replace("/", "_"), like=program.path
        )
    )
    return Subject(variant.label, request(), Region.DRIVEN, 1.0, twin, renew=request, load_generator=generator), plain
