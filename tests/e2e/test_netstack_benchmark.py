# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/netstack over the kernel's stack: runs, counts, and removed namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from benchmarks.netstack_lab import PREFIX, why_not
from benchmarks.netstack_workloads import QUICK, WORKLOADS

from tests.programs import require

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "benchmarks" / "netstack"


@pytest.fixture
def requirements() -> None:
    require("cargo")
    if reason := why_not(["kernel"]):
        pytest.skip(f"unavailable: {reason}")


def namespaces(process: int) -> list[str]:
    """Return the namespaces that a process made: another test may have some at the same time."""
    listed = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"{PREFIX}-{process}-")]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("requirements")
def test_a_quick_run_over_the_kernel_counts_every_request(tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    command = (SCRIPT, "--quick", "--stacks", "kernel", "--counts", "--json", out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    found = json.loads(out.read_text())
    assert found["whole"] is True
    runs = {run["workload"]: run for run in found["runs"]}
    assert set(runs) == {workload.name for workload in WORKLOADS}
    assert {name: (run["status"], run["reason"]) for name, run in runs.items()} == dict.fromkeys(runs, ("ok", None))
    for name in ("ab", "http", "http-close"):
        assert runs[name]["requests"] == QUICK.requests
        assert runs[name]["server"]["requests"] == QUICK.requests
    assert runs["ping"]["requests"] == QUICK.messages
    assert runs["http"]["latency_us"]["count"] == QUICK.requests
    for run in runs.values():
        assert run["rate"] > 0
        assert 0 <= run["user_us"] <= run["cpu_us"]
    # The counting server: with the kernel's stack, all counted copies are the server's, and it allocates no memory for a request.
    counts = found["counts"][0]["server"]["counts"]
    assert counts["copies"]["calls"] > 0
    assert counts["heap"]["calls"] < QUICK.requests / 10
    assert "kernel" in stdout
    assert namespaces(process.pid) == []


@pytest.mark.slow
@pytest.mark.usefixtures("requirements")
def test_an_interrupted_run_saves_its_results_and_removes_its_namespaces(tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    command = (SCRIPT, "--quick", "--stacks", "kernel", "--blocks", "1000", "--json", out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("3 of"):
                break
        time.sleep(0.3)
        assert len(namespaces(process.pid)) == 2
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    found = json.loads(out.read_text())
    assert found["whole"] is False
    assert 2 <= len(found["runs"]) < 10
    assert namespaces(process.pid) == []
