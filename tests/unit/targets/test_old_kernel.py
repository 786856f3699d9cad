# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels without a system call that the agent needs: a seccomp filter answers ENOSYS. Each case is an error that names the reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from swapstone.core.model.directories import cache_dir
from swapstone.core.targets import AgentStartError
from swapstone.core.targets.agent_build import build_agent
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.core.wire.output_reading import trouble_of

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86_64"
)

NUMBERS = {"signalfd4": 289, "prctl": 157, "close_range": 436, "prlimit64": 302, "pipe2": 293, "ptrace": 101}

FILTER = """#!{python} -S
import ctypes, os, struct, sys
errno, allow = 0x00050000 | 38, 0x7FFF0000
code = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, errno), (0x06, 0, 0, allow)]
content = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(content)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv({agent!r}, [{agent!r}, *sys.argv[1:]])
"""


def answer_without(call: str, folder: Path, *words: str) -> AgentAnswer:
    """Run a trial with an agent for which a system call does not exist."""
    agent = build_agent(cache_dir() / "agents", os.environ.get("CC") or "cc")
    wrapper = folder / "agent"
    wrapper.write_text(FILTER.format(python=sys.executable, number=NUMBERS[call], agent=str(agent)))
    wrapper.chmod(0o755)
    with HostTarget(wrapper, stop_timeout_s=1) as target:
        return target.run(
            TrialRequest(id="1", arguments=("/bin/echo", "on", *words), cwd=target.scratch(), timeout_ms=20_000)
        )


@pytest.mark.slow
@pytest.mark.parametrize("call", ["signalfd4", "prctl"])
def test_an_agent_that_can_not_begin_ends_the_session_with_the_reason(call: str, tmp_path: Path) -> None:
    with pytest.raises(AgentStartError) as caught:
        answer_without(call, tmp_path)
    assert "the kernel refuses prctl, clone or signalfd4" in caught.value.message
    assert "Linux 3.4 or newer" in caught.value.hint


@pytest.mark.slow
def test_an_agent_that_ends_before_it_reads_has_the_same_reason(tmp_path: Path) -> None:
    """The plan does not fit into a pipe, so that writing it fails, as any plan's does where the agent ends first."""
    with pytest.raises(AgentStartError, match="the kernel refuses prctl, clone or signalfd4"):
        answer_without("prctl", tmp_path, *("x" * 10_000,) * 30)


@pytest.mark.parametrize("call", ["prlimit64", "pipe2"])
def test_a_program_that_can_not_be_started_has_the_reason(call: str, tmp_path: Path) -> None:
    answer = answer_without(call, tmp_path)
    assert answer.outcome is ProcessOutcome.UNSTARTED
    assert "lacks a system call that the agent needs" in trouble_of(answer)


def test_system_calls_with_a_replacement_are_not_needed(tmp_path: Path) -> None:
    assert answer_without("close_range", tmp_path).stdout == b"on\n"
    unobserved = answer_without("ptrace", tmp_path)
    assert (unobserved.stdout, unobserved.objects) == (b"on\n", ())
    assert "tracing is forbidden here" in " ".join(unobserved.notes)
