# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run all instruments on both variants of a row, one after another, each in runs of its own."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core.factors import find_factor, recipe_of
from swapstone.core.model import (
    IDLE,
    Comparison,
    Experiment,
    Source,
    Status,
    UnavailableError,
    UserError,
    UserSupplied,
)
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.run.builder import builder
from swapstone.core.run.prepare import Prepared
from swapstone.core.run.subject import TrialSpec, whole_environment
from swapstone.core.targets import Target, TargetError, driver_of, find_target_kind
from swapstone.core.wire import AgentAnswer, TrialRequest, decode_workload_report
from swapstone.parts.explain.explanation.surroundings import (
    COUNTED,
    NEITHER,
    NONE,
    OBSERVED,
    READY,
    STOPS,
    read_counts,
    read_surroundings,
)
from swapstone.parts.explain.instruments import (
    hardware,
    instructions,
    offcpu,
    oncpu,
    pages,
    requirements,
    syscalls,
    waits,
)
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee
from swapstone.parts.explain.model.explanation import (
    COUNTERS,
    SURROUNDINGS,
    Amount,
    InstrumentCost,
    InstrumentResult,
    MissingInstrument,
    Reference,
    RowKey,
    RowMeasurements,
)

Measure = Callable[[Tracee, ReferenceRuns], InstrumentResult]

INSTRUMENTS: dict[str, Measure] = {
    oncpu.NAME: oncpu.measure,
    offcpu.NAME: offcpu.measure,
    waits.NAME: waits.measure,
    syscalls.NAME: syscalls.measure,
    pages.NAME: pages.measure,
    hardware.NAME: hardware.measure,
    instructions.NAME: instructions.measure,
}
"""By name, in the order in which they run."""

REFERENCE = "reference"
"""Name of the runs without an instrument."""

MIN_REFERENCES, MAX_REFERENCES = 8, 24
"""Number of reference runs of each variant."""

FEW_REFERENCES = 4
"""The minimum for a user whom the kernel refuses its samples, and who gets an answer sooner."""

REFERENCE_BUDGET_S = 16.0
"""More than the minimum are made if all of them take no longer than this."""

KEPT = ("wall", "cpu", *COUNTERS)
"""The metrics of which the value of each reference run is kept."""


@dataclasses.dataclass(frozen=True)
class ReferenceRun:
    """A run without an instrument: medians by metric name, the mapped objects, the surroundings, and the duration with start and end."""

    metrics: Mapping[str, float]
    objects: tuple[str, ...]
    surroundings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    took_s: float = 0.0


Change = Callable[[TrialRequest], TrialRequest]
Made = TypeVar("Made")


def observed(request: TrialRequest) -> TrialRequest:
    """Return a request that also reads the surroundings of its process."""
    return msgspec.structs.replace(request, observe=tuple(dict.fromkeys((*request.observe, *OBSERVED))))


@dataclasses.dataclass(frozen=True)
class RowVariant:
    """One variant of a row, ready to run.

    Attributes:
        tracee: what to run.
        run: makes a run without an instrument, in the way of a trial; its arguments are the run's number and a change of the request.
        recorded: median of the row's metric in the record.
        time_ns: time of an operation in the record, of the metric that is divided; None if the row is of another metric.
        program_sha256: digest of the program's file.
        object_of: returns the path of the object that another level of a factor adds to these, built if it is missing; its arguments are
            factor, level, and what is called with a line before a build.
    """

    tracee: Tracee
    run: Callable[[int, Change], ReferenceRun]
    object_of: Callable[[str, str, Callable[[str], None]], str]
    recorded: float
    time_ns: float | None
    program_sha256: str


def run_instruments(
    place: RowKey,
    unit: str,
    ledger_metric: str,
    pair: Sequence[RowVariant],
    notify: Callable[[str], None],
    *,
    only: Sequence[str] = tuple(INSTRUMENTS),
) -> RowMeasurements:
    """Run both variants under all instruments.

    Reference runs without an instrument alternate between the variants. Half of them come before the instruments and half after,
    so that a drift of the machine affects both variants alike. Short ones are repeated more often.

    Args:
        place: the row.
        unit: of its metric.
        ledger_metric: the time that is divided by function.
        pair: baseline, then candidate.
        notify: called with a line before each step.
        only: names of the instruments to use.

    Returns:
        The measurements. An instrument that can't be used, or fails for a variant, is in `RowMeasurements.missing`.

    Raises:
        UserError: a variant can't be run.
    """
    runs: list[list[ReferenceRun]] = [[], []]
    start = time.monotonic()
    least = MIN_REFERENCES if requirements.missing_perf() is None else FEW_REFERENCES
    _run_plain(pair, runs, range(least // 2), least, notify)
    references = references_for((time.monotonic() - start) / (least // 2), least)
    _run_plain(pair, runs, range(least // 2, references // 2), references, notify)
    medians = [_medians(each) for each in runs]
    found: list[InstrumentResult] = []
    missing: list[MissingInstrument] = []
    took: dict[str, float] = {}
    for name in only:
        if name == waits.NAME and ledger_metric != "wall":
            continue  # processor time has no waits
        notify(f"running both variants under {name}")
        start = time.monotonic()
        try:
            found += [
                # A busy machine may stop a load generator or a recording.
                _retried(functools.partial(_measured, INSTRUMENTS[name], variant, reference, each, notify), UserError)
                for variant, reference, each in zip(pair, medians, runs, strict=True)
            ]
        except UserError as error:
            reason = error.message if isinstance(error, UnavailableError) else f"it failed: {error.message}"
            missing.append(MissingInstrument(instrument=name, reason=reason, remedy=error.hint))
        took[name] = time.monotonic() - start
    _run_plain(pair, runs, range(references // 2, references), references, notify)
    medians = [_medians(each) for each in runs]
    found = [*(_counters(variant, reference) for variant, reference in zip(pair, medians, strict=True)), *found]
    sides = [
        Reference(
            variant=variant.tracee.variant,
            program_sha256=variant.program_sha256,
            recorded=variant.recorded,
            time_ns=variant.time_ns,
            metrics=tuple(reference.items()),
            runs=references,
            values=tuple(
                (name, tuple(run.metrics[name] for run in each))
                for name in KEPT
                if all(name in run.metrics for run in each)
            ),
            surroundings=tuple(
                (name, tuple(dict.fromkeys(run.surroundings.get(name, NONE) for run in each)))
                for name in dict.fromkeys(name for run in each for name in run.surroundings)
            ),
        )
        for variant, reference, each in zip(pair, medians, runs, strict=True)
    ]
    durations = [[run.took_s for run in each] for each in runs]
    trial_s = sum(statistics.median(side) for side in durations)
    seconds = {REFERENCE: sum(map(sum, durations)), **took}
    return RowMeasurements(
        place=place,
        unit=unit,
        ledger_metric=ledger_metric,
        references=(sides[0], sides[1]),
        runs=tuple(found),
        missing=tuple(missing),
        costs=tuple(InstrumentCost(instrument=name, seconds=each, trial_s=trial_s) for name, each in seconds.items()),
    )


def references_for(seconds: float, least: int = MIN_REFERENCES) -> int:
    """Return the number of reference runs of each variant: an even number.

    Args:
        seconds: duration of one run of both variants.
        least: the smallest number.
    """
    return max(least, min(MAX_REFERENCES, 2 * int(REFERENCE_BUDGET_S / seconds / 2)))


def _run_plain(
    pair: Sequence[RowVariant], runs: list[list[ReferenceRun]], numbers: range, of: int, notify: Callable[[str], None]
) -> None:
    """Make reference runs. A failure of the target is retried once, because a busy machine may cause it."""
    for number in numbers:
        notify(f"running both variants without an instrument, {number + 1} of {of}")
        for side, variant in zip(runs, pair, strict=True):
            side.append(_retried(functools.partial(variant.run, number, observed), TargetError))


def _medians(runs: Sequence[ReferenceRun]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return {name: statistics.median(run.metrics[name] for run in runs if name in run.metrics) for name in names}


def _measured(
    measure: Measure,
    variant: RowVariant,
    medians: Mapping[str, float],
    runs: Sequence[ReferenceRun],
    notify: Callable[[str], None],
) -> InstrumentResult:
    """Measure one variant."""
    with TemporaryFolder("explain") as folder:
        reference = ReferenceRuns(
            metrics=medians,
            objects=runs[0].objects,
            folder=Path(folder),
            longest_s=max(run.took_s for run in runs),
            notify=notify,
            brief=requirements.missing_perf() is not None,
        )
        return measure(variant.tracee, reference)


def _retried(once: Callable[[], Made], failure: type[UserError]) -> Made:
    """Return what a function returns, in its second call if the first one fails; what is unavailable stays so."""
    try:
        return once()
    except UnavailableError:
        raise
    except failure:
        return once()


def _counters(variant: RowVariant, medians: Mapping[str, float]) -> InstrumentResult:
    """Return the kernel's counters of a process, which need no instrument."""
    amounts = tuple(
        Amount(
            group="faults" if name.endswith("flt") else "switches",
            name=words,
            value=medians[name] / variant.tracee.operations,
        )
        for name, words in COUNTERS.items()
        if name in medians
    ) + tuple(
        Amount(group=SURROUNDINGS, name=words, value=medians[name] / variant.tracee.operations)
        for name, words in COUNTED.items()
        if name in medians
    )
    return InstrumentResult(
        instrument=REFERENCE,
        tool="",
        variant=variant.tracee.variant,
        command=" ".join(variant.tracee.request.arguments),
        operations=variant.tracee.operations,
        overhead=1.0,
        amounts=amounts,
    )


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


def prepare_row(
    prepared: Prepared, target: Target, comparison: Comparison, *, passes: int, scratch: Path
) -> tuple[RowVariant, RowVariant]:
    """Return both variants of a row, ready to run.

    Args:
        prepared: the record's programs, found or built again.
        target: this machine.
        comparison: the row.
        passes: of each reference run, as in the record.
        scratch: a folder for files that only the instruments read.

    Raises:
        UnavailableError: a program is not available any more, runs only in a machine of its own, or does not mark its work.
        UserError: it can't be run again.
    """
    sides = (
        (comparison.baseline.label, comparison.baseline_values),
        (comparison.candidate.label, comparison.candidate_values),
    )
    before, after = (
        _row_variant(prepared, target, comparison, *side, passes=passes, scratch=scratch) for side in sides
    )
    return before, after


def ledger_metric(comparison: Comparison) -> str:
    """Return the time of a row that is divided by function: CPU time for a row of CPU time, else elapsed time."""
    return "cpu" if comparison.metric.name in {"cpu", "cpu_per_request"} else "wall"


def time_of(comparison: Comparison, recorded: float) -> float | None:
    """Return the time of an operation in ns that follows from a row's value; None if none follows.

    For a server's rate it is the mean time between two responses.
    """
    if comparison.metric.name in {"wall", "cpu", "cpu_per_request"}:
        return recorded
    return 1e9 / recorded if comparison.metric.name == "requests" and recorded else None


_MOSTLY = 0.9


_PER_REQUEST = "_per_request"


def _reference_run(region: Region, medians: Mapping[str, float], answer: AgentAnswer) -> ReferenceRun:
    """Return what a run gave: of its passes, of all of a supplied program, or of a server while its load generator runs."""
    facts, names = dict(answer.facts), ("user", "system")
    times = [facts.get(f"{'server_' if region is Region.DRIVEN else ''}{name}_us") for name in names]
    known = [each * 1e3 for each in times if each is not None]
    # How the kernel divides the processor time, in ns, and the sum of both.
    spent = {**dict(zip(names, known, strict=True)), "counted": sum(known)} if len(known) == len(names) else {}
    ran, waited, took = (facts.get(name) for name in ("main_cpu_ns", "run_delay_ns", "wall_ns"))
    if (
        spent
        and took
        and ran
        and waited is not None
        and ran >= _MOSTLY * spent["counted"]
        and region is not Region.DRIVEN
    ):
        spent |= {NEITHER: max(0.0, took - spent["counted"]), READY: float(waited)}  # of a program with one thread
    if region is Region.PROGRAM:
        return ReferenceRun({**medians, **spent}, answer.objects)
    if region is Region.PASSES:
        report = decode_workload_report(answer.stdout)
        # The facts are of the whole process: they are no measure of its passes if its start and end take much of it.
        if sum(one.cpu_ns for one in report.passes) < _MOSTLY * spent.get("counted", 0.0):
            spent = {}
        return ReferenceRun({**medians, "operations": float(report.ops), **spent}, report.mapped)
    metrics = {name.removesuffix(_PER_REQUEST): each for name, each in medians.items() if name.endswith(_PER_REQUEST)}
    if medians.get("requests"):
        metrics["wall"] = 1e9 / medians["requests"]
    return ReferenceRun(metrics | spent, answer.objects)


def _row_variant(
    prepared: Prepared,
    target: Target,
    comparison: Comparison,
    label: str,
    values: Sequence[float],
    *,
    passes: int,
    scratch: Path,
) -> RowVariant:
    """Return one variant of a row; arguments and errors as `prepare_row`."""
    key = (comparison.suite, comparison.workload, label)
    if key not in prepared.programs:
        raise UnavailableError(f"{label} can't be run again: {prepared.refused.get(key, 'its program is missing')}.")
    program, variant = prepared.programs[key].in_block(1), prepared.variants[label]
    subject = prepared.subjects[key[:2]]
    origin, generator = subject.workload.origin, subject.workload.load_generator
    region = Region.DRIVEN if generator else Region.PROGRAM if isinstance(origin, UserSupplied) else Region.PASSES
    if region is Region.PASSES and not (isinstance(origin, Source) and origin.harness):
        raise UnavailableError(f"{subject.workload.name} does not mark the begin and end of its work.")

    stops: list[int] = []

    def spec(number: int) -> TrialSpec:
        return TrialSpec(
            identity=f"explain-{number}",
            variant=variant,
            program=program,
            scratch=target.scratch(),
            cpus=target.describe().cpus,
            passes=passes,
        )

    def request() -> TrialRequest:
        return subject.request(spec(0))

    def run(number: int, change: Change) -> ReferenceRun:
        start = time.monotonic()
        outcome = subject.run(spec(number), target, change)
        if outcome.judgement.status is not Status.OK or outcome.answer is None:
            raise UserError(
                f"{comparison.workload} can't be run again with {variant.label}: {outcome.judgement.reason}"
            )
        medians = {each.metric: statistics.median(each.values) for each in outcome.judgement.measured.samples}
        made, texts = _reference_run(region, medians, outcome.answer), dict(outcome.answer.observed)
        counts = read_counts(texts)
        stops.append(counts.pop(STOPS, 0))  # of all runs so far
        if len(stops) > 1 and stops[-1] >= stops[-2]:
            counts[STOPS] = stops[-1] - stops[-2]
        objects = [
            path for path in outcome.answer.objects if path != program.path and path not in program.recipe.preload
        ]
        return dataclasses.replace(
            made,
            metrics={**made.metrics, **(counts if region is Region.PROGRAM else {})},
            surroundings=read_surroundings(texts, objects, whole_environment(program.recipe)),
            took_s=time.monotonic() - start,
        )

    operations = run(0, observed).metrics["operations"] if region is Region.PASSES else 1.0
    symbols = None
    if region is not Region.PROGRAM and not (program.artifact and program.artifact.layout):
        # None if the program with its symbols has other code
        symbols = subject.with_symbols(program, scratch / variant.label.replace("/", "_"), like=program.path)
    renew = request if region is Region.DRIVEN else None

    def object_of(factor: str, level: str, notify: Callable[[str], None]) -> str:
        recipe = recipe_of(variant, subject.base_recipe(variant, builder().base_recipe("")))
        made = builder().resolve(find_factor(factor).apply(level, recipe), notify).preload
        if factor in dict(variant.applied) or not made:
            raise UnavailableError(f"{factor} is a factor of the record, or the program is static")
        return made[-1]

    view = program.root.view if program.root is not None else None
    recorded = statistics.median(values) if values else 0.0  # a disturbed row has none
    return RowVariant(
        tracee=Tracee(label, request(), region, operations, symbols, renew, generator, view),
        run=run,
        object_of=object_of,
        recorded=recorded,
        time_ns=time_of(comparison, recorded) if values else None,
        program_sha256=program.artifact.sha256 if program.artifact else "",
    )
