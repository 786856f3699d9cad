# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent and its controller: malformed plans, signals, and the death of either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from swapstone.core.model import WireError
from swapstone.core.targets import TargetError, agent_target
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import (
    AgentAnswer,
    AgentRefusedError,
    AnswerReader,
    ProcessOutcome,
    TrialRequest,
    encode_plan_header,
    encode_request,
)
from tests.contract.programs import build
from tests.unit.agent.harness import agents, alive, finish, request, run, until

GOOD = """swapstone-plan 6
trial 7
arg /bin/true
cwd /tmp
cpus all
timeout-ms 1000
output-bytes 1000
disk-bytes 1000000
run
"""


def send_plan(agent: Path, plan: bytes) -> tuple[int, bytes]:
    result = subprocess.run([agent, "-"], process_group=0, input=plan, stdout=subprocess.PIPE, timeout=30, check=False)
    return result.returncode, result.stdout


def start(agent: Path, plan: bytes) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([agent, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(plan)
    process.stdin.flush()
    return process


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("swapstone-plan 6", "swapstone-plan 1", 1, "the first line is not `swapstone-plan 6`"),
        ("trial 7", "trial", 2, "the line begins with no known word"),
        ("trial 7", "trial 7 8", 2, "an identifier has only letters"),
        ("trial 7", "trial " + "7" * 65, 2, "an identifier has 1 to 64"),
        ("trial 7\n", "", 2, "a trial begins with its `trial` line"),
        ("run", "root r\nrun", 9, "the path is not absolute"),
        ("run", "root /r,s\nrun", 9, "a comma, a colon or a backslash"),
        ("run", "root /r\nroot-layer /l:m\nrun", 10, "a comma, a colon or a backslash"),
        ("run", "root /r\nroot /r\nrun", 10, "the trial has such a line already"),
        ("run", "root-layer /l\nrun", 10, "without root"),
        ("run", "root-files /f\nrun", 10, "without root"),
        ("trial 7", "trial 7\ntrial 7", 3, "the trial has such a line already"),
        ("trial 7", "trial 7\nnonce " + "0" * 31, 3, "a nonce has 32 lower-case hexadecimal digits"),
        ("trial 7", "trial 7\nnonce " + "0" * 33, 3, "a nonce has 32 lower-case hexadecimal digits"),
        ("trial 7", "trial 7\nnonce " + "A" * 32, 3, "a nonce has 32 lower-case hexadecimal digits"),
        ("trial 7", "trial 7\nnonce " + "g" * 32, 3, "a nonce has 32 lower-case hexadecimal digits"),
        ("trial 7", "trial 7" + ("\nnonce " + "0" * 32) * 2, 4, "the trial has such a line already"),
        ("trial 7", "nonce " + "0" * 32 + "\ntrial 7", 2, "a trial begins with its `trial` line"),
        ("arg /bin/true", "arg true", 3, "the path is not absolute"),
        ("arg /bin/true", "arg ", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /%2", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /%41", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /%0a", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /%00", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a b", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a\r", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a\t", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a\x7f", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a%7E", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a%21", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a%0G", 3, "the text is not percent-encoded"),
        ("arg /bin/true", "arg /a\nenv A", 4, "an environment variable is NAME=VALUE"),
        ("arg /bin/true", "arg /a\nenv =A", 4, "an environment variable is NAME=VALUE"),
        ("arg /bin/true", "arg /" + "a" * 410_000, 3, "the line is longer than 400 KiB"),
        ("arg /bin/true", "arg /a" + "\narg a" * 4096, 4099, "there are more than 4096 arguments"),
        ("arg /bin/true", "arg /a" + ("\narg " + "a" * 300_000) * 4, 7, "longer than 1 MiB together"),
        ("arg /bin/true\n", "", 8, "the trial lacks one of"),
        ("cwd /tmp", "cwd tmp", 4, "the path is not absolute"),
        ("cpus all", "cpus all\nstdin in", 6, "the path is not absolute"),
        ("cpus all", "cpus all\nstdout out", 6, "the path is not absolute"),
        ("cpus all", "cpus all\nstdin /a\nstdin /a", 7, "the trial has such a line already"),
        ("cpus all", "cpus ", 5, "processors are a comma list"),
        ("cpus all", "cpus 1,", 5, "processors are a comma list"),
        ("cpus all", "cpus 1 2", 5, "processors are a comma list"),
        ("cpus all", "cpus 4096", 5, "a processor's number is at most 4095"),
        ("cpus all", "cpus all\nnice 20", 6, "nice is a whole number from -20 to 19"),
        ("cpus all", "cpus all\nnice -21", 6, "nice is a whole number from -20 to 19"),
        ("cpus all", "cpus all\nnice -0", 6, "nice is a whole number from -20 to 19"),
        ("timeout-ms 1000", "timeout-ms 0", 6, "the number is out of range"),
        ("timeout-ms 1000", "timeout-ms 00", 6, "the value is not a whole number"),
        ("timeout-ms 1000", "timeout-ms 01", 6, "the value is not a whole number"),
        ("timeout-ms 1000", "timeout-ms 09", 6, "the value is not a whole number"),
        ("timeout-ms 1000", "timeout-ms -1", 6, "the value is not a whole number"),
        ("timeout-ms 1000", "timeout-ms 1.5", 6, "the value is not a whole number"),
        ("disk-bytes 1000000", "disk-bytes 9223372036854775808", 8, "the value is not a whole number"),
        ("output-bytes 1000", "output-bytes 16777217", 7, "the number is out of range"),
        ("output-bytes 1000\n", "", 8, "the trial lacks one of"),
        ("run\n", "port 80\nrun\n", 10, "the server lacks one of port"),
        ("run\n", "driver-env A=b\nrun\n", 10, "the server lacks one of port"),
        ("run\n", "port 0\nrun\n", 9, "the number is out of range"),
        ("run\n", "port 65536\nrun\n", 9, "the number is out of range"),
        ("run\n", "warm-ms 3600001\nrun\n", 9, "the number is out of range"),
        ("run\n", "driver-arg wrk\nrun\n", 9, "the path is not absolute"),
        ("run\n", "driver-cpus 1,\nrun\n", 9, "processors are a comma list"),
        ("run\n", "quit\n", 9, "the line begins with no known word"),
        ("run\n", "", 9, "the plan ends inside a trial"),
        ("run\n", "run", 9, "the last line has no newline"),
        ("run\n", "run \n", 9, "the line begins with no known word"),
    ],
)
def test_a_malformed_plan_is_refused_by_its_line(agent: Path, old: str, new: str, line: int, text: str) -> None:
    assert old in GOOD
    status, output = send_plan(agent, GOOD.replace(old, new, 1).encode())
    assert status == 2
    with pytest.raises(AgentRefusedError, match=f"refuses line {line} of its plan: .*{text}"):
        AnswerReader().feed(output)


@pytest.mark.parametrize("plan", [b"", b"\0\n", b"swapstone-plan 6", b"\xff" * 5000])
def test_input_that_is_not_a_plan_is_refused(agent: Path, plan: bytes) -> None:
    status, output = send_plan(agent, plan)
    assert status == 2
    with pytest.raises(AgentRefusedError):
        AnswerReader().feed(output)


def test_every_truncation_of_a_plan_is_refused_or_runs_nothing(agent: Path) -> None:
    plan = GOOD.encode()
    for cut in range(0, len(plan), 7):
        status, output = send_plan(agent, plan[:cut])
        assert b"begin" not in output
        assert status == (0 if plan[:cut] == b"swapstone-plan 6\n" else 2)


def test_an_empty_plan_ends_the_agent(agent: Path) -> None:
    """The worker can end before the keeper waits for it. The test repeats this race 100 times."""
    for _ in range(100):
        assert send_plan(agent, encode_plan_header()) == (0, b"swapstone-agent 7\n")


def test_a_plan_can_be_a_file_and_ends_at_quit(agent: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text(GOOD + GOOD.partition("\n")[2] + "quit\nthis is not read\n")
    result = subprocess.run(
        [agent, plan], process_group=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=30
    )
    reader = AnswerReader()
    assert [answer.outcome for answer in reader.feed(result.stdout)] == [ProcessOutcome.EXITED, ProcessOutcome.EXITED]
    reader.finish()


@pytest.mark.parametrize("arguments", [[], ["-", "-"], ["/nonexistent/plan"]])
def test_the_agent_exits_with_1_without_a_plan(agent: Path, arguments: list[str]) -> None:
    result = subprocess.run(
        [agent, *arguments], process_group=0, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )
    assert (result.returncode, result.stdout) == (1, b"")


CONTROLLER = """
import subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(open(sys.argv[2], "rb").read()); p.stdin.flush()
time.sleep(100)
"""


@pytest.mark.parametrize("name", ["leaves", "daemon", "stops", "busy"])
def test_all_processes_end_when_the_controller_is_killed(
    agent: Path, tmp_path: Path, programs: Path, name: str
) -> None:
    if name == "busy":
        asked = request(tmp_path, "/bin/sh", "-c", "setsid sleep 60 & while :; do :; done")
    else:
        asked = request(tmp_path, "/bin/sh", "-c", f"{build(programs, name)} & sleep 60")
    plan = tmp_path / "plan"
    plan.write_bytes(encode_plan_header() + encode_request(asked))
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, agent, plan])
    until(lambda: len(alive(tmp_path)) >= 2)
    assert len(agents(agent)) >= 2
    controller.kill()
    controller.wait()
    until(lambda: not alive(tmp_path))
    until(lambda: not agents(agent))


HOLDS = [(mode, *daemon) for mode in ("attach", "seize", "stop") for daemon in ((), ("daemon",))]
"""Arguments of the program `holds`, but for the number of processes: a debugger of the agent, or what stops it."""


def _held(programs: Path, folder: Path, holds: tuple[str, ...], count: int) -> TrialRequest:
    mode, *daemon = holds
    return request(folder, build(programs, "holds"), mode, str(count), *daemon, timeout_ms=2000)


@pytest.mark.parametrize(("holds", "count"), [*((each, 1) for each in HOLDS), (("stop",), 2), (("stop", "daemon"), 2)])
def test_a_program_that_holds_the_agent_leaves_nothing_when_the_controller_is_killed(
    agent: Path, tmp_path: Path, programs: Path, holds: tuple[str, ...], count: int
) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(encode_plan_header() + encode_request(_held(programs, tmp_path, holds, count)))
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, agent, plan])
    until((tmp_path / "held").exists)
    controller.kill()
    controller.wait()
    until(lambda: not alive(tmp_path) and not agents(agent), 20)


@pytest.mark.parametrize("holds", HOLDS[1:4])
def test_a_signal_ends_an_agent_that_is_held(
    agent: Path, tmp_path: Path, programs: Path, holds: tuple[str, ...]
) -> None:
    process = start(agent, encode_plan_header() + encode_request(_held(programs, tmp_path, holds, 1)))
    until((tmp_path / "held").exists)
    process.terminate()
    process.wait(60)
    finish(process)
    assert not alive(tmp_path) and not agents(agent)


@pytest.mark.parametrize(("holds", "count"), [(HOLDS[1], 1), (HOLDS[1], 2), (HOLDS[2], 2), (HOLDS[5], 2)])
def test_a_program_that_holds_the_agent_leaves_nothing_behind_the_host(
    agent: Path, programs: Path, holds: tuple[str, ...], count: int
) -> None:
    with HostTarget(agent, slack_s=0.1, stop_timeout_s=2.5) as target:
        folder = Path(target.scratch())
        with pytest.raises(TargetError, match="The agent did not answer in time"):
            target.run(_held(programs, folder, holds, count))
        assert not alive(folder) and not agents(agent)
        assert target.run(request(folder, "/bin/true")).outcome is ProcessOutcome.EXITED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("busy", [True, False])
def test_a_signal_ends_the_agent_and_its_programs(
    agent: Path, tmp_path: Path, number: signal.Signals, *, busy: bool
) -> None:
    asked = encode_request(request(tmp_path, "/bin/sh", "-c", "sleep 60 & sleep 60")) if busy else b""
    process = start(agent, encode_plan_header() + asked)
    assert process.stdout is not None
    assert process.stdout.readline() == b"swapstone-agent 7\n"
    until(lambda: len(alive(tmp_path)) >= 3 or not busy)
    process.send_signal(number)
    assert process.wait(60) == 4
    assert process.stdout.read() == b""
    finish(process)
    assert not alive(tmp_path)


@pytest.mark.parametrize("which", ["keeper", "worker"])
def test_all_processes_end_when_the_agent_is_killed(agent: Path, tmp_path: Path, which: str) -> None:
    asked = request(tmp_path, "/bin/sh", "-c", "setsid sleep 60 & sleep 60")
    process = start(agent, encode_plan_header() + encode_request(asked))
    until(lambda: len(alive(tmp_path)) >= 3)
    (worker,) = set(agents(agent)) - {process.pid}
    os.kill(process.pid if which == "keeper" else worker, signal.SIGKILL)
    until(lambda: not alive(tmp_path))
    assert process.wait(60) == (-signal.SIGKILL if which == "keeper" else 5)
    until(lambda: not agents(agent))
    finish(process)


def test_the_agent_sleeps_during_a_trial(agent: Path, tmp_path: Path) -> None:
    """While a trial sleeps, the agent wakes at most once a second. On a busy machine it may need a while until it sleeps."""
    process = start(
        agent, encode_plan_header() + encode_request(request(tmp_path, "/bin/sleep", "60", timeout_ms=90_000))
    )
    until(lambda: alive(tmp_path))
    pids = agents(agent)
    assert len(pids) == 2

    def switches() -> int:
        lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    def woken() -> int:
        before = switches()
        time.sleep(1.2)
        return switches() - before

    assert any(woken() <= 4 for _ in range(10))
    finish(process)
    until(lambda: not alive(tmp_path))


def test_the_host_restarts_a_dead_agent(agent: Path) -> None:
    with HostTarget(agent) as target:
        folder = Path(target.scratch())
        assert target.run(request(folder, "/bin/true")).outcome is ProcessOutcome.EXITED
        with pytest.raises(TargetError, match=r"The agent"):
            target.run(request(folder, "/bin/sh", "-c", "setsid sleep 60 & kill -KILL $PPID; sleep 60"))
        assert not alive(folder)
        assert target.run(request(folder, "/bin/true")).outcome is ProcessOutcome.EXITED


def test_the_host_reports_an_agent_that_does_not_answer(agent: Path) -> None:
    with HostTarget(agent, slack_s=0.3) as target:
        folder = Path(target.scratch())
        script = "(sleep 1; kill -CONT $PPID) & kill -STOP $PPID; sleep 60"
        with pytest.raises(TargetError, match="The agent did not answer in time"):
            for timeout_ms in (
                100,
                1000,
                10_000,
            ):  # on a busy machine, the agent may end the trial before it is stopped
                target.run(request(folder, "/bin/sh", "-c", script, timeout_ms=timeout_ms))
        until(lambda: not alive(folder))
        assert target.run(request(folder, "/bin/true")).outcome is ProcessOutcome.EXITED


def test_a_program_that_stops_the_agent_leaves_nothing(agent: Path) -> None:
    with HostTarget(agent, slack_s=0.3, stop_timeout_s=0.5) as target:
        folder = Path(target.scratch())
        with pytest.raises(TargetError, match="The agent did not answer in time"):
            for timeout_ms in (100, 1000, 10_000):  # as above
                target.run(request(folder, "/bin/sh", "-c", "kill -STOP $PPID; sleep 60", timeout_ms=timeout_ms))
        until(lambda: not alive(folder) and not agents(agent))


def test_a_long_answer_may_take_longer_than_the_trial(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that sends is not hung: outputs of megabytes take their time on a busy machine."""
    now_s = time.monotonic()

    class SlowReader(AnswerReader):
        def feed(self, data: bytes, nonce: str = "") -> tuple[AgentAnswer, ...]:
            nonlocal now_s
            now_s += len(data) / 300_000
            return super().feed(data, nonce)

    monkeypatch.setattr(agent_target, "AnswerReader", SlowReader)
    monkeypatch.setattr(agent_target, "time", types.SimpleNamespace(monotonic=lambda: now_s))
    with HostTarget(agent) as target:
        script = ("/bin/sh", "-c", "head -c 8000000 /dev/zero")
        answer = target.run(request(Path(target.scratch()), *script, timeout_ms=10_000, output_bytes=16 << 20))
    assert (answer.outcome, len(answer.stdout)) == (ProcessOutcome.EXITED, 8_000_000)


def test_an_answer_without_an_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_target, "_LONGEST_ANSWER_BYTES", 1 << 20)
    fake = tmp_path / "agent"
    fake.write_text("#!/bin/sh\necho swapstone-agent 7\necho begin t\nexec yes out x\n")
    fake.chmod(0o755)
    with (
        HostTarget(fake, stop_timeout_s=0.2) as target,
        pytest.raises(TargetError, match="answer has more than 1 MiB"),
    ):
        target.run(request(Path(target.scratch()), "/bin/true", id="t"))


def test_the_host_refuses_an_invalid_answer(tmp_path: Path) -> None:
    fake = tmp_path / "agent"
    fake.write_text("#!/bin/sh\necho swapstone-agent 7\necho begin t\necho fact wall_ns nan\nexec sleep 60\n")
    fake.chmod(0o755)
    with (
        HostTarget(fake, stop_timeout_s=0.2) as target,
        pytest.raises(TargetError, match=r"answer is invalid: Line 3 .*wall_ns is 'nan', not a whole number"),
    ):
        target.run(request(Path(target.scratch()), "/bin/true"))


def test_the_host_empties_its_scratch_folder(agent: Path) -> None:
    target = HostTarget(agent)
    folder = Path(target.scratch())
    script = "mkdir -p a/b; touch a/b/c 'odd name'; ln -s / link; chmod 000 a/b a; mkfifo pipe"
    target.run(request(folder, "/bin/sh", "-c", script, id="fills"))
    assert {path.name for path in folder.iterdir()} == {"a", "odd name", "link", "pipe"}
    seen = target.run(request(folder, "/bin/ls", "-A", id="looks"))
    assert seen.stdout == b""
    target.close()
    assert not folder.exists()


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_process_and_no_folder(agent: Path) -> None:
    script = """
import sys
from pathlib import Path
from swapstone.core.targets.host import HostTarget
from tests.unit.agent.harness import request
with HostTarget(Path(sys.argv[1])) as target:
    print(target.scratch(), flush=True)
    target.run(request(Path(target.scratch()), "/bin/sh", "-c", "setsid sleep 60 & sleep 60"))
"""
    top = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{top / 'src'}:{top}"}
    process = subprocess.Popen(
        [sys.executable, "-c", script, agent], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().decode().strip())
    until(lambda: len(alive(folder)) >= 3)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    assert not alive(folder)
    assert not folder.exists()


def test_a_request_larger_than_a_pipe_is_carried_out(agent: Path, tmp_path: Path) -> None:
    words = ["a" * 100_000] * 3
    (answer,) = run(agent, request(tmp_path, "/bin/echo", *words, output_bytes=1 << 20))
    assert answer.stdout == (" ".join(words) + "\n").encode()


def test_a_request_that_the_kernel_refuses_is_unstarted(agent: Path, tmp_path: Path) -> None:
    (answer,) = run(agent, request(tmp_path, "/bin/echo", "a" * 200_000))
    assert (answer.outcome, answer.code) == (ProcessOutcome.UNSTARTED, 7)  # E2BIG: one argument holds at most 128 KiB


def test_refusals_are_wire_errors() -> None:
    assert issubclass(AgentRefusedError, WireError)
