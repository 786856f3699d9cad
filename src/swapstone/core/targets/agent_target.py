# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target whose trials run through one agent process, over a pair of pipes: this machine's, or those of an ssh session."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import math
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import WireError
from swapstone.core.model.errors import remedy
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.agent_build import sha256_of
from swapstone.core.targets.target import AgentStartError, MachineConfig, MachineConfigError, Target, TargetError
from swapstone.core.wire import NONCE_BYTES, AgentAnswer, AnswerReader, TrialRequest, encode_plan_header, encode_request

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
        stop_timeout_s: one that does not exit within this time is killed, with its descendants.
    """
    for agent in agents:
        for stream in filter(None, (agent.stdout, agent.stdin, agent.stderr)):
            with contextlib.suppress(OSError):
                stream.close()
    for agent in agents:
        try:
            agent.wait(stop_timeout_s)
        except subprocess.TimeoutExpired:
            _kill_below(agent.pid)
            agent.kill()
            agent.wait()


def _kill_below(pid: int) -> None:
    """Kill the descendants of a process that does not do it itself, as a debugger may hold it, and after it they would be init's."""
    until_s = time.monotonic() + _END_S
    while (below := _descendants(pid)) and time.monotonic() < until_s:
        for each in below:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_KILL_POLL_S)


def _descendants(pid: int) -> set[int]:
    """Return the numbers of a process's descendants, without zombies."""
    parents = {}
    for stat in Path("/proc").glob("[1-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(stat.parent.name)] = int(parent)
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _early(command: str, answer: AgentAnswer) -> str:
    lines = (answer.stderr or answer.stdout).decode(errors="replace").strip().splitlines()
    printed = f": its last output: {safe_excerpt(lines[-1], 200)}" if lines else "; it printed nothing"
    return f"The load's program {_name(command)} ended early ({answer.outcome.value} {answer.code}){printed}."


def _name(command: str) -> str:
    """Return the name of the program of a command, which its own loader may start."""
    words = command.rsplit(";", maxsplit=1)[-1].split()
    path = words[words.index("--library-path") + 2] if "--library-path" in words[:-2] else words[min(1, len(words) - 1)]
    return safe_excerpt(path.rpartition("/")[2].strip("'"), 60)


SLACK_S = 30.0
"""Added to a trial's time-out: the agent waits up to 20 s until killed processes have ended."""

STOP_TIMEOUT_S = 25.0
"""Limit for the agent to end its trial and exit; then it is killed."""

_NOT_BEGUN = 1
"""The agent's exit status in native/agent/main.c."""

_END_S, _KILL_POLL_S = 5.0, 0.02
"""Limit for an agent that has closed its output to exit, and for killed processes to end."""

OLDEST_KERNEL = "3.4"
"""The first with PR_SET_CHILD_SUBREAPER (prctl(2)) and PTRACE_SEIZE (ptrace(2)), the newest that the agent needs."""

_LONGEST_POLL_MS = 3_600_000

_SLOWEST_BYTES_PER_S = 1 << 18
"""At which an agent's answer arrives and is decoded, at the least: outputs of 16 MiB take seconds, and on a busy machine longer."""

_LONGEST_ANSWER_BYTES = 1 << 28
"""More than the longest answer: four outputs of 16 MiB, of which each byte may have three characters."""


class AgentTarget(Target):
    """Sends trials to an agent and reads its answers.

    A new agent is started after an error, and after a trial that changed what later trials would inherit from the agent. If none can be
    started, that is no result of a trial: the error is no `TargetError`, and ends the session.

    Args:
        slack_s: time after a trial's time-out until the agent counts as hung.
        stop_timeout_s: limit for the agent to exit.
    """

    offers = Target.offers | {"runs_loads"}

    def __init__(self, slack_s: float = SLACK_S, stop_timeout_s: float = STOP_TIMEOUT_S) -> None:
        self._slack_s = slack_s
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._output, self._poll = -1, select.poll()
        """The agent's output."""
        self._reader = AnswerReader()
        self._heard = False
        """Whether the agent has written anything."""
        self._installed: dict[str, str] = {}
        """Digests of what `install` copied, by what it is."""

    def install(self, files: Mapping[str, Path], what: str) -> str:
        """Copy files into one folder, and keep their digest for `tools`; see `Target.install`."""
        self._installed[what] = f"SHA-256 {digest_of_files(files)}"
        return super().install(files, what)

    @abc.abstractmethod
    def _start_load_agent(self, number: int) -> subprocess.Popen[bytes]:
        """Start an agent beside the one of trials, for a command of a load; see `_start_agent`.

        Args:
            number: of the command, from 0.
        """

    @abc.abstractmethod
    def _clear_load(self) -> None:
        """Empty the folder of loads; what can't be removed is left."""

    @abc.abstractmethod
    def _counters(self) -> dict[str, str]:
        """Read the machine's counters: the contents of `swapstone.core.targets.agent_target.COUNTERS` by path.

        Raises:
            UserError: the target can't be reached.
        """

    def _under_load(
        self, request: TrialRequest, config: MachineConfig, run: Callable[[TrialRequest], AgentAnswer]
    ) -> AgentAnswer:
        """Run a trial while the commands of a load run.

        Args:
            request: of the trial.
            config: names the commands; without any, the trial alone runs.
            run: runs the trial.

        Returns:
            The trial's answer, with the counters from before and after the trial.

        Raises:
            MachineConfigError: a command ended before the trial did.
            TargetError: an agent failed.
        """
        if not config.beside:
            return run(request)
        machine: dict[str, str] = {}
        self._clear_load()
        try:
            with beside_commands(
                self._start_load_agent, config.beside, self.load_folder(), config.settle_ms, self._stop_timeout_s
            ) as check:
                machine |= {f"before {path}": text for path, text in self._counters().items()}
                answer = run(request)
                machine |= {f"after {path}": text for path, text in self._counters().items()}
                check()
        finally:
            self._clear_load()
        return msgspec.structs.replace(answer, machine=(*answer.machine, *machine.items()))

    @abc.abstractmethod
    def _start_agent(self) -> subprocess.Popen[bytes]:
        """Start an agent with pipes as standard input and output.

        Raises:
            AgentStartError: it can't be started.
            OSError: neither, because a resource of this machine is used up.
        """

    @abc.abstractmethod
    def _clear(self) -> None:
        """Empty the scratch folder.

        Raises:
            TargetError: it can't be emptied.
        """

    def _run(self, request: TrialRequest) -> AgentAnswer:
        nonce = secrets.token_hex(NONCE_BYTES)
        plan = encode_request(request, nonce)
        self._clear()
        try:
            self._send(plan)
            answer = self._wait(nonce, time.monotonic() + request.timeout_ms / 1000 + self._slack_s)
            if answer.id != request.id:
                raise TargetError(f"The agent answered trial {answer.id}, not {request.id}.")
        except WireError as error:
            self._stop()
            raise TargetError(f"The agent's answer is invalid: {error.message}", error.hint) from error
        except BaseException:
            self._stop()
            raise
        if dict(answer.facts).get("changed_conditions"):
            self._stop()
        return answer

    def _send(self, plan: bytes) -> None:
        """Send a trial's plan; start an agent first if there is none."""
        if self._process is None:
            self._reader = AnswerReader()
            self._heard = False
            self._process = self._start_agent()
            assert self._process.stdout is not None
            self._output = self._process.stdout.fileno()
            self._poll = select.poll()
            self._poll.register(self._output, select.POLLIN)
            plan = encode_plan_header() + plan
        else:
            self._check_silence()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(plan)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def _wait(self, nonce: str, until_s: float) -> AgentAnswer:
        """Read until the answer with a nonce is complete."""
        received = 0
        while True:
            left_ms = math.ceil((until_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise TargetError("The agent did not answer in time.", "The next trial starts a new one.")
            if not self._poll.poll(min(left_ms, _LONGEST_POLL_MS)):
                continue
            data = os.read(self._output, 1 << 16)
            if not data:
                ended = self._ended()
                self._reader.finish()
                raise ended
            self._heard = True
            received += len(data)
            if received > _LONGEST_ANSWER_BYTES:
                raise TargetError(f"The agent's answer has more than {_LONGEST_ANSWER_BYTES >> 20} MiB.")
            until_s += len(data) / _SLOWEST_BYTES_PER_S
            answers = self._reader.feed(data, nonce)
            if answers:
                self._check_silence()
                return answers[0]

    def _check_silence(self) -> None:
        """Check that the agent's pipe is empty.

        Raises:
            TargetError: there are bytes after the last answer.
        """
        # An agent that has ended is noticed when the next request is sent.
        if any(events & select.POLLIN for _, events in self._poll.poll(0)) and os.read(self._output, 1) != b"":
            raise TargetError(
                "The agent's output goes on after its answer.",
                "Another process than the agent may have written into its pipe: `swapstone docs wire`, section 1.",
            )

    def _ended(self) -> TargetError:
        """Return the error for an agent that has ended.

        Raises:
            AgentStartError: it could not begin: the kernel refused a system call that it needs.
        """
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        # The keeper of an agent without signalfd4 closes its output, and ends with its input.
        if not self._heard and self._process.returncode in {None, _NOT_BEGUN}:
            raise AgentStartError(
                f"The agent can't begin on {self.name}: the kernel refuses prctl, clone or signalfd4, which it needs.",
                f"It needs Linux {OLDEST_KERNEL} or newer, and no seccomp filter that forbids these system calls.",
            )
        return TargetError(f"The agent ended (status {self._process.returncode}).", "The next trial starts a new one.")

    def _stop(self) -> None:
        """End the agent: it kills its trial and exits when its pipes are closed, also if a signal stopped it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(
            ProcessLookupError, PermissionError
        ):  # the program under test may have stopped its process group
            if process.poll() is None and os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGCONT)
        end_agents([process], self._stop_timeout_s)


def start_agent(
    command: Sequence[str], what: str, hint: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start an agent, or what reaches it, in a new session, so that Ctrl-C at the terminal does not reach it.

    Args:
        command: of this machine.
        what: it is, as the subject of a sentence.
        hint: the next step if it can't be started.
        environment: of the process; None for that of this one.

    Raises:
        AgentStartError: it can't be started.
        OSError: neither, because a resource of this machine is used up.
    """
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        if remedy(error):
            raise
        raise AgentStartError(f"{what} can't be started: {error.strerror}.", hint) from error


def digest_of_files(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of all names and contents, in hexadecimal."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()
