# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs beside a trial on this machine and on a board: they run, are counted, and end with the trial however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.targets import DEFAULT_MACHINE, MachineConfig, MachineConfigError, TargetError
from swapstone.core.targets.agent_target import COUNTERS, AgentTarget
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.parts.boards.targets import ssh_target as module
from swapstone.parts.boards.targets.board import BoardFolder
from swapstone.parts.boards.targets.ssh_target import SshTarget
from tests.fake_ssh import FakeSsh
from tests.processes import ends, is_running

PLACE = BoardFolder(host="board")


@pytest.fixture(params=["host", "ssh"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HostTarget | SshTarget]:
    if request.param == "ssh":
        monkeypatch.setenv("PATH", FakeSsh(tmp_path / "board").path)
    with SshTarget(PLACE) if request.param == "ssh" else HostTarget() as found:
        yield found


def asked(target: AgentTarget, script: str, trial: str = "1-0") -> TrialRequest:
    return TrialRequest(
        id=trial, arguments=("/bin/sh", "-c", script), cwd=target.scratch(), timeout_ms=60_000, environment=()
    )


def load(*commands: str, settle_ms: int = 0) -> MachineConfig:
    return MachineConfig(beside=commands, settle_ms=settle_ms)


def started(note: Path) -> str:
    """Wait for a command's process identifier."""
    until = time.monotonic() + 60
    while not (note.exists() and note.read_text().endswith("\n")):
        assert time.monotonic() < until
        time.sleep(0.01)
    return note.read_text().strip()


def test_the_commands_run_beside_the_trial_and_end_with_it(target: HostTarget | SshTarget, tmp_path: Path) -> None:
    notes = [tmp_path / name for name in ("one", "two")]
    commands = [f"echo $$ >{note}; sleep 1000 & echo $! >{note}.child; wait" for note in notes]
    wait = " && ".join(f"until [ -s {note}.child ]; do sleep 0.01; done" for note in notes)
    answer = target.run(asked(target, f"{wait}; echo seen"), load(*commands))
    assert (answer.outcome, answer.code, answer.stdout) == (ProcessOutcome.EXITED, 0, b"seen\n")
    for note in notes:
        assert ends(started(note))
        assert ends(started(Path(f"{note}.child")))


def test_counters_are_read_around_the_trial(target: HostTarget | SshTarget) -> None:
    answer = target.run(asked(target, "sleep 0.1"), load("exec sleep 1000", settle_ms=300))
    counters = dict(answer.machine)
    assert set(counters) == {f"{when} {path}" for when in ("before", "after") for path in COUNTERS}
    before, after = (float(counters[f"{when} /proc/uptime"].split()[0]) for when in ("before", "after"))
    assert after - before >= 0.08
    assert target.run(asked(target, "true", "1-1"), DEFAULT_MACHINE).machine == ()


def test_a_load_that_ends_early_fails_the_run_with_its_last_line(target: HostTarget | SshTarget) -> None:
    with pytest.raises(MachineConfigError) as caught:
        target.run(asked(target, "sleep 0.2"), load("echo no permission >&2; exit 3"))
    assert caught.value.message.endswith("ended early (exited 3): its last output: no permission.")
    assert target.run(asked(target, "echo on", "1-1")).stdout == b"on\n"


def test_what_a_load_writes_is_removed(target: HostTarget | SshTarget) -> None:
    answer = target.run(
        asked(target, f"until [ -e {target.load_folder()}/file ]; do sleep 0.01; done; ls"),
        load("touch file; exec sleep 1000"),
    )
    assert answer.stdout == b""  # the trial's folder is another one
    assert list(Path(target.load_folder()).iterdir()) == []


def test_a_machine_that_must_be_prepared_is_refused(target: HostTarget | SshTarget) -> None:
    with pytest.raises(Exception, match="can't change its kernel, swap or load"):
        target.run(asked(target, "true"), MachineConfig(beside=("true",), prepare=("true",)))


def test_an_agent_that_dies_takes_its_load_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HostTarget() as target:
        note = tmp_path / "load"

        def run(_: TrialRequest) -> AgentAnswer:
            started(note)
            raise KeyboardInterrupt

        monkeypatch.setattr(target, "_run", run)
        with pytest.raises(KeyboardInterrupt):
            target.run(asked(target, "true"), load(f"echo $$ >{note}; exec sleep 1000"))
        assert not is_running(started(note))


_SESSION = """
import sys
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import TrialRequest
with HostTarget() as target:
    request = TrialRequest(id="1", arguments=("/bin/sleep", "1000"), cwd=target.scratch(), timeout_ms=900000)
    target.run(request, MachineConfig(beside=(f"echo $$ >{sys.argv[1]}; exec sleep 1000",)))
"""


@pytest.mark.slow
def test_no_load_survives_a_killed_session(tmp_path: Path) -> None:
    note = tmp_path / "load"
    with subprocess.Popen([sys.executable, "-P", "-c", _SESSION, str(note)]) as session:
        pid = started(note)
        assert is_running(pid)
        session.kill()
    assert ends(pid)


def test_a_lost_connection_ends_the_load_and_the_trial_is_made_again_beside_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", ssh.path)
    monkeypatch.setattr(module, "_LONGEST_WAIT_S", 0.1)
    note, again = tmp_path / "load", tmp_path / "again"
    with SshTarget(PLACE) as target:
        first: list[str] = []

        def cut() -> None:
            first.append(started(note))
            note.unlink()
            started(tmp_path / "trial")
            ssh.cut()
            again.touch()

        thread = threading.Thread(target=cut)
        thread.start()
        script = f"echo $$ >{tmp_path}/trial; [ -e {again} ] || sleep 1000; echo done"
        answer = target.run(asked(target, script), load(f"echo $$ >{note}; exec sleep 1000"))
        thread.join()
        assert answer.stdout == b"done\n"
        assert dict(answer.facts)["reconnects"] == 1
        assert ends(first[0])
        assert ends(started(note))
        assert os.path.lexists(target.load_folder())
    assert not os.path.lexists(target.load_folder())


def test_an_agent_of_a_load_that_is_killed_is_an_error_of_the_target() -> None:
    with HostTarget() as target:
        original = target._start_load_agent

        def killed(number: int) -> subprocess.Popen[bytes]:
            process = original(number)
            process.kill()
            return process

        target._start_load_agent = killed  # type: ignore[method-assign]
        with pytest.raises((TargetError, MachineConfigError), match="agent of a load ended"):
            target.run(asked(target, "sleep 0.2"), load("exec sleep 1000", settle_ms=200))
