# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--target bare-riscv64`: stacks on an emulated machine without an operating system, from the command line to the record."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from swapstone.core.record import load
from swapstone.core.workloads import find_workload
from swapstone.parts.net.artifacts.crates import build_bare, missing_crate_requirement
from tests.e2e.cli import runs_of, swapstone
from tests.unit.crate_origin import crate_of

UNAVAILABLE = missing_crate_requirement(bare=True)
STACKS = ("lwip", "smoltcp")
CHURN = crate_of(find_workload("netstack-bare", "bare-churn"))

pytestmark = pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """Build what the commands below need; they have a time limit, and a first build takes minutes."""
    return {stack: build_bare(CHURN, stack).path for stack in STACKS}


def _figures(run: dict[str, object]) -> dict[str, float]:
    samples = run["samples"]
    assert isinstance(samples, list)
    return {sample["metric"]: sample["values"][0] for sample in samples}


@pytest.mark.first
@pytest.mark.slow
def test_stacks_are_measured_in_instructions_and_their_levels_reported_by_the_guest(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    record = tmp_path / "r"
    levels = ("lwip", "smoltcp", "smoltcp:shipped", "kernel")
    works = ["bare-churn", *(["bare-ab"] if shutil.which("ab") else [])]
    only = [word for work in works for word in ("--only", work)]
    command = ("compare", f"netstack={','.join(levels)}", "--target", "bare-riscv64", *only, "--blocks", "2")
    done = swapstone(tmp_path, *command, "--out", str(record), expect=4)
    assert "Note: netstack=kernel is unavailable: there is no operating system on that machine" in done.stderr
    assert "The server ran on an emulated machine without an operating system." in done.stdout
    every = runs_of(record)
    assert {run["trial"]["variant"] for run in every} == {f"netstack={level}" for level in levels}
    runs = [run for run in every if run["trial"]["variant"] != "netstack=kernel"]
    for run in every:
        if run not in runs:
            assert run["status"] != "ok" and run["reason"].startswith("unavailable: there is no operating system")
    each: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        trial, seen = run["trial"], dict(run["seen"])
        assert (run["status"], run["reason"]) == ("ok", ""), trial
        level = dict(run["observed"])["netstack"]
        assert f"netstack={level}" == trial["variant"]
        assert (seen["tap"], seen["kernel_sockets"]) == ("tap0", "none")
        assert seen["stack"].startswith(f"{level.partition(':')[0]} ")
        assert (seen["server_fixes"] == "none") == level.endswith(":shipped")
        figures = _figures(run)
        assert figures["rate"] > 0 and figures["p50"] <= figures["p99"] <= figures["max"]
        assert "cpu" not in figures
        each.setdefault((trial["workload"], level), []).append(figures["instructions"])
    for key, counts in each.items():
        assert min(counts) > 5_000, key
        assert max(counts) < 1.08 * min(counts), key
    manifest = load(record).manifest
    assert manifest is not None
    assert dict(manifest.tools)["emulator"].startswith("QEMU emulator version ")
    digests = {
        artifact.variant: next(sha256 for name, sha256 in artifact.sources if name.startswith("guest-"))
        for artifact in manifest.artifacts
    }
    assert digests["netstack=lwip"] != digests["netstack=smoltcp"] == digests["netstack=smoltcp:shipped"]


@pytest.mark.slow
def test_instructions_do_not_contain_the_waits_of_an_idle_machine(programs: dict[str, Path]) -> None:
    """With one client the machine mostly waits. The processor's counter, which follows the virtual clock, had eight times as many."""
    found = []
    for clients in ("50", "1"):
        command = (programs["lwip"], "trial", "--work", "bare-churn", "--stack", "lwip", "--clients", clients)
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        lines = (line.split() for line in done.stdout.splitlines())
        found.append(next(float(words[2]) for words in lines if words[:2] == ["figure", "instructions"]))
    assert found[0] < found[1] < 1.5 * found[0]


@pytest.mark.slow
def test_a_machine_that_can_t_start_its_stack_fails_the_trial_with_its_message(programs: dict[str, Path]) -> None:
    command = (programs["lwip"], "trial", "--work", "bare-churn", "--stack", "lwip:without-nothing")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "panicked at" in done.stderr and 'lwip has no fixes "without-nothing"' in done.stderr


def _machine_of(process: int) -> int | None:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return next((int(each) for each in children if "qemu" in Path(f"/proc/{each}/comm").read_text()), None)
    except OSError:
        return None


def _runs(process: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_machine_ends_with_the_trial(programs: dict[str, Path], sent: signal.Signals) -> None:
    command = (programs["lwip"], "trial", "--work", "bare-keepalive", "--stack", "lwip")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as trial:
        until = time.monotonic() + 30
        while (machine := _machine_of(trial.pid)) is None and trial.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert machine is not None
        trial.send_signal(sent)
        trial.wait(timeout=30)
    until = time.monotonic() + 30
    while _runs(machine) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(machine)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.4])  # in its boot, while its address is resolved, and while it serves
def test_a_machine_that_is_killed_fails_the_trial(programs: dict[str, Path], after_s: float) -> None:
    command = (programs["lwip"], "trial", "--work", "bare-keepalive", "--stack", "lwip")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as trial:
        until = time.monotonic() + 30
        while (machine := _machine_of(trial.pid)) is None and trial.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert machine is not None
        time.sleep(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(machine, signal.SIGKILL)
        out, error = trial.communicate(timeout=60)
    if after_s and trial.returncode == 0:  # a fast machine had ended before
        assert out
        return
    assert (trial.returncode, out) == (1, "")
    assert "the guest" in error


@pytest.mark.slow
def test_the_study_runs_its_part_there_and_names_the_others(programs: dict[str, Path], tmp_path: Path) -> None:
    command = ("study", "lwip-vs-smoltcp", "--target", "bare-riscv64", "--only", "bare-churn", "--only", "http-churn")
    done = swapstone(tmp_path, *command, "--blocks", "1", "--out", str(tmp_path / "s"))
    answer = " ".join(done.stdout.split())
    assert "Part 1 of 3: speed" in answer and "unavailable: The target bare-riscv64 has no operating system" in answer
    assert {run["status"] for run in runs_of(tmp_path / "s" / "bare")} == {"ok"}
