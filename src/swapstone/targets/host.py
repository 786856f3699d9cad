# SPDX-License-Identifier: MIT OR Apache-2.0
"""This machine as a target."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import subprocess
import tempfile
import time
from pathlib import Path

from swapstone.model import FrozenStruct, UserError, WireError
from swapstone.model.directories import cache_dir
from swapstone.targets.agent_build import agent_compiler, build_agent
from swapstone.targets.host_description import describe_host
from swapstone.targets.target import (
    DEFAULT_MACHINE,
    MachineConfig,
    Target,
    TargetDescription,
    TargetError,
    require_default_machine,
)
from swapstone.targets.target_kind import ImageBuilder, TargetKind, TargetOptions
from swapstone.wire import AgentAnswer, AnswerReader, TrialRequest, encode_plan_header, encode_request

SLACK_S = 30.0
"""Added to a trial's time-out: the agent waits up to 20 s until killed processes have ended."""

STOP_TIMEOUT_S = 25.0
"""Limit for the agent to end its trial and exit; then it is killed."""


class HostTarget(Target):
    """Runs trials on this machine through one agent process.

    Args:
        agent: the agent's program; None to build it when it is needed.
        slack_s: time after a trial's time-out until the agent counts as hung.
        stop_timeout_s: limit for the agent to exit.
    """

    name = "host"
    runs_instruments = True

    def __init__(
        self, agent: Path | None = None, slack_s: float = SLACK_S, stop_timeout_s: float = STOP_TIMEOUT_S
    ) -> None:
        self._agent = agent
        self._slack_s = slack_s
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = AnswerReader()
        self._scratch = Path(tempfile.mkdtemp(prefix="swapstone-"))

    def describe(self) -> TargetDescription:
        """Return this machine's description."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        return describe_host()

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the agent's digest and compiler."""
        path = self._agent_path()
        return (("agent", f"{path.parent.name}, built by {agent_compiler(_compiler())}"),)

    def put(self, path: Path) -> str:
        """Return the program's absolute path: nothing is copied."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not an executable file.")
        return str(path.absolute())

    def scratch(self) -> str:
        """Return the folder that is emptied before each trial."""
        return str(self._scratch)

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial; see `Target.run`."""
        require_default_machine(config, self.name)
        plan = encode_request(request)
        self._clear()
        try:
            self._send(plan)
            answer = self._wait(time.monotonic() + request.timeout_ms / 1000 + self._slack_s)
            if answer.id != request.id:
                raise TargetError(f"The agent answered trial {answer.id}, not {request.id}.")
        except WireError as error:
            self._stop()
            raise TargetError(f"The agent's answer is invalid: {error.message}", error.hint) from error
        except BaseException:
            self._stop()
            raise
        return answer

    def close(self) -> None:
        """End the agent and its trial, and remove the scratch folder."""
        self._stop()
        with contextlib.suppress(OSError):
            _empty(self._scratch)
            self._scratch.rmdir()

    def _clear(self) -> None:
        try:
            _empty(self._scratch)
        except OSError as error:
            hint = f"Remove what is in {self._scratch}."
            raise TargetError(f"The scratch folder can't be emptied: {error}.", hint) from error

    def _agent_path(self) -> Path:
        if self._agent is None:
            self._agent = build_agent(cache_dir() / "agents", _compiler())
        return self._agent

    def _send(self, plan: bytes) -> None:
        """Send a trial's plan; start an agent first if there is none."""
        if self._process is None:
            self._reader = AnswerReader()
            self._process = _start(self._agent_path())
            plan = encode_plan_header() + plan
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(plan)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error

    def _wait(self, until_s: float) -> AgentAnswer:
        """Read until one answer is complete."""
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while True:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise TargetError("The agent did not answer in time.", "The next trial starts a new one.")
                if not selector.select(left_s):
                    continue
                data = os.read(output, 1 << 16)
                if not data:
                    self._reader.finish()
                    raise self._gone()
                answers = self._reader.feed(data)
                if len(answers) > 1:
                    raise TargetError("The agent wrote more than one answer to one trial.")
                if answers:
                    return answers[0]

    def _gone(self) -> TargetError:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.returncode
        return TargetError(f"The agent ended (status {status}).", "The next trial starts a new one.")

    def _stop(self) -> None:
        """End the agent: it kills its trial and exits when its pipes are closed."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdout, process.stdin):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        try:
            process.wait(self._stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _compiler() -> str:
    return os.environ.get("CC") or "cc"


def _start(agent: Path) -> subprocess.Popen[bytes]:
    """Start an agent in a new session, so that Ctrl-C at the terminal does not reach it."""
    try:
        return subprocess.Popen(
            [str(agent), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise TargetError(f"The agent {agent} can't be started: {error.strerror}.") from error


def _empty(folder: Path) -> None:
    """Remove the files in a folder, even if the trial removed the permission to do so."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(Path(entry.path))
                Path(entry.path).rmdir()
            else:
                Path(entry.path).unlink()


class HostSpec(FrozenStruct, frozen=True):
    """This machine as a target. It has no parameters."""

    def open(self, build_images: ImageBuilder | None) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target."""
        return HostTarget()


def _parse(detail: str, options: TargetOptions) -> HostSpec:  # noqa: ARG001 - see `TargetKind`
    if detail:
        raise UserError("The target host takes nothing after its name.", "Write: --target host")
    return HostSpec()


HOST = TargetKind(
    name="host", description="this machine, on its own clock", opens=HostTarget, parse=_parse, usage="host"
)
