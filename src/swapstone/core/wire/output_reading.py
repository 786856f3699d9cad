# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read the answers to the trials of a workload: whether it ended well, and its samples. Nothing is run, and no file is read.

`samples_of` makes samples of the report of a workload with the harness.
"""

from __future__ import annotations

import abc
import errno
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence

import msgspec

from swapstone.core.factors import PRIORITY_SEEN, level_of_stat
from swapstone.core.model import (
    KILLED,
    TIMED_OUT,
    LoadGenerator,
    OwnProgram,
    PartOrigin,
    Sample,
    Source,
    UserSupplied,
    WireError,
    Workload,
    refuse,
)
from swapstone.core.model.parts import load
from swapstone.core.wire import AgentAnswer, ProcessOutcome, WorkloadReport, decode_workload_report
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.core.wire.protocol_text import Place
from swapstone.core.workloads import own_samples
from swapstone.core.workloads.metrics import BANDWIDTH, COMPUTING, FROM_AGENT
from swapstone.core.workloads.named_figures import NamedFigures as PrintedFigures
from swapstone.core.workloads.named_figures import decode_named_figures
from swapstone.core.workloads.printed_numbers import printed_samples
from swapstone.core.workloads.server_metrics import check_whole, server_samples

_BYTES_PER_NS_IN_MB_PER_S = 1000.0


def samples_of(report: WorkloadReport, answer_facts: Mapping[str, int], operation_bytes: int = 0) -> tuple[Sample, ...]:
    """Return the samples of one run.

    Wall and CPU time are divided by the operations of a pass. Run delay, faults and context switches count a whole
    pass. Memory and peak resident size are one value each.

    Args:
        report: decoded, without an error, with at least one pass.
        answer_facts: the agent's facts by name; those of no metric are ignored.
        operation_bytes: bytes that one operation moves; 0 if it has no bandwidth.

    Returns:
        One sample per metric, in the order of `metrics.COMPUTING`, then the bandwidth. A metric that was not measured is left out: memory
        without a `memory` line, the run delay if a pass has none, the peak without the agent's fact.
    """
    passes = report.passes
    values: dict[str, Sequence[float]] = {
        "wall": [one.wall_ns / report.ops for one in passes],
        "cpu": [one.cpu_ns / report.ops for one in passes],
        **{name: [getattr(one, name) for one in passes] for name in ("minflt", "majflt", "nvcsw", "nivcsw")},
        **{
            entry.metric.name: [answer_facts[entry.fact] * entry.scale]
            for entry in FROM_AGENT
            if entry.fact in answer_facts
        },
    }
    delays = [one.run_delay_ns for one in passes if one.run_delay_ns is not None]
    if len(delays) == len(passes):
        values["run_delay"] = delays
    if (memory := report.memory) is not None:
        values |= {"virt": [memory.virt_bytes], "res": [memory.res_bytes], "dirty": [memory.dirty_bytes]}
    if operation_bytes:
        moved = operation_bytes * report.ops * _BYTES_PER_NS_IN_MB_PER_S
        values["bandwidth"] = [moved / one.wall_ns for one in passes]
    found = ((metric.name, values.get(metric.name)) for metric in (*COMPUTING, BANDWIDTH))
    return tuple(Sample(metric=name, values=tuple(map(float, each))) for name, each in found if each is not None)


OUTPUT_BYTES = 64 * 1024
DISK_BYTES = 1024 * 1024 * 1024
_OOM_KILL = re.compile(r"^oom_kill ([0-9]{1,19})$", re.MULTILINE)
_NOT_STARTED = "could not "
"""Start of the agent's note on the step of a start that failed (`native/agent/start.c`)."""

_FILES_REMEDY = " (raise the limit of open files: `ulimit -n 4096`)"
_TOO_MANY_FILES = ("Too many open files", "No file descriptors available")
"""Of the error EMFILE, by glibc and by musl."""

_EXECUTION, _NICE = "execute it", "set its nice value"
LAST_BYTES = 4096
"""Size of the end of an output that is searched for its last line."""


def shortened(answer: AgentAnswer, most_bytes: int) -> AgentAnswer:
    """Return an answer whose outputs are at most so long: half from the beginning, half from the end."""

    def short(data: bytes) -> bytes:
        half = most_bytes // 2
        if len(data) <= most_bytes:
            return data
        return b"%s\n[%d bytes left out]\n%s" % (data[:half], len(data) - most_bytes, data[-half:])

    return msgspec.structs.replace(
        answer,
        stdout=short(answer.stdout),
        stderr=short(answer.stderr),
        driver_stdout=short(answer.driver_stdout),
        driver_stderr=short(answer.driver_stderr),
    )


def trouble_of(answer: AgentAnswer, output_bytes: int = OUTPUT_BYTES, disk_bytes: int = DISK_BYTES) -> str:
    """Return why a program did not end well, with the last line that it printed; empty if it did.

    Args:
        answer: how it ended.
        output_bytes: the limit of its output.
        disk_bytes: the limit of what it writes to disk.
    """
    if answer.outcome is ProcessOutcome.EXITED and not answer.code:
        return ""
    reasons = {
        ProcessOutcome.EXITED: f"it ended with status {answer.code}",
        ProcessOutcome.SIGNALED: f"{KILLED} {_signal_name(answer.code)}",
        ProcessOutcome.TIMEOUT: f"{TIMED_OUT} and was stopped",
        ProcessOutcome.OVERFLOW: f"it printed more than {output_bytes // 1024} KiB and was stopped",
        ProcessOutcome.DISK: f"it wrote more than {disk_bytes // 1024**2} MiB to disk and was stopped",
        ProcessOutcome.ORPHANS: f"it left {answer.code} processes running, which were killed",
        ProcessOutcome.UNSTARTED: f"it could not be started: {os.strerror(answer.code)}{_step(answer)}"
        f"{_old_kernel(answer.code)}{_FILES_REMEDY if answer.code == errno.EMFILE else ''}",
    }
    reason = reasons.get(answer.outcome, "")  # the others are a server's: `server_trouble`
    return f"{reason}{_out_of_memory(answer)}; {last_line(answer.stderr, answer.stdout)}" if reason else reason


def interruption(facts: Mapping[str, int]) -> str:
    """Return a sentence if a trial did not run without interruption; empty if it did, or if that is unknown.

    Args:
        facts: of its run.
    """
    if stops := facts.get("stops", 0):
        times = "once" if stops == 1 else f"{stops} times"
        return f"the measurement was interrupted: the program or the agent was stopped by a signal (SIGSTOP or SIGTSTP) {times}"
    if suspended_ns := facts.get("suspended_ns", 0):
        return f"the measurement was interrupted: the machine was suspended for {suspended_ns / 1e9:.3g} s"
    return ""


def _step(answer: AgentAnswer) -> str:
    """Return what to add to an error number of a start: the step that failed, if it was not the execution."""
    steps = [note.removeprefix(_NOT_STARTED) for note in answer.notes if note.startswith(_NOT_STARTED)]
    if not steps or steps[0] == _EXECUTION:
        return ""
    refused = steps[0] == _NICE and answer.code in {errno.EACCES, errno.EPERM}
    remedy = "; only root may lower it: start swapstone without nice" if refused else ""
    return f" (the agent could not {steps[0]}{remedy})"


def _old_kernel(number: int) -> str:
    """Return what to add to an error number of a start: that the kernel lacks a system call, if that is the reason."""
    return (
        " (the kernel, or a seccomp filter, lacks a system call that the agent needs)" if number == errno.ENOSYS else ""
    )


def _out_of_memory(answer: AgentAnswer) -> str:
    """Return a clause if the kernel of a virtual machine killed a program for memory meanwhile (``oom_kill`` of /proc/vmstat)."""
    machine = dict(answer.machine)
    before, after = (_OOM_KILL.search(machine.get(f"{when} /proc/vmstat", "")) for when in ("before", "after"))
    if before is None or after is None or int(before[1]) >= int(after[1]):
        return ""
    return ", and the machine's kernel killed a program because its memory was used up (--memory gives it more)"


def last_line(*outputs: bytes) -> str:
    """Return the last line of the first output that has one, in words; of a workload's report the error that it states."""
    for data in outputs:
        lines = [
            line for line in data[-LAST_BYTES:].decode(errors="replace").splitlines() if line.strip() and line != "end"
        ]
        if lines:
            return _stated_error(lines[-1]) or f"its last line: {lines[-1][:200]!r}"
    return "it printed nothing"


def _stated_error(line: str) -> str:
    """Return the decoded text of a report's line ``error``; empty for another line, and for a text that is not encoded."""
    keyword, _, token = line.partition(" ")
    if keyword != "error" or "%" not in token:
        return ""
    try:
        text = Place("its report").decode_text(token.encode())[:200]
    except WireError:
        return ""
    return f"its error: {text!r}{_FILES_REMEDY if text.endswith(_TOO_MANY_FILES) else ''}"


_MEMORY = rb"^proc smaps_rollup = .*\n?"
_RESIDENT = re.compile(rb"^--- observed\n%s(?=--- agent\n|\Z)|%s" % (_MEMORY.lstrip(b"^"), _MEMORY), re.MULTILINE)


def first_lines(output: bytes, most: int = 12) -> str:
    """Return the first lines of what a trial printed, for an error message, without the memory that was observed."""
    lines = _RESIDENT.sub(b"", output).decode(errors="replace").splitlines()
    more = len(lines) - most
    shown = [*lines[:most], *([f"... and {more} more lines, kept in the record"] if more > 0 else [])]
    return "\n".join(line[:200] for line in shown) or "(it printed nothing)"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def server_trouble(answer: AgentAnswer) -> str:
    """Return what was wrong with a run that can only be wrong with a server's; empty if nothing was."""
    if answer.outcome is ProcessOutcome.UNREADY:
        return f"the server accepted no connection on its port in time; {last_line(answer.stderr, answer.stdout)}"
    if answer.outcome is ProcessOutcome.UNDRIVEN:
        return _generator_trouble(answer)
    if answer.outcome in {ProcessOutcome.EXITED, ProcessOutcome.SIGNALED, ProcessOutcome.ORPHANS}:
        notes = (note for note in answer.notes if note.startswith("the server ended "))
        end = f"signal {answer.code}" if answer.outcome is ProcessOutcome.SIGNALED else f"status {answer.code}"
        why = next(notes, "the server ended by itself")
        return f"{why}, with {end}; {last_line(answer.stderr, answer.stdout)}"
    return ""


def _generator_trouble(answer: AgentAnswer) -> str:
    prefix = "the load generator: "  # as the agent writes it
    note = next((note for note in answer.notes if note.startswith(prefix)), f"{prefix}it failed")
    hint = "; is it installed?" if note.endswith("could not execute it") else ""
    return f"{note}{hint}; {last_line(answer.driver_stderr, answer.driver_stdout)}"


MOST_TOOL_BYTES = 4 << 20
"""Limit of the output of programs that measure how late a thread wakes (swapstone.parts.vm.suites.latency.REAL_BINS)."""

OWN_OUTPUT_BYTES = 16 << 20
"""How much a user's own program may print: the most that the protocol allows (docs/wire.md)."""

OWN_DISK_BYTES = 16 << 30
"""How much it may write to disk: enough for most programs, and a limit for one that never stops."""

_NS_PER_US = 1000.0
_MOST_STAT_BYTES = 1 << 16
_STAT = re.compile(r"^[0-9]+ \(.*\) .*$", re.MULTILINE)


class Measured(msgspec.Struct, frozen=True):
    """What the output of a trial holds.

    Attributes:
        samples: of the workload's metrics.
        check: checksum of the work; empty if there is none.
        histogram: as `Run.histogram`.
        by_processor: as `Run.by_processor`.
        series: as `Run.series`.
        mapped, malloc, seen: what the program reports of the measured process, as in `Evidence`.
    """

    samples: tuple[Sample, ...] = ()
    check: str = ""
    histogram: tuple[tuple[int, int], ...] = ()
    by_processor: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    series: tuple[Sample, ...] = ()
    mapped: tuple[str, ...] = ()
    malloc: str = ""
    seen: tuple[tuple[str, str], ...] = ()


class OutputReader(abc.ABC):
    """Reads the answers to the trials of one workload.

    Args:
        workload: of the trials.

    Attributes:
        output_bytes, disk_bytes: how much a trial may print and write.
    """

    output_bytes: int = OUTPUT_BYTES
    disk_bytes: int = DISK_BYTES

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @abc.abstractmethod
    def read(self, answer: AgentAnswer) -> Measured:
        """Read the output of a trial that ended well.

        Raises:
            UserError: the output is cut off or of another format; the message states why the run fails.
        """

    def failure(self, answer: AgentAnswer) -> str:
        """Return why a program did not end well, or an empty text."""
        return trouble_of(answer, self.output_bytes, self.disk_bytes)

    def trouble(self, answer: AgentAnswer, advice: Callable[[AgentAnswer], str] = lambda _: "") -> str:
        """Return why a trial was interrupted or did not end well, or an empty text.

        Args:
            answer: of the trial.
            advice: returns what the user can try after a failure, to be added to it.
        """
        if reason := interruption(dict(answer.facts)):
            return reason
        return reason + advice(answer) if (reason := self.failure(answer)) else ""

    def printed(self, _stdout: bytes, _stderr: bytes) -> tuple[Sample, ...]:
        """Return the samples of numbers that the user defined by a pattern.

        Raises:
            UserError: a pattern does not match exactly once.
        """
        return ()


def reader_of(workload: Workload) -> OutputReader:
    """Return the reader of a workload: its origin decides the class, and its load generator whether it is a server."""
    reader = _of_origin(workload)
    return _Server(reader, workload.load_generator) if workload.load_generator else reader


def _of_origin(workload: Workload) -> OutputReader:
    match workload.origin:
        case Source(reader="", harness=True):
            return _Report(workload)
        case Source(reader="", file=file):
            return NamedFigures(workload, file.partition(".")[0])
        case Source():
            return Cyclictest(workload, MOST_TOOL_BYTES)
        case UserSupplied(program=own):
            return _Own(workload, own)
        case PartOrigin(part=part, reader=place):
            of_part: OutputReader = load(part, place, type)(workload)
            return of_part


class _Report(OutputReader):
    """Of a program with the harness: the report that it prints (docs/wire.md, section 3)."""

    def read(self, answer: AgentAnswer) -> Measured:
        try:
            report = decode_workload_report(answer.stdout)
        except WireError as error:
            raise WireError(f"its report is unreadable: {error.message}") from error
        other_name = f"the program reports as {report.name!r}, not as {self.workload.name!r}"
        refuse(
            (report.name != self.workload.name, other_name, ""),
            (report.error, f"it reports an error: {report.error}", ""),
            kind=WireError,
        )
        declared = {metric.name for metric in self.workload.metrics}
        every = samples_of(report, dict(answer.facts), self.workload.operation_bytes)
        samples = tuple(sample for sample in every if sample.metric in declared)
        return Measured(samples, check=report.check, mapped=report.mapped, malloc=report.malloc)


class NamedFigures(OutputReader):
    """Of a program that prints named figures and series (docs/wire.md, section 4): the workload's metrics, no more and no fewer.

    Args:
        workload: of the trials.
        program: the name under which it prints them; empty for the workload's, with ``_`` for ``-``.
    """

    def __init__(self, workload: Workload, program: str = "") -> None:
        super().__init__(workload)
        self._program = program or workload.name.replace("-", "_")

    def read(self, answer: AgentAnswer) -> Measured:
        """Return the figures that were measured, in the order of the workload's metrics."""
        try:
            printed = decode_named_figures(answer.stdout)
            values = self._checked(printed)
        except WireError as error:
            raise WireError(f"its output is unreadable: {error.message}") from error
        measured = ((metric.name, values[metric.name]) for metric in self.workload.metrics)
        return Measured(
            tuple(Sample(metric=name, values=(value,)) for name, value in measured if value is not None),
            series=tuple(Sample(metric=name, values=values) for name, values in printed.series),
            seen=printed.seen,
        )

    def _checked(self, printed: PrintedFigures) -> dict[str, float | None]:
        """Return the figures by name."""
        values, metrics = dict(printed.figures), {metric.name for metric in self.workload.metrics}
        missing, unknown = (min(each, default="") for each in (metrics - values.keys(), values.keys() - metrics))
        other_program = f"The output is of the program {printed.name!r}, not of {self._program!r}."
        refuse(
            (printed.name != self._program, other_program, ""),
            (missing, f"The program does not print the metric {missing} of {self.workload.name}.", ""),
            (unknown, f"The program prints {unknown}, which is no metric of {self.workload.name}.", ""),
            kind=WireError,
        )
        return values


class Cyclictest(OutputReader):
    """Of a program that prints what cyclictest writes as JSON. The metrics are in nanoseconds.

    Args:
        workload: of the trials.
        output_bytes: how much a trial may print.
    """

    def __init__(self, workload: Workload, output_bytes: int = OUTPUT_BYTES) -> None:
        super().__init__(workload)
        self.output_bytes = output_bytes

    def read(self, answer: AgentAnswer) -> Measured:
        """Return the latencies, and the priorities that the program's threads had."""
        try:
            found = decode_cyclictest(answer.stdout)
        except WireError as error:
            raise WireError(f"its output is unreadable: {error.message}") from error
        values = dict(found.values)
        return Measured(
            tuple(Sample(metric=one.name, values=(values[one.name] * _NS_PER_US,)) for one in self.workload.metrics),
            histogram=found.histogram,
            by_processor=found.by_processor,
            seen=_threads_seen(answer.stderr),
        )


def _threads_seen(printed: bytes) -> tuple[tuple[str, str], ...]:
    """Return the policy and priority of the measuring threads, from lines of /proc/PID/task/TID/stat: those of all but the first thread.

    Returns:
        One pair for `swapstone.core.factors.Evidence.seen`; its text is no level if the threads differ. Empty without such lines.
    """
    stats = _STAT.findall(printed[:_MOST_STAT_BYTES].decode(errors="replace"))
    levels = {level_of_stat(line) or "unknown" for line in stats[1:]}
    if not levels:
        return ()
    return ((PRIORITY_SEEN, levels.pop() if len(levels) == 1 else "several"),)


class _Own(OutputReader):
    """Of a user's own program: what the agent measured around it, and the numbers that it printed."""

    output_bytes = OWN_OUTPUT_BYTES
    disk_bytes = OWN_DISK_BYTES

    def __init__(self, workload: Workload, own: OwnProgram) -> None:
        super().__init__(workload)
        self._own = own

    def failure(self, answer: AgentAnswer) -> str:
        """Return why a run does not count; ``--ignore-failure`` accepts any exit status."""
        ignored = self._own.ignore_failure and answer.outcome is ProcessOutcome.EXITED
        return "" if ignored else super().failure(answer)

    def printed(self, stdout: bytes, stderr: bytes) -> tuple[Sample, ...]:
        return printed_samples(self._own, stdout, stderr)

    def read(self, answer: AgentAnswer) -> Measured:
        return Measured(own_samples(self._own, dict(answer.facts), answer.code, answer.stdout, answer.stderr))


class _Server(OutputReader):
    """Of a server: the output of its load generator, and what the server used meanwhile."""

    def __init__(self, inner: OutputReader, generator: LoadGenerator) -> None:
        super().__init__(inner.workload)
        self.output_bytes, self.disk_bytes = inner.output_bytes, inner.disk_bytes
        self._inner, self._generator = inner, generator

    def failure(self, answer: AgentAnswer) -> str:
        """Return why the server or its load generator failed."""
        return server_trouble(answer) or super().failure(answer)

    def read(self, answer: AgentAnswer) -> Measured:
        samples = server_samples(self._generator, self.workload.metrics, dict(answer.facts), answer.driver_stdout)
        check_whole(samples)
        return Measured((*samples, *self._inner.printed(answer.driver_stdout, answer.driver_stderr)))
