# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/netstack-guest: the HTTP server on bare-metal riscv64 answers every request of ab over both stacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from benchmarks.netstack_guest import STACKS, why_no_guest
from benchmarks.netstack_lab import PREFIX

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "benchmarks" / "netstack-guest"
REQUESTS = 1000


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    reason = why_no_guest([name])
    if reason:
        pytest.skip(f"unavailable: {reason}")
    return name


def leftovers() -> list[str]:
    """Return the namespaces of benchmarks that have ended. Others may run beside this test."""
    listed = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX)]
    return [name for name in names if not Path("/proc", name.removeprefix(f"{PREFIX}-").partition("-")[0]).exists()]


def machines_of(process: int) -> list[int]:
    """Return the QEMU processes among a process's children."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [int(child) for child in children if "qemu" in Path(f"/proc/{child}/comm").read_text()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended, before or after its file was opened
        return []


@pytest.mark.slow
def test_the_bare_metal_server_answers_every_request(stack: str, tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    command = (SCRIPT, "--stacks", stack, "-n", str(REQUESTS), "-c", "10", "--json", out)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert f"Complete requests:      {REQUESTS}\n" in done.stdout
    assert "Failed requests:        0\n" in done.stdout
    found = json.loads(out.read_text())
    assert (found["stack"], found["requests"], found["failed"], found["gave_up"]) == (stack, REQUESTS, 0, None)
    # The guest counts the same requests, and reports the requested stack.
    guest = found["guest"]
    assert (guest["stack"], guest["requests"], guest["failed"]) == (stack, REQUESTS + found["probes"], 0)
    assert guest["malformed"] == guest["no_room"] == 0
    assert guest["tcp_sockets"] == 1  # the listening socket only
    assert leftovers() == []


@pytest.mark.slow
def test_an_interrupted_run_ends_the_machine_and_removes_the_namespace(stack: str) -> None:
    command = (SCRIPT, "--stacks", stack, "-n", "1000000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 1500
        while not machines_of(process.pid) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        machines = machines_of(process.pid)
        assert len(machines) == 1
        time.sleep(1)
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not Path(f"/proc/{machines[0]}").exists()
    assert leftovers() == []


SAMPLES = 200
PROFILE_REQUESTS = 2000
POLL = {
    "lwip": "<swapstone_net_lwip::Lwip as swapstone_net::stack::Stack>::poll",
    "smoltcp": "<swapstone_net_smoltcp::stack::Smoltcp as swapstone_net::stack::Stack>::poll",
}
"""What does the work of a stack; it is called through inlined functions of the sockets."""


@pytest.mark.slow
def test_samples_of_the_loaded_machine_have_stacks_up_to_its_entry(stack: str, tmp_path: Path) -> None:
    if reason := why_no_guest([stack], profile=True):
        pytest.skip(f"unavailable: {reason}")
    out, folder = tmp_path / "profile.json", tmp_path / "stacks"
    command = (SCRIPT, "--profile", "--samples", str(SAMPLES), "--stacks", stack, "--json", out)
    done = subprocess.run(
        (*command, "-n", str(PROFILE_REQUESTS), "--out", folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert (found["stack"], found["samples"], found["failed"]) == (stack, SAMPLES, 0)
    assert found["requests"] == PROFILE_REQUESTS * found["runs"]
    assert found["guest"]["failed"] == 0
    assert found["guest"]["requests"] >= found["requests"]
    stacks = [tuple(one["stack"]) for one in found["stacks"] for _ in range(one["samples"])]
    assert found["idle"] + len(stacks) == SAMPLES
    assert stacks  # the machine was loaded
    # Most stacks lead from the entry through the server to a named function.
    complete = [names for names in stacks if names[:3] == ("_start", "start", "swapstone_net_guest::server::serve")]
    assert len(complete) == found["whole"]
    assert len(complete) >= 0.9 * len(stacks)
    assert sum("[unknown]" not in names for names in stacks) >= 0.9 * len(stacks)
    assert any(POLL[stack] in names for names in complete)
    # What is printed and written is of the same samples.
    assert f" {SAMPLES} samples, " in done.stdout.splitlines()[0]
    assert f"{found['whole']} of {len(stacks)} stacks reach the entry code" in done.stdout
    folded = (folder / f"bare-{stack}-sampled.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == len(stacks)
    assert (folder / f"bare-{stack}-sampled.html").read_text().startswith("<!")
    assert leftovers() == []


@pytest.mark.slow
def test_an_interrupted_profile_ends_the_machine_and_removes_the_namespace(stack: str) -> None:
    command = (SCRIPT, "--stacks", stack, "--profile", "--samples", "100000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 1500
        while not machines_of(process.pid) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        machines = machines_of(process.pid)
        assert len(machines) == 1
        arguments = Path(f"/proc/{machines[0]}/cmdline").read_bytes().decode().split("\0")
        socket = Path(next(each for each in arguments if each.startswith("unix:")).split(":")[1].split(",")[0])
        time.sleep(2)
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not Path(f"/proc/{machines[0]}").exists()
    assert not socket.parent.exists()
    assert leftovers() == []
