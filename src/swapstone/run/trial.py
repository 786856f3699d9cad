"""One trial: what the target is asked, and what its answer amounts to."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping, Sequence

import msgspec

from swapstone.factors import Evidence, ProgramFacts, Recipe, find_factor
from swapstone.model import (
    IDLE,
    Cpus,
    ImageTool,
    Load,
    LoadGenerator,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Variant,
    WireError,
    Workload,
)
from swapstone.run.program import Program
from swapstone.run.serving import samples_of_server, trouble_of_server
from swapstone.run.signs import load_missing
from swapstone.wire import AgentAnswer, Ended, TrialRequest, decode_workload_report
from swapstone.workloads import TOOL_READERS, Figures, read_named_figures, samples_of

OUTPUT_BYTES = 64 * 1024
DISK_BYTES = 1024 * 1024 * 1024
LAST_BYTES = 4096  # of an output that are searched for its last words


@dataclasses.dataclass(frozen=True)
class Verdictless:
    """What an answer amounts to, before it is tied to a trial: a status with its reason, or samples."""

    status: Status
    reason: str = ""
    samples: tuple[Sample, ...] = ()
    observed: tuple[tuple[str, str], ...] = ()
    check: str = ""
    histogram: tuple[tuple[int, int], ...] = ()
    series: tuple[Sample, ...] = ()


def request_for(
    identity: str, program: str, workload: Workload, recipe: Recipe, *, passes: int, cwd: str, cpus: Sequence[int]
) -> TrialRequest:
    """Build what the target is asked for one trial.

    Args:
        identity: unique within the session.
        program: path on the target.
        workload: what it is; decides pinning and time-out.
        recipe: gives environment and priority.
        passes: how often it repeats its work.
        cwd: working directory on the target.
        cpus: the target's processors. A pinned workload runs on the last of them, which on most machines is not the one that
            serves the interrupts.
    """
    return TrialRequest(
        id=identity,
        arguments=(program, *((str(passes),) if has_harness(workload) else ()), *workload.arguments),
        environment=whole_environment(recipe),
        cwd=cwd,
        cpus=(max(cpus),) if workload.cpus is Cpus.ONE and cpus else (),
        nice=recipe.nice,
        timeout_ms=workload.timeout_ms,
        output_bytes=OUTPUT_BYTES,
        disk_bytes=DISK_BYTES,
        observe=recipe.observe,
    )


def has_harness(workload: Workload) -> bool:
    """Return whether a workload's program repeats its work as often as its first argument says."""
    return isinstance(workload.origin, Source) and workload.origin.harness


def _figures(workload: Workload, output: bytes) -> Figures:
    match workload.origin:
        case ImageTool(reader=reader):
            return TOOL_READERS[reader](workload, output)
        case Source(file=file):
            return read_named_figures(workload, file.partition(".")[0], output)
        case _:
            return read_named_figures(workload, workload.name.replace("-", "_"), output)


def whole_environment(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the whole environment of a program: its recipe's, and what the loader is to preload.

    The list is filled up with colons, which part its entries, to `Recipe.preload_bytes`; a variant that preloads nothing then gets a
    variable of the same length that means nothing. So the stack doesn't move with the length of an object's path.
    """
    preload = ":".join(recipe.preload)
    if not preload and not recipe.preload_bytes:
        return recipe.environment
    name = "LD_PRELOAD" if preload else "NO_PRELOAD"
    return (*recipe.environment, (name, preload.ljust(recipe.preload_bytes, ":")))


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a trial was asked for.

    Attributes:
        workload: the work.
        variant: the levels that should be in force.
        program: what is started.
        check: checksum that equal work must have; empty if none is known yet.
        load: what the machine did besides.
    """

    workload: Workload
    variant: Variant
    program: Program
    check: str
    load: Load = IDLE


Inspect = Callable[[str], ProgramFacts | None]
"""Reads the file of a program or shared object on the target: `Target.inspect`."""


def judge(answer: AgentAnswer, asked: Asked, inspect: Inspect) -> Verdictless:
    """Decide what an answer amounts to.

    Args:
        answer: what the agent saw.
        asked: what was asked for.
        inspect: reads the files of the objects that were mapped.

    Returns:
        Failed, when the program did not end well or its report is not one; refused, when another level was in force, the load was
        not, or other work was done; else ok with its samples.
    """
    trouble = (trouble_of_server(answer) if asked.workload.load_generator else "") or trouble_of(answer)
    if trouble:
        return Verdictless(Status.FAILED, trouble)
    if asked.workload.load_generator is not None:
        return _judge_server(answer, asked, asked.workload.load_generator, inspect)
    if not has_harness(asked.workload):
        return _judge_figures(answer, asked, inspect)
    try:
        report = decode_workload_report(answer.stdout)
    except WireError as error:
        return Verdictless(Status.FAILED, f"its report can't be read: {error.message}")
    if report.name != asked.workload.name:
        return Verdictless(Status.FAILED, f"the program reports as {report.name!r}, not as {asked.workload.name!r}")
    if report.error:
        return Verdictless(Status.FAILED, f"it says: {report.error}")
    evidence = evidence_of(answer, asked.program, asked.variant, inspect)
    # What the measuring child says of itself comes on top.
    evidence = msgspec.structs.replace(evidence, mapped=report.mapped, malloc=report.malloc)
    observed = observed_levels(evidence, asked.variant)
    wrong = wrong_level(observed, asked.variant)
    wrong = wrong or load_missing(asked.load, evidence)
    if wrong:
        return Verdictless(Status.REFUSED, wrong, observed=observed)
    if asked.check and report.check != asked.check:
        reason = f"it did other work: its checksum is {report.check or 'missing'}, not {asked.check}"
        return Verdictless(Status.REFUSED, reason, observed=observed, check=report.check)
    samples = samples_of(report, dict(answer.facts))
    return Verdictless(Status.OK, samples=samples, observed=observed, check=report.check)


def _judge_figures(answer: AgentAnswer, asked: Asked, inspect: Inspect) -> Verdictless:
    """Decide what an answer amounts to whose program says figures, and nothing of itself but what it saw."""
    try:
        figures = _figures(asked.workload, answer.stdout)
    except WireError as error:
        return Verdictless(Status.FAILED, f"what it printed can't be read: {error.message}")
    evidence = evidence_of(answer, asked.program, asked.variant, inspect)
    evidence = msgspec.structs.replace(evidence, seen=figures.seen)
    observed = observed_levels(evidence, asked.variant)
    if wrong := wrong_level(observed, asked.variant) or load_missing(asked.load, evidence):
        return Verdictless(Status.REFUSED, wrong, observed=observed)
    return Verdictless(
        Status.OK, samples=figures.samples, observed=observed, histogram=figures.histogram, series=figures.series
    )


def _judge_server(answer: AgentAnswer, asked: Asked, generator: LoadGenerator, inspect: Inspect) -> Verdictless:
    """Decide what an answer amounts to whose program is a server: its driver says the figures."""
    try:
        samples = samples_of_server(generator, answer)
    except WireError as error:
        return Verdictless(Status.FAILED, error.message)
    evidence = evidence_of(answer, asked.program, asked.variant, inspect)
    observed = observed_levels(evidence, asked.variant)
    if wrong := wrong_level(observed, asked.variant):
        return Verdictless(Status.REFUSED, wrong, observed=observed)
    return Verdictless(Status.OK, samples=samples, observed=observed)


def run_of(
    trial: Trial,
    outcome: Verdictless,
    answer: AgentAnswer | None,
    *,
    passes: int,
    times: Mapping[str, int],
    output: str,
) -> Run:
    """Tie an outcome to its trial.

    Args:
        trial: which.
        outcome: what it amounts to.
        answer: where the facts are from; None when the target broke.
        passes: how many were asked for.
        times: ``started_unix_ns`` and ``elapsed_ns``.
        output: digest of the raw output.
    """
    return Run(
        trial=trial,
        status=outcome.status,
        reason=outcome.reason,
        samples=outcome.samples,
        observed=outcome.observed,
        facts=answer.facts if answer else (),
        passes=passes,
        check=outcome.check,
        histogram=outcome.histogram,
        series=outcome.series,
        started_unix_ns=times["started_unix_ns"],
        elapsed_ns=times["elapsed_ns"],
        output=output,
        name=answer.name if answer else "",
    )


def raw_output(answer: AgentAnswer) -> bytes:
    """Return all that a trial printed, the observed values and the agent's notes, as one text to keep."""
    notes = "".join(f"{note}\n" for note in answer.notes).encode()
    driver = (("driver stdout", answer.driver_stdout), ("driver stderr", answer.driver_stderr))
    observed = "".join(f"{what} = {value!r}\n" for what, value in answer.observed)
    observed += "".join(f"{what} is absent\n" for what in answer.absent)
    parts = (
        ("stdout", answer.stdout),
        ("stderr", answer.stderr),
        *driver,
        ("observed", observed.encode()),
        ("agent", notes),
    )
    return b"".join(b"--- %s\n%s" % (name.encode(), data) for name, data in parts if data)


def evidence_of(answer: AgentAnswer, program: Program, variant: Variant, inspect: Inspect) -> Evidence:
    """Put together what was seen of a process from outside.

    Args:
        answer: what the agent saw.
        program: what was started.
        variant: whose levels may be paths.
        inspect: reads the files of the objects that were mapped.
    """
    known = {program.path, program.facts.path if program.facts else program.path}
    others = map(inspect, (path for path in answer.objects if path not in known))
    return Evidence(
        interp=answer.interp,
        objects=answer.objects,
        facts=answer.facts,
        program=program.facts,
        libraries=tuple(facts for facts in others if facts is not None),
        preload=program.recipe.preload,
        paths=tuple(level for _, level in variant.levels if "/" in level),
        machine=answer.machine,
        observed=answer.observed,
        absent=answer.absent,
    )


def observed_levels(evidence: Evidence, variant: Variant) -> tuple[tuple[str, str], ...]:
    """Return which level of each factor was in force, ``unknown`` where the evidence doesn't tell."""
    return tuple((name, find_factor(name).observe(evidence) or "unknown") for name, _ in variant.levels)


def wrong_level(observed: tuple[tuple[str, str], ...], variant: Variant) -> str:
    """Say which level that was asked for was not in force; empty when all were."""
    for name, seen in observed:
        asked = variant.level(name)
        if seen == "unknown":
            # What the factor itself knows of why, and of what to do; a factor need not have it.
            hint = getattr(find_factor(name), "unseen", "")
            reason = f"{name}={asked} was asked for, but what was in force could not be observed"
            return f"{reason}. {hint}" if hint else reason
        if seen != asked:
            return f"{name}={asked} was asked for, but {seen} was in force in the process that ran"
    return ""


def trouble_of(answer: AgentAnswer, output_bytes: int = OUTPUT_BYTES, disk_bytes: int = DISK_BYTES) -> str:
    """Say why a program did not end well, with the last thing it said; empty if it did.

    Args:
        answer: how it ended.
        output_bytes: what it was allowed to print.
        disk_bytes: what it was allowed to write.
    """
    reasons = {
        Ended.EXITED: f"it ended with status {answer.code}" if answer.code else "",
        Ended.SIGNALED: f"it was killed by {_signal_name(answer.code)}",
        Ended.TIMEOUT: "it did not end within its time and was stopped",
        Ended.OVERFLOW: f"it printed more than {output_bytes // 1024} KiB and was stopped",
        Ended.DISK: f"it wrote more than {disk_bytes // 1024**2} MiB to disk and was stopped",
        Ended.ORPHANS: f"it left {answer.code} processes running, which were killed",
        Ended.UNSTARTED: f"it could not be started: {os.strerror(answer.code)}",
    }
    reason = reasons.get(answer.how, "")  # the others are a server's: `trouble_of_server`
    said = _last_words(answer)
    return f"{reason}; {said}" if reason and said else reason


def _last_words(answer: AgentAnswer) -> str:
    """Return the last line of what it complained of: its report's error, else standard error, else standard output."""
    for data in (answer.stderr, answer.stdout):
        lines = [
            line for line in data[-LAST_BYTES:].decode(errors="replace").splitlines() if line.strip() and line != "end"
        ]
        if lines:
            return f"its last words: {lines[-1][:200]!r}"
    return "it said nothing"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
