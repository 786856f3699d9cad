# SPDX-License-Identifier: MIT OR Apache-2.0
"""A session has thousands of trials: none leaves a descriptor or a mapping open in the agent."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from swapstone.core.model import environment_variable, process_file, system_file
from swapstone.core.wire import AnswerReader, ProcessOutcome, TrialRequest, encode_plan_header, encode_request
from tests.unit.agent.harness import finish, request
from tests.unit.agent.test_server import served

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can list the descriptors of the agent")

OBSERVED = (
    process_file("limits"),
    system_file("/proc/sys/vm/swappiness"),
    system_file("/none"),
    environment_variable("A"),
)


def worker_of(keeper: int) -> int:
    """Return the process of the agent that runs the trials. It may have forked the process of the next one."""
    (pid,) = map(int, Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split())
    return pid


def used(pid: int) -> tuple[int, int, int]:
    """Return the numbers of open descriptors and of shared mappings of a process, and the size of its memory in KiB."""
    folder = Path(f"/proc/{pid}")
    shared = [line for line in (folder / "maps").read_text().splitlines() if line.split()[1].endswith("s")]
    size = re.search(r"VmSize:\s+(\d+) kB", (folder / "status").read_text())
    assert size is not None
    return len(list((folder / "fd").iterdir())), len(shared), int(size[1])


def settled(pid: int) -> tuple[int, int, int]:
    """Return what is used when the agent waits for the next request, and the process of the next trial for its release."""
    earlier = found = None
    while found is None or found != earlier:
        time.sleep(0.01)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        waiting = len(children) == 1 and all(state(each) == "S" for each in (pid, *children))
        earlier, found = found, used(pid) if waiting else None
    return found


def state(pid: object) -> str:
    """Return the state of a process (proc(5)): ``R`` of one that runs or that waits for a processor, ``S`` of one that sleeps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def trials(folder: Path) -> dict[ProcessOutcome, TrialRequest]:
    """Return a trial of each kind of end that leaves other descriptors to close."""
    shell = ("/bin/sh", "-c")
    return {
        ProcessOutcome.EXITED: request(folder, *shell, "echo a; echo b >&2", observe=OBSERVED),
        ProcessOutcome.SIGNALED: request(folder, *shell, "kill -9 $$"),
        ProcessOutcome.ORPHANS: request(folder, *shell, "sleep 60 & exit 0"),
        ProcessOutcome.UNSTARTED: request(folder, folder / "absent"),
        ProcessOutcome.TIMEOUT: request(folder, "/bin/sleep", "60", timeout_ms=10),
        ProcessOutcome.OVERFLOW: request(folder, *shell, "exec yes", output_bytes=1000),
        ProcessOutcome.DRIVEN: served(folder, "/", warm_ms=1),
        ProcessOutcome.UNDRIVEN: served(folder, arguments=("/no/such/load-generator",)),
    }


def test_no_trial_leaves_a_descriptor_or_a_mapping(agent: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([agent, "-"], process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    reader = AnswerReader()
    process.stdin.write(encode_plan_header())

    def ended(asked: TrialRequest) -> ProcessOutcome:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(encode_request(asked))
        process.stdin.flush()
        while not (found := reader.feed(process.stdout.readline())):
            pass
        return found[0].outcome

    try:
        found: list[dict[ProcessOutcome, tuple[int, int, int]]] = []
        every = trials(tmp_path)
        for _ in range(3):  # buffers that are kept are made by the first trial of a kind
            found.append({})
            for outcome, asked in every.items():
                assert ended(asked) is outcome
                found[-1][outcome] = settled(worker_of(process.pid))
        assert found[1] == found[2]
    finally:
        finish(process)
