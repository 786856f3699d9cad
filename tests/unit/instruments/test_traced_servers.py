# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers under an instrument: the one that is stopped, and bounded waits. `env` stands for the instrument."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from swapstone.core.model import LoadGenerator, UnavailableError, UserError
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest
from swapstone.parts.explain.instruments.traced_run import (
    LONGEST_S,
    SHORTEST_S,
    ReferenceRuns,
    Region,
    Tracee,
    noted,
    run,
    session_members,
    stop,
)
from tests.processes import ends

SERVER = """
import signal, socket, sys
{more}
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    peer, _ = listener.accept()
    peer.close()
"""
CLIENT = "print('100 requests')"


def reference(folder: Path, longest_s: float = 60.0) -> ReferenceRuns:
    return ReferenceRuns({}, (), folder, longest_s)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def server(folder: Path, script: str, more: str = "", stop_ms: int = 500) -> Tracee:
    """Return a server that a shell script starts, as the line `script` of the script does."""
    (folder / "server.py").write_text(SERVER.format(more=more))
    start, port = folder / "start", free_port()
    start.write_text(f"#!/bin/sh\n{script}\n".replace("SERVER", f"{sys.executable} {folder}/server.py {port}"))
    start.chmod(0o755)
    request = TrialRequest(
        id="x",
        arguments=(str(start),),
        cwd=str(folder),
        timeout_ms=60_000,
        environment=(("PATH", os.environ["PATH"]),),
        load_generator=LoadGeneratorRequest(
            port=port, arguments=(sys.executable, "-c", CLIENT), ready_ms=5000, stop_ms=stop_ms, warm_ms=0
        ),
    )
    generator = LoadGenerator(command=("x",), reader="regex:(?P<requests>[0-9]+) requests")
    return Tracee("v", request, Region.DRIVEN, load_generator=generator)


def alive(folder: Path) -> list[int]:
    """Return the processes that run the server of this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{folder}/server.py".encode() in command:
                found.append(int(entry.name))
    return found


def ended_within(folder: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while alive(folder) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(folder)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["exec SERVER", "SERVER", "SERVER & wait"])
def test_a_server_that_a_script_starts_is_stopped(tmp_path: Path, script: str) -> None:
    ended = run(("/usr/bin/env",), server(tmp_path, script), reference(tmp_path))
    assert ended.driven is not None and ended.driven.requests == 100
    assert ended_within(tmp_path, 30), "a server was left over"


@pytest.mark.slow
def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = server(tmp_path, "exec SERVER", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", stop_ms=50)
    ended = run(("/usr/bin/env",), deaf, reference(tmp_path))
    assert ended.driven is not None
    assert ended_within(tmp_path, 30)


@pytest.mark.slow
def test_a_server_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ended before it accepted a connection"):
        run(("/usr/bin/env",), server(tmp_path, "exit 3"), reference(tmp_path))


def test_a_run_that_reaches_its_limit_is_given_up_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swapstone.parts.explain.instruments.traced_run.SHORTEST_S", 0.19)
    request = TrialRequest(id="x", arguments=("/bin/sleep", "1000"), cwd="/", timeout_ms=100_000)
    with pytest.raises(
        UnavailableError, match=r"a run took longer than 0 s under env; without it the longest took 0\.01 s"
    ):
        run(("/usr/bin/env",), Tracee("v", request, Region.PROGRAM), reference(tmp_path, 0.01))


def test_processes_that_a_program_leaves_behind_are_killed(tmp_path: Path) -> None:
    arguments = ("/bin/sh", "-c", f"sleep 1000 & echo $! >{tmp_path}/left")
    request = TrialRequest(
        id="x", arguments=arguments, cwd="/", timeout_ms=1000, environment=(("PATH", os.environ["PATH"]),)
    )
    run(("/usr/bin/env",), Tracee("v", request, Region.PROGRAM), reference(tmp_path))
    left = int((tmp_path / "left").read_text())
    assert ends(left)


def test_a_long_wait_prints_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.parts.explain.instruments.traced_run.QUIET_S", 0.05)
    lines: list[str] = []
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        with pytest.raises(subprocess.TimeoutExpired), noted("for the end of sleep", 0.2, lines.append):
            process.wait(0.2)
        process.kill()
    assert lines == ["waiting for the end of sleep, for at most 0 s more"]


@pytest.mark.parametrize(("within_s", "killed"), [(0.3, True), (60.0, False)])
def test_reading_a_recording_is_bounded_and_prints_that_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, within_s: float, *, killed: bool
) -> None:
    monkeypatch.setattr("swapstone.parts.explain.instruments.traced_run.QUIET_S", 0.05)
    printed = threading.Event()
    lines: list[str] = []

    def notify(line: str) -> None:
        lines.append(line)
        printed.set()

    command = ["/bin/sh", "-c", "exec sleep 1000" if killed else "read line; echo end"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        noted("for perf script", within_s, notify, process.kill),
    ):
        assert process.stdout is not None and process.stdin is not None
        assert printed.wait(30)
        if not killed:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert process.stdout.read() == ("" if killed else "end\n")
    assert lines == [f"waiting for perf script, for at most {0 if killed else 60} s more"]


def test_without_the_servers_number_it_can_not_be_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        with pytest.raises(UserError, match="number of the server's process can't be read"):
            stop(process, tmp_path / "missing", 0.1, lambda _: None)
        process.kill()


def test_limits_follow_from_the_runs_without_an_instrument() -> None:
    assert reference(Path(), 0.001).limit_s == pytest.approx(0.001 + SHORTEST_S)
    assert reference(Path(), 4.0).limit_s == pytest.approx(80.0)
    assert reference(Path(), 1000.0).limit_s == pytest.approx(1000.0 + LONGEST_S)


def test_members_of_a_session_are_found_without_its_first() -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 1000 & echo; wait"], start_new_session=True, stdout=subprocess.PIPE
    ) as one:
        assert one.stdout is not None
        one.stdout.readline()
        members = session_members(one.pid)
        os.killpg(one.pid, 9)
    assert len(members) == 1 and one.pid not in members
