# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prepare both variants of a record's row to run again: find or build their programs as for its trials."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from swapstone.core.model import (
    IDLE,
    Comparison,
    Experiment,
    Sample,
    Source,
    Status,
    UnavailableError,
    UserError,
    UserSupplied,
    Variant,
)
from swapstone.core.run.prepare import Prepared
from swapstone.core.subjects import Program, Subject, TrialSpec
from swapstone.core.targets import Target, driver_of, find_target_kind
from swapstone.core.wire import AgentAnswer, TrialRequest, decode_workload_report
from swapstone.parts.explain.instruments.acquisition import Change, ReferenceRun, RowVariant, unchanged
from swapstone.parts.explain.instruments.tracee import Region, Tracee


def require_host_record(experiment: Experiment, load: str) -> None:
    """Check that the programs of a record ran directly on this machine, where instruments can attach to them.

    Raises:
        UnavailableError: they ran elsewhere.
    """
    kind = find_target_kind(experiment.target)
    reachable = "runs_instruments" in kind.opens.offers
    if driver_of(experiment.target):
        raise UnavailableError(
            "The load generator of this row ran on another machine, which instruments don't use.",
            "Measure it without --driver-target, and explain that record.",
        )
    if "bare" in kind.opens.offers:
        raise UnavailableError(
            "Instruments attach to processes of this machine; this row was measured on an emulated one without an operating system.",
            "Compare the network stacks on --target host, and explain that record. `./swapstone docs netstack` has a profile of such a "
            "machine, and the command that samples it.",
        )
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
        if program.root:
            raise UnavailableError(
                f"{label} runs in a root file system of its own, in which the instruments are missing.",
                "Explain a comparison without the factors rootfs and image.",
            )
        workload = context.prepared.subjects[comparison.suite, comparison.workload].workload
        supplied = isinstance(workload.origin, UserSupplied)
        make = _server if workload.load_generator else _whole_program if supplied else _passes
        tracee, changed = make(context, comparison, variant, program)
        digest = program.artifact.sha256 if program.artifact else ""
        recorded = statistics.median(values) if values else 0.0  # a disturbed row has none
        found.append(
            RowVariant(
                tracee,
                changed,
                recorded,
                time_of(comparison, recorded) if values else None,
                digest,
                program.recipe.preload,
            )
        )
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


_MOSTLY = 0.9


def _processor_time(facts: Mapping[str, int], user: str, system: str) -> dict[str, float]:
    """Return how the kernel divides the processor time of a run: ``user`` and ``system``, and ``counted``, their sum, in ns.

    Args:
        facts: the agent's.
        user: name of the fact of user time.
        system: name of the fact of system time.
    """
    if user not in facts or system not in facts:
        return {}
    spent = {"user": facts[user] * 1e3, "system": facts[system] * 1e3}
    return {**spent, "counted": spent["user"] + spent["system"]}


def _spec(context: RowContext, variant: Variant, program: Program, number: int = 0) -> TrialSpec:
    return TrialSpec(
        identity=f"explain-{number}",
        variant=variant,
        program=program,
        scratch=context.target.scratch(),
        cpus=context.target.describe().cpus,
        passes=context.passes,
    )


Changed = Callable[[int, Change], ReferenceRun]


def _run(
    context: RowContext, comparison: Comparison, spec: TrialSpec, change: Change
) -> tuple[tuple[Sample, ...], AgentAnswer]:
    """Run a trial without an instrument.

    Raises:
        UserError: it is not ok.
    """
    outcome = context.prepared.subjects[comparison.suite, comparison.workload].run(spec, context.target, change)
    if outcome.judgement.status is not Status.OK or outcome.answer is None:
        raise UserError(
            f"{comparison.workload} can't be run again with {spec.variant.label}: {outcome.judgement.reason}"
        )
    return outcome.judgement.measured.samples, outcome.answer


def _with_symbols(context: RowContext, subject: Subject, variant: Variant, program: Program) -> Path | None:
    """Build a program once more with its symbols; return None if that gives other code."""
    return subject.with_symbols(program, context.scratch / variant.label.replace("/", "_"), like=program.path)


def _passes(context: RowContext, comparison: Comparison, variant: Variant, program: Program) -> tuple[Tracee, Changed]:
    """Return a program with the harness: its passes are measured."""
    subject = context.prepared.subjects[comparison.suite, comparison.workload]
    origin = subject.workload.origin
    if not (isinstance(origin, Source) and origin.harness):
        raise UnavailableError(f"{subject.workload.name} does not mark the begin and end of its work.")

    def changed(number: int, change: Change) -> ReferenceRun:
        samples, answer = _run(context, comparison, _spec(context, variant, program, number), change)
        report = decode_workload_report(answer.stdout)
        metrics = {**_medians(samples), "operations": float(report.ops)}
        inside_ns = sum(one.cpu_ns for one in report.passes)
        spent = _processor_time(dict(answer.facts), "user_us", "system_us")
        # The facts are of the whole process: they are no measure of its passes if its start and end take much of it.
        return ReferenceRun(
            metrics | (spent if inside_ns >= _MOSTLY * spent.get("counted", 0.0) else {}), report.mapped
        )

    operations = changed(0, unchanged).metrics["operations"]
    layout = program.artifact.layout if program.artifact else 0
    symbols = None if layout else _with_symbols(context, subject, variant, program)
    request = subject.request(_spec(context, variant, program))
    return Tracee(variant.label, request, Region.PASSES, operations, symbols), changed


def _whole_program(
    context: RowContext, comparison: Comparison, variant: Variant, program: Program
) -> tuple[Tracee, Changed]:
    """Return a user's own program: all of its run is measured."""
    subject = context.prepared.subjects[comparison.suite, comparison.workload]

    def changed(number: int, change: Change) -> ReferenceRun:
        samples, answer = _run(context, comparison, _spec(context, variant, program, number), change)
        return ReferenceRun(
            _medians(samples) | _processor_time(dict(answer.facts), "user_us", "system_us"), answer.objects
        )

    return Tracee(variant.label, subject.request(_spec(context, variant, program)), Region.PROGRAM), changed


_PER_REQUEST = "_per_request"


def _server(context: RowContext, comparison: Comparison, variant: Variant, program: Program) -> tuple[Tracee, Changed]:
    """Return a server: it is measured while its load generator runs."""
    subject = context.prepared.subjects[comparison.suite, comparison.workload]
    generator = subject.workload.load_generator

    def request() -> TrialRequest:
        return subject.request(_spec(context, variant, program))

    def changed(number: int, change: Change) -> ReferenceRun:
        samples, answer = _run(context, comparison, _spec(context, variant, program, number), change)
        medians = _medians(samples)
        metrics = {
            name.removesuffix(_PER_REQUEST): value for name, value in medians.items() if name.endswith(_PER_REQUEST)
        }
        if medians.get("requests"):
            metrics["wall"] = 1e9 / medians["requests"]
        metrics |= _processor_time(dict(answer.facts), "server_user_us", "server_system_us")
        return ReferenceRun(metrics, answer.objects)

    symbols = _with_symbols(context, subject, variant, program)
    return Tracee(
        variant.label, request(), Region.DRIVEN, 1.0, symbols, renew=request, load_generator=generator
    ), changed
