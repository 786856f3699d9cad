# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a trial inherits and what interrupts it: changes of the agent by its child, signals that stop, processes that are left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from swapstone.core.model.observation import INHERITED, changed_conditions
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, AnswerReader, ProcessOutcome, encode_plan_header, encode_request
from swapstone.core.wire.output_reading import interruption
from tests.programs import require
from tests.unit.agent.harness import agents, alive, finish, one, request, until
from tests.unit.agent.test_server import served

CPUS = sorted(os.sched_getaffinity(0))
IMPORTS = "import os, resource; parent = os.getppid()\n"
CHANGES = {
    "processors": ("os.sched_setaffinity(parent, {min(os.sched_getaffinity(0))})", ("agent_cpus", "agent_cpu_bits")),
    "nice": ("n = os.getpriority(0, parent); os.setpriority(0, parent, n + 1 if n < 19 else 18)", ("agent_nice",)),
    "policy": ("os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))", ("agent_policy",)),
    "limits": (
        "resource.prlimit(parent, resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
        ("agent_limits_crc",),
    ),
}


def test_the_facts_are_what_the_agent_inherited(agent: Path, tmp_path: Path) -> None:
    facts = dict(one(agent, request(tmp_path, "/bin/true")).facts)
    assert facts["agent_cpus"] == len(CPUS)
    assert facts["agent_cpu_bits"] == sum(1 << cpu for cpu in CPUS if cpu < 63)
    assert facts["agent_nice"] == os.nice(0)
    assert facts["agent_policy"] == os.sched_getscheduler(0)
    limits = [resource.getrlimit(number) for number in range(16)]
    assert facts["agent_limits_crc"] == zlib.crc32("".join(f"{s}\n{h}\n" for s, h in limits).encode())
    assert facts["changed_conditions"] == 0
    assert (facts["stops"], facts["suspended_ns"], facts["clock_step_ns"]) == (0, 0, 0)
    assert facts["late_ns"] >= 0


def test_the_facts_are_there_for_a_program_that_can_not_be_started(agent: Path, tmp_path: Path) -> None:
    facts = dict(one(agent, request(tmp_path, tmp_path / "absent")).facts)
    assert (facts["agent_cpus"], facts["changed_conditions"], facts["stops"]) == (len(CPUS), 0, 0)
    assert "wall_ns" not in facts


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_that_changes_its_parent_is_found_and_the_next_trial_has_the_first_conditions(
    agent: Path, tmp_path: Path, name: str
) -> None:
    if name == "processors" and len(CPUS) < 2:
        pytest.skip("this machine has one processor")
    if name == "nice" and os.nice(0) == 19 and os.geteuid() != 0:
        pytest.skip("there is no higher nice value")
    statement, facts = CHANGES[name]
    with HostTarget(agent) as target:
        first = dict(target.run(request(tmp_path, "/bin/true")).facts)
        changing = target.run(request(tmp_path, sys.executable, "-c", IMPORTS + statement))
        assert (changing.outcome, changing.code) == (ProcessOutcome.EXITED, 0), changing
        assert changed_conditions(dict(changing.facts)) == facts
        after = dict(target.run(request(tmp_path, "/bin/true")).facts)
    assert changed_conditions(after) == ()
    assert {fact: first.get(fact) for fact in INHERITED} == {fact: after.get(fact) for fact in INHERITED}
    assert after["cpus_allowed"] == first["cpus_allowed"]


def test_changes_of_the_program_itself_are_no_changes_of_the_agent(agent: Path, tmp_path: Path) -> None:
    statement = (
        f"os.nice(1); os.sched_setaffinity(0, {{{CPUS[0]}}}); resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))"
    )
    facts = dict(one(agent, request(tmp_path, sys.executable, "-c", IMPORTS + statement)).facts)
    assert (facts["nice"], facts["cpus_allowed"]) == (min(19, os.nice(0) + 1), 1)
    assert changed_conditions(facts) == ()


@pytest.mark.skipif(len(CPUS) < 2, reason="this machine has one processor")
@pytest.mark.parametrize("cpus", [CPUS[:2], CPUS[1:2]])
def test_a_program_is_pinned_to_each_processor_that_the_request_names(
    agent: Path, tmp_path: Path, cpus: list[int]
) -> None:
    program = f"import os; assert os.sched_getaffinity(0) == {set(cpus)}"
    answer = one(agent, request(tmp_path, sys.executable, "-c", program, cpus=tuple(cpus)))
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    assert dict(answer.facts)["cpus_allowed"] == len(cpus)


def state(pid: int) -> str:
    """Return the state of a process, e.g. ``S`` while it sleeps."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stop_of_all_processes_is_counted_and_the_agent_was_late(agent: Path, tmp_path: Path) -> None:
    """The agent, in a process group of its own, and the trial are stopped for longer than the second between two timers of the agent."""
    os.mkfifo(tmp_path / "go")
    plan = encode_plan_header() + encode_request(request(tmp_path, "/bin/sh", "-c", "read word <go"))
    process = subprocess.Popen([agent, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(plan)
    process.stdin.close()
    until(lambda: alive(tmp_path))
    (program,) = alive(tmp_path)
    (worker,) = set(agents(agent)) - {process.pid}
    until(lambda: state(worker) == "S")  # it waits for the program or for its timer
    os.killpg(process.pid, signal.SIGSTOP)
    os.killpg(program, signal.SIGSTOP)
    time.sleep(1.3)
    os.killpg(process.pid, signal.SIGCONT)
    os.killpg(program, signal.SIGCONT)
    (tmp_path / "go").write_text("go\n")
    reader = AnswerReader()
    (answer,) = reader.feed(process.stdout.read())
    process.stdout.close()
    assert process.wait(60) == 0
    facts = dict(answer.facts)
    assert answer.outcome is ProcessOutcome.EXITED
    assert facts["stops"] >= 1
    assert facts["late_ns"] >= 200_000_000
    assert interruption(facts).startswith(
        "the measurement was interrupted: the program or the agent was stopped by a signal"
    )


def test_a_stop_of_the_agent_alone_is_counted(agent: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    asked = request(tmp_path, "/bin/sh", "-c", "read word <go")
    process = subprocess.Popen([agent, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(encode_plan_header() + encode_request(asked))
    process.stdin.flush()
    until(lambda: alive(tmp_path))
    (worker,) = set(agents(agent)) - {process.pid}
    os.kill(worker, signal.SIGSTOP)
    os.kill(worker, signal.SIGCONT)
    (tmp_path / "go").write_text("go\n")
    reader = AnswerReader()
    found: list[AgentAnswer] = []
    while not found:
        found = list(reader.feed(process.stdout.readline()))
    finish(process)
    assert dict(found[0].facts)["stops"] == 1


DAEMON = """
import os, socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
server.accept()
if os.fork():
    os._exit(0)
os.setsid()
while True:
    server.accept()
"""


@pytest.mark.parametrize("delayed", [False, True])
def test_a_server_that_becomes_a_daemon_does_not_end_the_agent(agent: Path, tmp_path: Path, *, delayed: bool) -> None:
    """Its first process ends when the load generator is being started, so the agent cleans up while that has just been forked.

    With `delayed`, strace delays the call of setsid, before which the load generator is in the process group of the agent.
    """
    if delayed:
        require("strace")
        slow = tmp_path / "slow"
        options = "-f -qq -o /dev/null -e trace=setsid -e inject=setsid:delay_enter=300000"
        slow.write_text(f'#!/bin/sh\nexec strace {options} {agent} "$@"\n')
        slow.chmod(0o755)
        agent = slow
    with HostTarget(agent) as target:
        for number in range(1 if delayed else 4):
            folder = tmp_path / str(number)
            folder.mkdir()
            asked = served(folder, "/")
            (folder / "server.py").write_text(DAEMON)
            answer = target.run(asked)
            assert answer.outcome in {ProcessOutcome.EXITED, ProcessOutcome.ORPHANS}, answer
            assert not alive(folder)


def test_every_process_of_a_trial_has_another_group_than_the_agent(agent: Path, tmp_path: Path) -> None:
    answer = one(
        agent, request(tmp_path, "/bin/sh", "-c", "cut -d' ' -f5,6 /proc/self/stat; cut -d' ' -f5,6 /proc/$PPID/stat")
    )
    own, parent = (line.split() for line in answer.stdout.decode().splitlines())
    assert own[0] == own[1] != parent[0]
    assert own[0] == str(dict(answer.facts)["pid"])
