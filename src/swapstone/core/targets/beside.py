# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that run beside a trial on a machine that Swapstone does not boot.

Each is the trial of an agent of its own. An agent ends all processes of its trial as soon as its input ends: after the trial, after an
error or Ctrl-C, if this process is killed, and if the connection to a board is lost.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from swapstone.core.model import WireError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.target import MachineConfigError, TargetError
from swapstone.core.wire import AgentAnswer, AnswerReader, TrialRequest, encode_plan_header, encode_request

COUNTERS = ("/proc/stat", "/proc/vmstat", "/proc/diskstats", "/proc/net/dev", "/proc/uptime")
"""Files of counters, as the first process of a virtual machine reads them (native/guest/init.c)."""

_LONGEST_MS = 86_400_000
_MOST_DISK_BYTES = 1 << 40
_PATHS = "/usr/sbin:/usr/bin:/sbin:/bin"


@contextlib.contextmanager
def beside_commands(
    start: Callable[[int], subprocess.Popen[bytes]],
    commands: Sequence[str],
    folder: str,
    settle_ms: int,
    stop_timeout_s: float,
) -> Iterator[Callable[[], None]]:
    """Run shell commands until the end of the context, and yield a function that checks that every one still runs.

    Args:
        start: starts an agent, given the number of the command.
        commands: for ``/bin/sh -c`` there.
        folder: their working directory there.
        settle_ms: how long they run before the context is entered.
        stop_timeout_s: limit for an agent to exit.

    Raises:
        MachineConfigError: one ended early; the message has its last output.
        TargetError: an agent failed.
        AgentStartError: no agent can be started.
    """
    running: list[tuple[str, subprocess.Popen[bytes], AnswerReader]] = []

    def check() -> None:
        for command, process, reader in running:
            assert process.stdout is not None
            output = process.stdout.fileno()
            while select.select([output], [], [], 0)[0]:
                data = os.read(output, 1 << 16)
                if not data:
                    raise TargetError("The agent of a load ended.", "The next trial starts a new one.")
                try:
                    answers = reader.feed(data)
                except WireError as error:
                    raise TargetError(f"The answer of a load's agent is invalid: {error.message}") from error
                if answers:
                    raise MachineConfigError(_early(command, answers[0]))

    try:
        for number, command in enumerate(commands):
            process = start(number)
            running.append((command, process, AnswerReader()))
            request = TrialRequest(
                id=f"beside-{number}",
                arguments=("/bin/sh", "-c", command),
                environment=(("PATH", _PATHS),),
                cwd=folder,
                timeout_ms=_LONGEST_MS,
                disk_bytes=_MOST_DISK_BYTES,
            )
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # `check` finds out why
                process.stdin.write(encode_plan_header() + encode_request(request))
                process.stdin.flush()
        until_s = time.monotonic() + settle_ms / 1000
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.1))
            check()
        check()
        yield check
    finally:  # closes the pipes of all agents, then waits for each: they end their trials at the same time
        end_agents([process for _, process, _ in running], stop_timeout_s)


def end_agents(agents: Sequence[subprocess.Popen[bytes]], stop_timeout_s: float) -> None:
    """Close the pipes of agents, and wait until they have ended their trials and exited.

    Args:
        agents: with pipes.
        stop_timeout_s: one that does not exit within this time is killed.
    """
    for agent in agents:
        for stream in filter(None, (agent.stdout, agent.stdin, agent.stderr)):
            with contextlib.suppress(OSError):
                stream.close()
    for agent in agents:
        try:
            agent.wait(stop_timeout_s)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()


def _early(command: str, answer: AgentAnswer) -> str:
    lines = (answer.stderr or answer.stdout).decode(errors="replace").strip().splitlines()
    printed = f": its last output: {safe_excerpt(lines[-1], 200)}" if lines else "; it printed nothing"
    return f"The load's program {_name(command)} ended early ({answer.outcome.value} {answer.code}){printed}."


def _name(command: str) -> str:
    """Return the name of the program of a command, which its own loader may start."""
    words = command.rsplit(";", maxsplit=1)[-1].split()
    path = words[words.index("--library-path") + 2] if "--library-path" in words[:-2] else words[min(1, len(words) - 1)]
    return safe_excerpt(path.rpartition("/")[2].strip("'"), 60)
