# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers whose load generator is on another machine: through a real sshd on 127.0.0.1, with keys that are thrown away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import command, environment, runs_of, swapstone
from tests.e2e.ssh_server import HERE, THERE, SshServer, missing, network_namespace, ssh_server
from tests.programs import needs

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "sshd is there")]
ADDRESS = "127.0.0.2"
EXPERIMENT = ("compare", "allocator=default,mimalloc", "--suite", "server", "--blocks", "1", "--seed", "1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as found:
        yield found


def path_with(server: SshServer) -> str:
    return f"{server.bin}:{os.environ['PATH']}"


def values(run: dict[str, object]) -> dict[str, float]:
    return {sample["metric"]: sample["values"][0] for sample in run["samples"]}  # type: ignore[attr-defined] # JSON


def test_the_paced_load_generator_is_copied_and_both_machines_are_in_the_record(
    server: SshServer, tmp_path: Path
) -> None:
    record = tmp_path / "r"
    where = ("--driver-target", server.target, "--server-address", ADDRESS)
    stdout = swapstone(
        tmp_path, *EXPERIMENT, "--only", "http(paced)", *where, "--out", str(record), "--all", PATH=path_with(server)
    ).stdout
    runs = runs_of(record)
    assert {(run["status"], run["reason"]) for run in runs} == {("ok", "")}
    for run in runs:
        found = values(run)
        assert found["requests"] > 0 and found["cpu_per_request"] > 0 and found["latency_p99"] > 0
        assert "driver_cpu_per_request" not in found
    tools = dict(json.loads((record / "manifest.json").read_text())["tools"])
    assert tools["load generators on"] == server.target.removeprefix("ssh:")
    assert tools["servers listen on"] == ADDRESS
    assert os.uname().release in tools["load generators' machine: kernel"]
    assert "sha256 " in tools["driver swapstone-pace"]
    assert "ran on another machine" in " ".join(stdout.split())
    swapstone(tmp_path, "verify", str(record))
    refused = swapstone(tmp_path, "explain", str(record), "--only", "http(paced)", expect=2)
    assert "another machine" in refused.stderr


@pytest.mark.exhaustive  # builds redis three times
def test_redis_gets_its_load_from_a_load_generator_that_was_built_and_copied(server: SshServer, tmp_path: Path) -> None:
    """A closed loop over connections, of a fixed number of requests: the other kind than that of swapstone-pace."""
    record = tmp_path / "r"
    where = ("--driver-target", server.target, "--server-address", ADDRESS)
    swapstone(tmp_path, *EXPERIMENT, "--only", "redis_set(200kB)", *where, "--out", str(record), PATH=path_with(server))
    runs = runs_of(record)
    assert {(run["status"], run["reason"]) for run in runs} == {("ok", "")}
    for run in runs:
        found = values(run)
        assert found["requests"] > 0 and found["cpu_per_request"] > 0
        assert 0 < found["latency_p50"] <= found["latency_p99"] <= found["latency_max"]
        assert "driver_cpu_per_request" not in found
    tools = dict(json.loads((record / "manifest.json").read_text())["tools"])
    assert tools["load generators on"] == server.target.removeprefix("ssh:")
    assert tools["servers listen on"] == ADDRESS
    assert "/driver-" in tools["driver redis-benchmark"]  # a copy
    swapstone(tmp_path, "verify", str(record))


@needs("wrk")
@pytest.mark.exhaustive  # it builds redis with every allocator
def test_a_study_finds_its_load_generator_on_the_other_machine(server: SshServer, tmp_path: Path) -> None:
    chosen = ("study", "musl-malloc", "--only-part", "one-thread", "--only", "http(c=10,t=1)", "--blocks", "1")
    where = ("--driver-target", server.target, "--server-address", ADDRESS, "--out", str(tmp_path / "s"))
    asked = environment(tmp_path, PATH=path_with(server))
    made = subprocess.run(
        command(*chosen, *where), env=asked, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert made.returncode in {0, 4}, made.stderr  # 4: a busy machine disturbs every block
    record = tmp_path / "s" / "one-thread"
    runs = [run for run in runs_of(record) if run["status"] == "ok"]
    assert {run["trial"]["variant"] for run in runs} >= {
        "libc=musl,allocator=default",
        "libc=musl,allocator=mimalloc",
    }
    assert all(values(run)["requests"] > 0 for run in runs)
    tools = dict(json.loads((record / "manifest.json").read_text())["tools"])
    assert tools["driver wrk"].partition(",")[0].endswith("/wrk")
    assert (tools["servers listen on"], "driver swapstone-pace" in tools) == (ADDRESS, False)


def test_requests_cross_a_network_to_the_address_from_which_ssh_comes(tmp_path: Path) -> None:
    """The other machine is a network namespace, which reaches the server at no other address."""
    (tmp_path / "ssh").mkdir()
    with network_namespace() as namespace, ssh_server(tmp_path / "ssh", THERE, namespace) as server:
        only = ("--only", "http(paced)", "--driver-target", server.target)
        swapstone(tmp_path, *EXPERIMENT, *only, "--out", str(tmp_path / "r"), PATH=path_with(server))
    assert {(run["status"], run["reason"]) for run in runs_of(tmp_path / "r")} == {("ok", "")}
    tools = dict(json.loads((tmp_path / "r" / "manifest.json").read_text())["tools"])
    assert tools["servers listen on"] == HERE


def test_an_unknown_host_key_is_refused_before_anything_runs(server: SshServer, tmp_path: Path) -> None:
    kept = server.known_hosts.read_text()
    server.known_hosts.write_text("")
    try:
        where = ("--driver-target", server.target, "--out", str(tmp_path / "r"))
        result = swapstone(tmp_path, *EXPERIMENT, "--only", "http(paced)", *where, expect=2, PATH=path_with(server))
    finally:
        server.known_hosts.write_text(kept)
    assert "Host key verification failed" in result.stderr
    assert "Connect once by hand and compare the host key" in result.stderr
    assert not (tmp_path / "r").exists()


def _processes(word: str) -> set[int]:
    """Return the processes with a word in their command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_the_remote_load_generator_ends_with_the_command(
    server: SshServer, tmp_path: Path, signal_number: signal.Signals
) -> None:
    mark = f"9{os.getpid()}.5{int(signal_number)}"
    client = tmp_path / "client"
    client.write_text(f"#!/bin/sh\nexec sleep {mark}\n")
    client.chmod(0o755)
    program = Path(__file__).parents[2] / "native" / "workloads" / "server.c"
    shutil.copy(program, tmp_path / "server.c")
    (tmp_path / "Makefile").write_text("server: server.c\n\t$(CC) $(CFLAGS) -o $@ $< $(LDFLAGS) -pthread\n")
    asked = (
        *(
            "compare",
            "allocator=default,mimalloc",
            "--source",
            str(tmp_path),
            "--build",
            "make CC={cc} LDFLAGS={ldflags}",
        ),
        *("--server", "./server {port} 1 20 4096 {address}", "--load-generator", f"{client} {{address}} {{port}}"),
        *("--read", r"regex:(?P<requests>\d+) requests", "--warm-up", "0", "--blocks", "1"),
        *("--driver-target", server.target, "--server-address", ADDRESS),
    )
    process = subprocess.Popen(
        command(*asked),
        env=environment(tmp_path, PATH=path_with(server)),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not _processes(mark):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the load generator was not started"
        time.sleep(0.05)
    os.kill(process.pid, signal_number)
    process.communicate(timeout=120)
    deadline = time.monotonic() + 60
    while left := _processes(mark):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)
