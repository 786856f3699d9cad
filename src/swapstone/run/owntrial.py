"""One trial of a program of the user's own: the commands around it, what the target is asked, and what its answer amounts to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import msgspec

from swapstone.model import Cpus, LoadGenerator, OwnProgram, Status, UserError, Variant
from swapstone.run.program import Program, stamp_of
from swapstone.run.serving import as_server, samples_of_server, trouble_of_server
from swapstone.run.trial import (
    Inspect,
    Verdictless,
    evidence_of,
    observed_levels,
    raw_output,
    trouble_of,
    wrong_level,
)
from swapstone.targets import Target
from swapstone.wire import AgentAnswer, Ended, TrialRequest
from swapstone.workloads import own_samples
from swapstone.workloads.printed_numbers import printed_samples

OUTPUT_BYTES = 16 << 20
"""How much a program of the user's may print: the most that the protocol allows (docs/wire.md)."""

DISK_BYTES = 16 << 30
"""How much it may write: more than most, and less than a program that runs away."""

KEPT_BYTES = 64 << 10
"""How much of each output is kept in the record: half of it from the beginning, half from the end."""

SHELL = "/bin/sh"

_WANTS_TERMINAL = re.compile(
    rb"not a (tty|terminal)|[Ii]nappropriate ioctl for device|ENOTTY|TERM environment variable|[Ee]rror opening terminal"
    rb"|[Uu]nknown terminal|(needs?|requires?) a (tty|terminal)|must be (a|connected to a) (tty|terminal)"
)
_WITHOUT_TERMINAL = (
    "give it a file with --input, use its option for batches, or wrap it: -- script -qec 'PROGRAM ARG' /dev/null"
)
TERMINAL_HINT = f"it seems to want a terminal and finds none: {_WITHOUT_TERMINAL}"
SILENT_HINT = f"if it wants a terminal, it finds none: {_WITHOUT_TERMINAL}"


@dataclasses.dataclass(frozen=True)
class OwnOutcome:
    """What came of a trial.

    Attributes:
        verdict: status, reason and samples.
        answer: what the agent saw of the program; None when it was never started.
        output: what is kept of all that was printed.
    """

    verdict: Verdictless
    answer: AgentAnswer | None
    output: bytes


class OwnTrials:
    """Makes the trials of a program of the user's own.

    Args:
        own: the program.
        target: where it runs.
        cpus: the target's processors; a pinned program runs on the last.
    """

    def __init__(self, own: OwnProgram, target: Target, cpus: Sequence[int]) -> None:
        self._own = own
        self._target = target
        self._cpus = cpus
        self._set_up: set[tuple[tuple[str, str], ...]] = set()

    def make(
        self, identity: str, variant: Variant, program: Program, generator: LoadGenerator | None = None
    ) -> OwnOutcome:
        """Make one trial: set up, if that is still to be done, prepare, run, conclude.

        A command around the program that fails makes the trial fail; the program's own failure is the one that is told.

        Args:
            identity: unique within the session.
            variant: the levels that should be in force.
            program: what is started.
            generator: what sends it requests; None if the program is no server.

        Raises:
            TargetError: the target broke.
        """
        own = self._own
        if own.setup and variant.levels not in self._set_up:
            broken = self._around("setup", own.setup, identity, program)
            if broken is not None:
                return broken
            self._set_up.add(variant.levels)
        broken = self._around("prepare", own.prepare, identity, program)
        if broken is not None:
            return broken
        if changed := _changed(program):
            return OwnOutcome(Verdictless(Status.REFUSED, changed), None, b"")
        request = own_request(identity, own, program, self._cpus)
        if generator is not None:
            environment = program.recipe.environment
            request = as_server(
                request,
                generator,
                driver=program.load_generator,
                cpus=self._cpus,
                pinned=own.cpus,
                environment=environment,
            )
        answer = self._target.run(request)
        output = raw_output(_shortened(answer))
        verdict = judge_own(answer, own, variant, program, self._target.inspect, generator=generator)
        broken = self._around("conclude", own.conclude, identity, program)
        if broken is not None and verdict.status is Status.OK:
            return OwnOutcome(broken.verdict, answer, output + broken.output)
        return OwnOutcome(verdict, answer, output)

    def _around(self, name: str, command: str, identity: str, program: Program) -> OwnOutcome | None:
        """Run one of the commands around the program; return what came of it only when that is a failure."""
        if not command:
            return None
        request = own_request(f"{identity}-{name}", self._own, program, ())
        request = msgspec.structs.replace(
            request,
            arguments=(SHELL, "-c", command),
            environment=program.recipe.environment,  # what is preloaded into the program is not for its helpers
            nice=None,
            stdin="",
            stdout="",
        )
        answer = self._target.run(request)
        trouble = trouble_of(answer, OUTPUT_BYTES, DISK_BYTES)
        if not trouble:
            return None
        reason = f"its --{name} command failed: {trouble}"
        return OwnOutcome(Verdictless(Status.FAILED, reason), None, raw_output(_shortened(answer)))


def own_request(identity: str, own: OwnProgram, program: Program, cpus: Sequence[int]) -> TrialRequest:
    """Build what the target is asked for one run of the program.

    Args:
        identity: unique within the session.
        own: gives arguments, files, time-out and pinning.
        program: path, environment, priority and folder.
        cpus: the target's processors.
    """
    arguments = own.arguments if own.programs else own.arguments[1:]
    return TrialRequest(
        id=identity,
        arguments=(program.path, *arguments),
        environment=(*program.recipe.environment, *program.added),
        cwd=program.folder,
        cpus=(max(cpus),) if own.cpus is Cpus.ONE and cpus else (),
        nice=program.recipe.nice,
        timeout_ms=own.timeout_ms,
        output_bytes=OUTPUT_BYTES,
        disk_bytes=DISK_BYTES,
        stdin=own.stdin,
        stdout=own.output,
        observe=program.recipe.observe,
    )


def judge_own(
    answer: AgentAnswer,
    own: OwnProgram,
    variant: Variant,
    program: Program,
    inspect: Inspect,
    *,
    generator: LoadGenerator | None = None,
) -> Verdictless:
    """Decide what the answer to a run of the program amounts to.

    Returns:
        Failed, when it did not end well or didn't print its numbers; refused, when another level was in force or its file was changed
        meanwhile; else ok with its samples.
    """
    trouble = trouble_of(answer, OUTPUT_BYTES, DISK_BYTES)
    if generator is not None:
        trouble = trouble_of_server(answer) or trouble
    if trouble and not (own.ignore_failure and generator is None and answer.how is Ended.EXITED):
        return Verdictless(Status.FAILED, trouble + _advice(answer))
    if changed := _changed(program):
        return Verdictless(Status.REFUSED, changed)
    evidence = evidence_of(answer, program, variant, inspect)
    if program.facts is None and answer.objects:  # a script: what it executed in its place, or else its interpreter
        evidence = msgspec.structs.replace(evidence, program=inspect(answer.objects[0]))
    if own.programs:
        named = tuple((level, path) for level, path in own.programs)
        evidence = msgspec.structs.replace(evidence, started=program.path, named=named)
    observed = observed_levels(evidence, variant)
    wrong = wrong_level(observed, variant)
    if wrong:
        return Verdictless(Status.REFUSED, wrong + _how_built(own, program), observed=observed)
    try:
        samples = (
            own_samples(own, dict(answer.facts), answer.code, answer.stdout, answer.stderr)
            if generator is None
            else (
                *samples_of_server(generator, answer),
                *printed_samples(own, answer.driver_stdout, answer.driver_stderr),
            )
        )
    except UserError as error:
        return Verdictless(Status.FAILED, "; ".join(filter(None, (error.message, error.hint))), observed=observed)
    return Verdictless(Status.OK, samples=samples, observed=observed)


def first_lines(output: bytes, most: int = 12) -> str:
    """Return the first lines of what a trial printed, for an error message."""
    lines = output.decode(errors="replace").splitlines()
    more = len(lines) - most
    shown = [*lines[:most], *([f"... and {more} more lines, kept in the record"] if more > 0 else [])]
    return "\n".join(line[:200] for line in shown) or "(it printed nothing)"


def _changed(program: Program) -> str:
    """Say that a program's file is not what it was when its digest was taken; empty when it is."""
    now = stamp_of(program.path)
    if now == program.stamp:
        return ""
    return f"its file {program.path} {'is gone' if now is None else 'was changed'} since the comparison began"


def _advice(answer: AgentAnswer) -> str:
    """Say what to try after a failure, where that is known."""
    if answer.how is Ended.OVERFLOW:
        return "; send its output away with --output null, or to a file with --output FILE"
    if answer.how is Ended.TIMEOUT:
        return "; --timeout gives it more"
    if answer.how is Ended.ORPHANS:
        return "; it must end with all that it started: keep it in the foreground"
    if answer.how is Ended.EXITED and _WANTS_TERMINAL.search(answer.stderr + answer.stdout):
        return f"; {TERMINAL_HINT}"
    # Some programs, top for one, end without a word where they have no terminal.
    return f"; {SILENT_HINT}" if answer.how is Ended.EXITED and not answer.stderr + answer.stdout else ""


def _how_built(own: OwnProgram, program: Program) -> str:
    """Say what a program's file tells of its making: what to look at when another level was in force than was asked for."""
    if not own.build:
        return ""
    facts = program.facts
    made_by = ", ".join(facts.comments) if facts and facts.comments else "a compiler that left no name"
    loader = (facts.interp or "none") if facts else "none: it is a script"
    return (
        f"; does the build ignore {{cc}}, {{cflags}} or {{ldflags}}, or find what an earlier build left? {{cc}} was "
        f"{' '.join(program.recipe.command)!r}; the program says it was built by {made_by}, its loader is {loader}"
    )


def _shortened(answer: AgentAnswer) -> AgentAnswer:
    """Leave the middle of long outputs out: there may be thousands of trials."""

    def short(data: bytes) -> bytes:
        half = KEPT_BYTES // 2
        if len(data) <= KEPT_BYTES:
            return data
        return b"%s\n[%d bytes left out]\n%s" % (data[:half], len(data) - KEPT_BYTES, data[-half:])

    return msgspec.structs.replace(
        answer,
        stdout=short(answer.stdout),
        stderr=short(answer.stderr),
        driver_stdout=short(answer.driver_stdout),
        driver_stderr=short(answer.driver_stderr),
    )
