# SPDX-License-Identifier: MIT OR Apache-2.0
"""The suite latency on this machine and on a board: levels, loads, durations, and what is unavailable without root."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model import Trial, UserError
from swapstone.core.session.precision_stop import check_budget
from swapstone.core.session.progress import ProgressText
from swapstone.core.session.request import ExperimentRequest, parse_factors, resolve
from tests.e2e.cli import command, environment, runs_of, swapstone
from tests.fake_ssh import FakeSsh
from tests.programs import with_nice_0
from tests.small_records import request_of

root = pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority and locked memory need root")
x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the packages that are used are of x86_64")


def request(text: str, **options: object) -> ExperimentRequest:
    return request_of(name="compare", factors=parse_factors([text]), suites=("latency",), **options)  # type: ignore[arg-type]


@root
@x86
@pytest.mark.slow
def test_c_libraries_are_compared_under_a_load(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("libc=glibc,musl", "--suite", "latency", "--target", "host", "--load", "idle,cpu")
    done = swapstone(tmp_path, "compare", *asked, "--duration", "300ms", "--blocks", "1", "--out", str(record))
    runs = runs_of(record)
    assert {run["trial"]["workload"] for run in runs} == {"wakeup"}
    assert {(run["status"], run["reason"]) for run in runs if run["trial"]["load"] == "idle"} == {("ok", "")}
    for run in runs:
        if run["status"] == "ok":
            assert run["trial"]["variant"] == f"libc={dict(run['observed'])['libc']}"
            assert sum(count for _, count in run["histogram"]) == 3000
    assert json.loads((record / "experiment.json").read_text())["wakeups"] == 3000
    tools = dict(json.loads((record / "manifest.json").read_text())["tools"])
    assert any(name.startswith("packaged ") and "stress-ng" in name for name in tools)
    assert "largest seen" in done.stdout
    assert "The largest latency seen is no worst case" in " ".join(done.stdout.split())


@root
@x86
@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", pytest.param("ssh:board", marks=pytest.mark.exhaustive)])
def test_priorities_of_cyclictest_are_observed_in_its_threads(tmp_path: Path, target: str) -> None:
    path = FakeSsh(tmp_path / "board").path if target != "host" else os.environ["PATH"]
    record = tmp_path / "r"
    asked = ("priority=fifo99,fifo01", "--target", target, "--only", "cyclictest", "--duration", "1s", "--blocks", "1")
    # On a busy machine a thread may not have its priority yet when the threads are read: such a run is refused.
    swapstone(tmp_path, "compare", *asked, "--out", str(record), PATH=path, expect=frozenset({0, 4}))
    runs = [run for run in runs_of(record) if run["status"] == "ok"]
    assert runs
    assert all("was in force" in run["reason"] for run in runs_of(record) if run["status"] != "ok")
    for run in runs:
        assert run["trial"]["variant"] == f"priority={dict(run['observed'])['priority']}"
        assert sum(count for _, count in run["histogram"]) >= 10_000


@x86
@root
@pytest.mark.slow
def test_without_root_the_reason_is_printed(tmp_path: Path) -> None:
    asked = ("libc=glibc,musl", "--suite", "latency", "--target", "host", "--duration", "100ms", "--blocks", "1")
    words = [*with_nice_0(), "setpriv", "--bounding-set=-sys_nice,-ipc_lock,-sys_resource", *command("compare", *asked)]
    found = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert found.returncode == 4
    assert "wakeup is unavailable on host: it needs a real-time priority" in found.stderr
    assert "RLIMIT" in found.stderr


def test_a_packaged_program_is_left_out_where_it_is_the_same_for_each_level() -> None:
    def names(text: str, **options: object) -> list[str]:
        return [name for _, name in resolve(request(text, **options)).workloads]

    assert names("libc=glibc,musl", target="host") == ["wakeup"]
    assert names("priority=fifo99,fifo01", target="host") == ["cyclictest", "wakeup"]
    assert names("libc=glibc,musl", target="host", only=("cyclictest",)) == ["cyclictest"]
    assert names("kernel=generic,rt") == ["cyclictest"]
    assert resolve(request("priority=fifo99,other")).target == "host"


def test_a_duration_is_a_number_of_wake_ups_within_bounds() -> None:
    assert resolve(request("priority=fifo99,fifo01", duration=2)).wakeups == 20_000
    assert resolve(request("priority=fifo99,fifo01", duration=1000)).wakeups == 10_000_000
    assert resolve(request("priority=fifo99,fifo01")).wakeups == 0
    for wrong in (0.099, 1000.0001):
        with pytest.raises(UserError, match="--duration is not between 100 ms and 1000 s"):
            resolve(request("priority=fifo99,fifo01", duration=wrong))
    libc = request_of(name="compare", factors=parse_factors(["libc=glibc,musl"]), duration=1)
    with pytest.raises(UserError, match="--duration is for the suite latency"):
        resolve(libc)


def test_long_trials_need_a_budget_and_have_an_estimate_of_their_end() -> None:
    long = request("priority=fifo99,fifo01", duration=1000, only=("wakeup",), target="host")
    with pytest.raises(UserError, match="2 variants x 1 workloads are 2 trials a block, at least 33 min"):
        check_budget(resolve(long))
    exact = resolve(request("priority=fifo99,fifo01", duration=1000, blocks=2, only=("wakeup",), target="host"))
    assert check_budget(exact) == (exact, "")
    trial = Trial(suite="latency", workload="wakeup", load="idle", variant="priority=fifo99", block=1, position=0)
    text = ProgressText(exact).trial(trial, 1, 2)
    assert text.startswith("about 50 min 00 s left; ")  # one trial of this block, two of the next


def test_a_load_that_needs_a_machine_of_its_own_is_unavailable(tmp_path: Path) -> None:
    asked = ("libc=glibc,musl", "--suite", "latency", "--target", "host", "--load", "planted")
    assert "the load planted needs one" in swapstone(tmp_path, "compare", *asked, expect=2).stderr
