# SPDX-License-Identifier: MIT OR Apache-2.0
"""Findings on load generators and instruments, on machines that lack them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.targets.health import Finding, State
from swapstone.parts.explain.instruments.requirements import MissingRequirement, missing_kernel_names
from swapstone.parts.explain.session.explain_findings import instrument_findings
from swapstone.parts.own.session.server_findings import load_generator_findings

LOCKED = MissingRequirement(
    "the kernel refuses perf events (kernel.perf_event_paranoid=4)", "sudo sysctl kernel.perf_event_paranoid=1"
)
GONE = MissingRequirement("the command 'x' is not installed", "sudo apt-get install x")


def here() -> None:
    """Stand for what is there."""


def findings(**absent: MissingRequirement) -> dict[str, Finding]:
    probes = dict.fromkeys(("perf", "user", "names", "tracepoints", "strace", "valgrind"), here)
    found = instrument_findings(**{**probes, **{name: lambda one=one: one for name, one in absent.items()}})  # type: ignore[misc]
    return {finding.name.removeprefix("explain "): finding for finding in found}


def test_where_all_is_there_nothing_is_missing() -> None:
    found = findings()
    assert list(found) == ["on-cpu", "off-cpu", "kernel's names", "syscalls", "instructions"]
    assert {finding.state for finding in found.values()} == {State.GOOD}


def test_a_locked_kernel_takes_profiles_away_and_says_what_would_allow_them() -> None:
    found = findings(perf=LOCKED, user=LOCKED, tracepoints=LOCKED)
    assert {name for name, finding in found.items() if finding.state is State.MISSING} == {"on-cpu"}
    assert found["on-cpu"].meaning == f"explain has no profile of processor time and names no function: {LOCKED.reason}"
    assert found["off-cpu"].remedy == LOCKED.remedy
    assert (found["syscalls"].state, found["syscalls"].found) == (State.NOISY, "strace")
    sampled = f"threads are sampled in /proc, by system call and without callers: {LOCKED.reason}"
    assert (found["off-cpu"].state, found["off-cpu"].meaning) == (State.NOISY, sampled)


def test_an_ordinary_user_has_profiles_of_user_code() -> None:
    found = findings(perf=LOCKED)["on-cpu"]
    assert (found.state, found.found) == (State.NOISY, "user code")
    assert found.meaning == f"time in the kernel has no functions: {LOCKED.reason}"


def test_without_tracepoints_and_strace_no_calls_are_counted() -> None:
    found = findings(tracepoints=LOCKED, strace=GONE, valgrind=GONE)
    assert found["syscalls"].meaning == f"explain counts no system calls: {LOCKED.reason}; {GONE.reason}"
    assert (found["instructions"].state, found["instructions"].remedy) == (State.MISSING, "sudo apt-get install x")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("0000000000000000 A a\n0000000000000000 T b\n", True),
        ("0000000000000000 A a\nffffffff81000000 T b\n", False),
        ("", True),
        ("what\n", True),
    ],
)
def test_hidden_addresses_are_noticed(tmp_path: Path, text: str, hidden: bool) -> None:
    (tmp_path / "kallsyms").write_text(text)
    barrier = missing_kernel_names(tmp_path / "kallsyms")
    assert (barrier is not None) is hidden
    if barrier:
        assert "kernel.kptr_restrict=0" in barrier.remedy


def test_drivers_are_named_with_version_or_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrk = tmp_path / "wrk"
    wrk.write_text("#!/bin/sh\necho 'wrk 4.1.0 [epoll] Copyright (C) 2012 Will Glozer'\nexit 1\n")
    wrk.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = load_generator_findings()
    assert [(one.name, one.state, one.found) for one in found] == [
        ("load generator wrk", State.GOOD, "wrk 4.1.0 [epoll]"),
        ("load generator ab", State.MISSING, "missing"),
    ]
    assert found[1].remedy == "sudo apt-get install apache2-utils"
