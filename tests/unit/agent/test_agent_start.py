# SPDX-License-Identifier: MIT OR Apache-2.0
"""An agent that can't be started is no result of a trial: the session ends, and can be resumed."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

import swapstone
from swapstone.core.model import Status, UserError
from swapstone.core.record import load
from swapstone.core.session import experiment
from swapstone.core.targets import AgentStartError, TargetError, agent_build, host
from swapstone.core.targets.agent_target import start_agent
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import ProcessOutcome
from tests.unit.agent.harness import request


def failing(number: int) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number), "/somewhere")

    return fail


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_a_resource_that_is_used_up_is_no_error_of_the_target(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with HostTarget(agent) as target:
        for module, name in ((subprocess, "Popen"), (host, "_empty")):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, failing(number))
                with pytest.raises(OSError, match=os.strerror(number)) as caught:
                    target.run(request(tmp_path, "/bin/true"))
                assert caught.value.errno == number
        assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED


def test_a_file_of_an_agent_that_can_not_be_opened_for_want_of_descriptors_has_not_changed(
    agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = agent_build.sha256_of(agent)
    for number, changed in ((errno.EMFILE, False), (errno.ENOENT, True)):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", failing(number))
            if changed:
                assert not agent_build.has_sha256(agent, digest)
            else:
                with pytest.raises(OSError, match="Too many open files"):
                    agent_build.has_sha256(agent, digest)


def test_another_error_of_the_start_names_the_agent(agent: Path, tmp_path: Path) -> None:
    broken = tmp_path / "agent"
    broken.write_bytes(b"\x7fELF" + bytes(100))
    broken.chmod(0o755)
    with HostTarget(broken) as target, pytest.raises(AgentStartError, match="can't be started") as caught:
        target.run(request(tmp_path, "/bin/true"))
    assert str(broken) in caught.value.hint
    assert not isinstance(caught.value, TargetError)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "text"), [(errno.EMFILE, "ulimit -n"), (errno.ENOEXEC, "Execute it")])
def test_the_session_ends_without_a_failed_run_and_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    """The agent is lost after the first runs, and no other one can be started for a while."""
    path = tmp_path / "record"
    real, calls = start_agent, []

    def start(command: Sequence[str], *texts: Any) -> subprocess.Popen[bytes]:
        calls.append(command)
        if len(calls) == 2:
            monkeypatch.setattr(subprocess, "Popen", failing(number))
        return real(command, *texts)

    def lose(target: HostTarget, *arguments: Any) -> Any:
        answer = run(target, *arguments)
        target._stop()
        return answer

    run = HostTarget.run
    with monkeypatch.context() as patch:
        patch.setattr(host, "start_agent", start)
        patch.setattr(HostTarget, "run", lose)
        with pytest.raises(UserError) as caught:
            swapstone.compare(
                swapstone.Program(commands=["/bin/true", "/bin/true 2"]),
                swapstone.Measuring(blocks=2, prime=0, seed=4),
                out=path,
            )
    monkeypatch.undo()
    assert text in caught.value.hint
    assert f"ontinue: swapstone compare --resume {path}" in caught.value.hint
    view = load(path)
    assert view.seal is not None and view.seal.state == "interrupted"
    assert [run.status for run in view.runs] == [Status.OK]
    experiment.resume(path)
    view = load(path)
    assert view.seal is not None and view.seal.state == "complete"
    assert {run.status for run in view.runs} == {Status.OK}
    assert len(view.runs) > 3
