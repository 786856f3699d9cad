# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether the instruments of `swapstone explain` work on this machine."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from swapstone.core.targets.health import Finding, MachineFindings, State, ability
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.requirements import MissingRequirement

Probe = Callable[[], MissingRequirement | None]


WITHOUT = {
    "on-cpu": "explain has no profile of processor time and names no function",
    "instructions": "explain counts no instructions",
}
"""The effect of a missing instrument."""


def instrument_findings(
    *,
    perf: Probe = requirements.missing_perf,
    user: Probe = requirements.missing_user_samples,
    names: Probe = requirements.missing_kernel_names,
    tracepoints: Probe = requirements.missing_tracepoints,
    strace: Probe = lambda: requirements.missing_tool("strace", "strace"),
    valgrind: Probe = lambda: requirements.missing_tool("valgrind", "valgrind"),
) -> list[Finding]:
    """Return for each instrument of `swapstone explain` whether it works on this machine, or what would enable it.

    Args:
        perf: whether perf takes stacks.
        user: whether perf takes stacks of user code alone.
        names: whether stacks show the names of kernel functions.
        tracepoints: whether perf counts system calls.
        strace: whether strace is installed.
        valgrind: whether callgrind is installed.
    """
    traced, stopped = tracepoints(), strace()
    calls = ability(
        "explain syscalls",
        traced and (f"{traced.reason}; {stopped.reason}" if stopped else traced.reason, traced.remedy),
        lambda: "counted by tracepoints",
        "explain counts no system calls: {}",
    )
    if traced and stopped is None:
        calls = _reduced(
            calls, "strace", f"counted by strace, which stops threads at each call, and not of servers: {traced.reason}"
        )
    profiles = f"{requirements.version_of('perf')}; needs no tracepoints, no hardware counters, no bpftrace"
    counted = f"{requirements.version_of('valgrind')}, callgrind; not for servers"
    refused = perf()
    running, waiting = _finding("on-cpu", refused, profiles), _finding("off-cpu", refused, profiles)
    if refused:
        waiting = _reduced(
            waiting, "/proc", f"threads are sampled in /proc, by system call and without callers: {refused.reason}"
        )
        if user() is None:
            running = _reduced(running, "user code", f"time in the kernel has no functions: {refused.reason}")
    return [
        running,
        waiting,
        _finding("kernel's names", names(), "shown in stacks"),
        calls,
        _finding("instructions", valgrind(), counted),
    ]


def _reduced(finding: Finding, found: str, meaning: str) -> Finding:
    """Return the finding on an instrument that observes less than it could."""
    return msgspec.structs.replace(finding, state=State.NOISY, found=found, meaning=meaning)


def _finding(instrument: str, missing: MissingRequirement | None, found: str) -> Finding:
    meaning = f"{WITHOUT[instrument]}: {{}}" if instrument in WITHOUT else "{}"
    return ability(f"explain {instrument}", missing, lambda: found, meaning)


FINDINGS = MachineFindings(40, instrument_findings)
