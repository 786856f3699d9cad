# SPDX-License-Identifier: MIT OR Apache-2.0
"""The process that the agent forks between two trials, and that waits for the next request."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, ProcessOutcome, encode_plan_header, encode_request
from tests.unit.agent.harness import agents, alive, request, until
from tests.unit.agent.test_conditions import state
from tests.unit.agent.test_forged_answers import memory_of, needs_root

NONCE = "0123456789abcdef" * 2


def waiting(agent: Path) -> int:
    """Return the waiting process of the only agent of this file, once there is one: it has a session of its own."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [pid for pid in agents(agent) if is_waiting(pid)]
        return bool(found)

    until(look)
    (pid,) = found
    return pid


def is_waiting(pid: int) -> bool:
    """Return whether a process leads its session, is traced, and waits in a read."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return os.getsid(pid) == pid and "\nTracerPid:\t0\n" not in status and "State:\tS" in status
    except OSError:
        return False


@pytest.fixture
def target(agent: Path, tmp_path: Path) -> Iterator[HostTarget]:
    """A target that has answered one trial."""
    copy = tmp_path / "agent"
    copy.write_bytes(agent.read_bytes())
    copy.chmod(0o755)
    with HostTarget(copy) as target:
        assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED
        yield target


def ended_well(answer: AgentAnswer) -> bool:
    return (answer.outcome, answer.code, answer.notes) == (ProcessOutcome.EXITED, 0, ())


def test_the_next_trial_runs_in_the_waiting_process(target: HostTarget, tmp_path: Path) -> None:
    for _ in range(3):
        pid = waiting(tmp_path / "agent")
        answer = target.run(request(tmp_path, "/bin/sh", "-c", "echo $$"))
        assert ended_well(answer)
        assert answer.stdout == b"%d\n" % pid
        assert dict(answer.facts)["pid"] == pid


def test_it_receives_all_of_its_request(target: HostTarget, tmp_path: Path) -> None:
    """The request is written after the fork. The next one has nothing of it."""
    folder, text = tmp_path / "folder", tmp_path / "text"
    folder.mkdir()
    text.write_text("input\n")
    script = "cat; echo $VALUE; pwd; ulimit -c; ulimit -f; echo ${#1}; grep Cpus_allowed_list /proc/self/status"
    cpu = min(os.sched_getaffinity(0))
    nice = min(os.nice(0) + 2, 19)
    waiting(tmp_path / "agent")
    asked = request(
        tmp_path,
        *("/bin/sh", "-c", script, "sh", "a" * 100_000),
        environment=(("PATH", "/usr/bin:/bin"), ("VALUE", "a b")),
        cwd=str(folder),
        stdin=str(text),
        cpus=(cpu,),
        nice=nice,
        disk_bytes=1 << 20,
        output_bytes=1000,
    )
    answer = target.run(asked)
    assert ended_well(answer)
    *lines, allowed = answer.stdout.decode().splitlines()
    assert lines == ["input", "a b", str(folder), "0", "2048", "100000"]
    assert allowed.split() == ["Cpus_allowed_list:", str(cpu)]
    assert dict(answer.facts)["nice"] == nice
    waiting(tmp_path / "agent")
    script = "cat; echo $VALUE $#; pwd; ulimit -f"
    answer = target.run(request(tmp_path, "/bin/sh", "-c", script, disk_bytes=1 << 21))
    assert ended_well(answer)
    assert answer.stdout.decode().splitlines() == ["0", str(tmp_path), "4096"]
    facts = dict(answer.facts)
    assert (facts["cpus_allowed"], facts["nice"]) == (len(os.sched_getaffinity(0)), os.nice(0))


def test_standard_output_can_be_a_file(target: HostTarget, tmp_path: Path) -> None:
    waiting(tmp_path / "agent")
    answer = target.run(request(tmp_path, "/bin/echo", "text", stdout=str(tmp_path / "out")))
    assert ended_well(answer)
    assert (answer.stdout, (tmp_path / "out").read_text()) == (b"", "text\n")


def test_a_program_that_can_not_be_executed_is_an_answer(target: HostTarget, tmp_path: Path) -> None:
    for asked, note in (
        (request(tmp_path, tmp_path / "absent"), "could not execute it"),
        (request(tmp_path, "/bin/true", cwd="/absent"), "could not enter its folder"),
        (request(tmp_path, "/bin/true", stdin="/absent"), "could not open its files"),
    ):
        waiting(tmp_path / "agent")
        answer = target.run(asked)
        assert (answer.outcome, answer.code, answer.notes) == (ProcessOutcome.UNSTARTED, 2, (note,))
    assert ended_well(target.run(request(tmp_path, "/bin/true")))


@pytest.mark.parametrize("disturbance", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_waiting_process_that_a_signal_ends_or_stops_is_replaced(
    target: HostTarget, tmp_path: Path, disturbance: signal.Signals
) -> None:
    """The disturbance is none of the trial: its process is another one, nothing is left running, and there is no stop."""
    pid = waiting(tmp_path / "agent")
    os.kill(pid, disturbance)
    until(lambda: state(pid) in "tTZ")  # stopped, by its tracer too, or a zombie
    answer = target.run(request(tmp_path, "/bin/true"))
    assert ended_well(answer)
    facts = dict(answer.facts)
    assert facts["pid"] != pid
    assert facts["stops"] == 0
    assert not Path(f"/proc/{pid}").exists()
    assert ended_well(target.run(request(tmp_path, "/bin/true")))


def test_it_keeps_no_pipe_of_the_agent_open(target: HostTarget, tmp_path: Path) -> None:
    """A program of the same user could open them: this process may be dumped, as every trial."""
    pid = waiting(tmp_path / "agent")
    links = [Path(f"/proc/{pid}/fd/{number}").readlink() for number in range(3)]
    assert links[0] == Path("/dev/null")
    assert target._process is not None
    for stream in (target._process.stdin, target._process.stdout):
        assert stream is not None
        pipe = Path(f"/proc/self/fd/{stream.fileno()}").readlink()
        assert pipe not in links


def test_it_has_none_of_the_agent_s_memory_that_can_be_written(target: HostTarget, tmp_path: Path) -> None:
    """Except that of children, 64 KiB, and the stack: a fork that copies more takes longer, and the agent's next writes too."""
    lines = Path(f"/proc/{waiting(tmp_path / 'agent')}/maps").read_text().splitlines()
    private = [line for line in lines if " rw-p " in line and "[stack]" not in line]
    assert len(private) == 1
    start, end = (int(address, 16) for address in private[0].split()[0].split("-"))
    assert end - start == 64 << 10


@needs_root
def test_it_does_not_have_the_nonce(agent: Path, tmp_path: Path) -> None:
    """That of the next request is read after the fork, and into memory that it does not have."""
    copy = tmp_path / "agent"
    copy.write_bytes(agent.read_bytes())
    copy.chmod(0o755)
    process = subprocess.Popen([copy, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(encode_plan_header() + encode_request(request(tmp_path, "/bin/true"), "f" * 32))
    process.stdin.flush()
    pid = waiting(copy)
    process.stdin.write(encode_request(request(tmp_path, "/bin/true"), NONCE).removesuffix(b"run\n"))
    process.stdin.flush()
    (worker,) = set(agents(copy)) - {pid, process.pid}
    until(lambda: any(NONCE.encode() in content for _, content in memory_of(worker)))
    assert not [kept for kept, content in memory_of(pid) if NONCE.encode() in content]
    process.stdin.write(b"run\n")
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_it_ends_with_the_agent(target: HostTarget, tmp_path: Path) -> None:
    waiting(tmp_path / "agent")
    target.close()
    until(lambda: not agents(tmp_path / "agent"))


def test_it_ends_when_the_agent_is_killed(target: HostTarget, tmp_path: Path) -> None:
    pid = waiting(tmp_path / "agent")
    for each in set(agents(tmp_path / "agent")) - {pid}:
        with contextlib.suppress(ProcessLookupError):  # the first one's end may end the other
            os.kill(each, signal.SIGKILL)
    until(lambda: not agents(tmp_path / "agent"))
    assert not alive(tmp_path)


def test_the_keeper_holds_only_the_output_of_the_agent_open(target: HostTarget) -> None:
    """Its reader's end is the end of the agent. The host notices the end of the worker: `test_the_host_restarts_a_dead_agent`."""
    assert target._process is not None
    folder = Path(f"/proc/{target._process.pid}/fd")
    until(lambda: [(folder / str(number)).readlink() for number in (0, 2)] == [Path("/dev/null")] * 2, 20)
    assert (folder / "1").readlink().name.startswith("pipe:")
