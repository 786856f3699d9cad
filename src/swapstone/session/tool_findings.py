# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether load generators and the instruments of `swapstone explain` work on this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator

from swapstone.artifacts import install_command
from swapstone.instruments import requirements
from swapstone.instruments.requirements import MissingRequirement
from swapstone.targets.health import Finding, State
from swapstone.workloads.load_generators import LOAD_GENERATORS

_VERSIONS = {"wrk": "-v", "ab": "-V"}
"""The load generators that must be installed, and the option with which each prints its version."""


def load_generator_findings() -> list[Finding]:
    """Return for each load generator whether it is installed, with its version."""
    return [_load_generator(name) for name in _VERSIONS]


def _load_generator(name: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(
            name=f"load generator {name}",
            state=State.MISSING,
            found="missing",
            meaning=f"{name} can't send requests to servers",
            remedy=install_command(LOAD_GENERATORS[name].package),
        )
    printed = subprocess.run(
        [name, _VERSIONS[name]], capture_output=True, text=True, errors="replace", timeout=30, check=False
    )
    line = (printed.stdout + printed.stderr).strip().partition("\n")[0]  # wrk prints it and exits with status 1
    return Finding(
        name=f"load generator {name}", state=State.GOOD, found=line.partition(" Copyright")[0] or "it prints no version"
    )


Probe = Callable[[], MissingRequirement | None]


def _strace() -> MissingRequirement | None:
    return requirements.missing_tool("strace", "strace")


def _valgrind() -> MissingRequirement | None:
    return requirements.missing_tool("valgrind", "valgrind")


WITHOUT = {
    "on-cpu": "explain has no profile of processor time and no ledger",
    "off-cpu": "explain can't name what threads waited for",
    "allocations": "explain counts no allocations and no copies",
    "instructions": "explain counts no instructions",
}
"""The effect of a missing instrument."""


def instrument_findings(
    *,
    perf: Probe = requirements.missing_perf,
    names: Probe = requirements.missing_kernel_names,
    tracepoints: Probe = requirements.missing_tracepoints,
    strace: Probe = _strace,
    probes: Probe = requirements.missing_uprobes,
    valgrind: Probe = _valgrind,
) -> Iterator[Finding]:
    """Return for each instrument of `swapstone explain` whether it works on this machine, or what would enable it.

    Args:
        perf: whether perf takes stacks.
        names: whether stacks show the names of kernel functions.
        tracepoints: whether perf counts system calls.
        strace: whether strace is installed.
        probes: whether calls of malloc can be counted.
        valgrind: whether callgrind is installed.
    """
    refused = perf()
    for instrument in ("on-cpu", "off-cpu"):
        yield _finding(
            instrument,
            refused,
            f"{requirements.version_of('perf')}; needs no tracepoints, no hardware counters, no bpftrace",
        )
    hidden = names()
    if hidden is not None:
        yield _finding("kernel's names", hidden, "", meaning=hidden.reason)
    else:
        yield _finding("kernel's names", None, "shown in stacks")
    traced, stopped = tracepoints(), strace()
    if traced is None:
        yield _finding("syscalls", None, "counted by tracepoints")
    elif stopped is None:
        yield Finding(
            name="explain syscalls",
            state=State.NOISY,
            found="strace",
            meaning=f"counted by strace, which stops threads at each call, and not of servers: {traced.reason}",
            remedy=traced.remedy,
        )
    else:
        yield _finding(
            "syscalls", traced, "", meaning=f"explain counts no system calls: {traced.reason}; {stopped.reason}"
        )
    yield _finding("allocations", probes(), "counted by probes on malloc and memcpy")
    yield _finding("instructions", valgrind(), f"{requirements.version_of('valgrind')}, callgrind; not for servers")


def _finding(instrument: str, missing: MissingRequirement | None, found: str, meaning: str = "") -> Finding:
    name = f"explain {instrument}"
    if missing is None:
        return Finding(name=name, state=State.GOOD, found=found)
    text = meaning or f"{WITHOUT[instrument]}: {missing.reason}"
    return Finding(name=name, state=State.MISSING, found="unavailable", meaning=text, remedy=missing.remedy)
