# SPDX-License-Identifier: MIT OR Apache-2.0
"""How a trial ended, in words, and the bytes of it that a record keeps."""

from __future__ import annotations

import errno
import os
import re
import signal

import msgspec

from swapstone.core.model import KILLED, TIMED_OUT, WireError
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.wire.text import Place

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
    reasons = {
        ProcessOutcome.EXITED: f"it ended with status {answer.code}" if answer.code else "",
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


def first_lines(output: bytes, most: int = 12) -> str:
    """Return the first lines of what a trial printed, for an error message."""
    lines = output.decode(errors="replace").splitlines()
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
