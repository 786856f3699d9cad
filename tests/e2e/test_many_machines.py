# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiments on many workers: equal to the byte to a local run, by files alone and by Dask, with a lost worker and forged entries."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import swapstone as package
from swapstone.core.model import Run
from tests.contract.vm_images import need_emulator
from tests.e2e.cli import FAKE, TOP, environment, swapstone
from tests.programs import require
from tests.raw_outputs import raw_text
from tests.shared import Shared

ARGUMENTS = ("libc=glibc,musl", "--only", "b_malloc_tiny1", "--target", "vm", "--blocks", "1", "--seed", "1")


def made_runs(record: Path) -> list[Run]:
    """Return the runs of a record without their times, which are of this machine's clock."""
    view = package.load(record).view
    return [msgspec.structs.replace(run, started_unix_ns=0, elapsed_ns=0) for run in view.runs]


def raw_outputs(record: Path) -> dict[str, str]:
    """Return the raw outputs of a record, by digest."""
    return {digest: raw_text(record, digest) for run in made_runs(record) for digest in (run.output, run.answer)}


@pytest.fixture
def local(shared: Shared) -> Path:
    """A record of this machine alone, made once."""
    need_emulator()
    require("musl-gcc")
    return shared.folder("local", lambda folder: swapstone(folder, "compare", *ARGUMENTS, "--out", "r")) / "r"


@pytest.mark.slow
def test_files_alone_give_the_record_of_a_local_run(local: Path, tmp_path: Path) -> None:
    store = ("--store", f"file://{tmp_path}/store")
    planned = json.loads(swapstone(tmp_path, "plan", *ARGUMENTS, "--json", *store).stdout)
    assert planned["trials"] == 2 and len(planned["runs"]) == 2 and planned["finished"] == 0
    early = swapstone(tmp_path, "collect", planned["plan"], *store, expect=2)
    assert re.search(r"2 of \d+ runs are not finished; the first is [0-9a-f]{64}\.", early.stderr)
    assert f"swapstone run-trial --plan {planned['plan']}" in early.stderr
    first = swapstone(tmp_path, "run-trial", planned["runs"][0], *store)
    assert first.stdout.endswith("1 runs are in the store.\n")
    swapstone(tmp_path, "run-trial", "--plan", planned["plan"], "--share", "1/2", *store)
    swapstone(tmp_path, "run-trial", "--plan", planned["plan"], "--share", "2/2", *store)

    # An altered run is named, and made again by the next machine that is given the plan.
    altered = planned["runs"][1]
    path = tmp_path / "store" / "runs" / altered[:2] / altered
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"finished"', b'"finishes"'))
    refused = swapstone(tmp_path, "collect", planned["plan"], *store, expect=2)
    assert f"{altered} is refused: its content has another digest" in refused.stderr
    again = swapstone(tmp_path, "run-trial", "--plan", planned["plan"], *store)
    assert "is refused" in again.stderr and path.read_bytes() == whole

    swapstone(tmp_path, "collect", planned["plan"], *store, "--out", "collected")
    assert made_runs(tmp_path / "collected") == made_runs(local)
    assert raw_outputs(tmp_path / "collected") == raw_outputs(local) != {}
    swapstone(tmp_path, "verify", "collected")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A Dask scheduler with workers, each a process of its own."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


_AS_IN_FORKS = f"""
import runpy, sys
sys.path.append({str(TOP)!r})
from tests.uncompared_snapshots import leave_out_cold_starts
leave_out_cold_starts()
sys.path.pop()
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""Runs a module with the saved machines of the other tests of commands: see `tests.e2e.fork_server`."""


@contextlib.contextmanager
def cluster(folder: Path, count: int) -> Iterator[Cluster]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"DASK_DISTRIBUTED__WORKER__DAEMON": "False", "DASK_DISTRIBUTED__DASHBOARD__LINK": ""}
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        log = (folder / f"dask-{len(started)}.log").open("wb")
        module, *arguments = command
        with log:
            made = subprocess.Popen(
                [sys.executable, "-c", _AS_IN_FORKS, module, *arguments],
                env=environment(folder, **quiet),
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        started.append(made)
        return made

    try:
        scheduler = start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"
        )
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder / "dask"))
        workers = [start("distributed.cli.dask_worker", address, *options) for _ in range(count)]
        deadline = time.monotonic() + 120
        while not all(b"Registered to" in (folder / f"dask-{n}.log").read_bytes() for n in range(1, count + 1)):
            assert time.monotonic() < deadline and all(each.poll() is None for each in started)
            time.sleep(0.1)
        yield Cluster(address, scheduler, workers)
    finally:
        for each in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.exhaustive), 2, pytest.param(4, marks=pytest.mark.exhaustive)]
)
def test_dask_gives_the_record_of_a_local_run(local: Path, tmp_path: Path, count: int) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with cluster(tmp_path, count) as dask:
        many = ("--executor", f"dask:{dask.address}", "--store", f"{tmp_path}/store", "--recheck", "100%", "--no-cache")
        result = swapstone(tmp_path, "compare", *ARGUMENTS, *many, "--out", "many")
    assert made_runs(tmp_path / "many") == made_runs(local)
    assert raw_outputs(tmp_path / "many") == raw_outputs(local) != {}
    found = re.search(r"recheck: (\d+) runs were made twice, (\d+) by two workers, and were equal", result.stderr)
    assert found and int(found[1]) >= 2
    assert int(found[2]) == (0 if count == 1 else int(found[1]))


def _started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "swapstone", *arguments],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )


def _wait_for_a_run(folder: Path, record: str) -> None:
    deadline = time.monotonic() + 300
    runs = folder / record / "runs.jsonl"
    while not (runs.exists() and runs.read_bytes().count(b"\n") >= 1):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.exhaustive  # a worker that dies in tests/unit/targets/test_shared_runs.py does, too; Dask's workers make the record above
def test_a_killed_worker_loses_its_run_only(local: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with cluster(tmp_path, 2) as dask:
        many = ("--executor", f"dask:{dask.address}", "--store", f"{tmp_path}/store", "--no-cache")
        with _started(tmp_path, "compare", *ARGUMENTS, *many, "--out", "killed") as process:
            _wait_for_a_run(tmp_path, "killed")
            os.killpg(dask.workers[0].pid, signal.SIGKILL)
            _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert made_runs(tmp_path / "killed") == made_runs(local)


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/unit/targets/test_shared_runs.py closes the connection to an executor
def test_a_comparison_whose_scheduler_is_lost_can_be_resumed(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    longer = (*ARGUMENTS[:-4], "--blocks", "4", "--seed", "1")
    with cluster(tmp_path, 1) as dask:
        many = ("--executor", f"dask:{dask.address}", "--store", f"{tmp_path}/store", "--no-cache")
        with _started(tmp_path, "compare", *longer, *many, "--out", "gone") as process:
            _wait_for_a_run(tmp_path, "gone")
            os.killpg(dask.scheduler.pid, signal.SIGKILL)
            _, errors = process.communicate(timeout=600)
    assert process.returncode == 2, errors
    assert "The executor is gone: the connection to the Dask scheduler" in errors and "Traceback" not in errors
    kept = made_runs(tmp_path / "gone")
    assert 1 <= len(kept) < 8
    swapstone(tmp_path, "compare", "--resume", "gone", "--executor", "threads:2", "--store", f"{tmp_path}/store")
    whole = made_runs(tmp_path / "gone")
    assert len(whole) == 8 and whole[: len(kept)] == kept


STUDY = """
title = "musl against glibc"
question = "What does it cost?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
suites = ["libc"]
only = ["b_malloc_tiny1"]
blocks = 1
[[part]]
name = "exact"
title = "on the virtual clock"
target = "vm"
[[part]]
name = "simulated"
title = "on a fake target"
target = "fake:./fake.toml"
"""


@pytest.mark.slow
@pytest.mark.exhaustive  # the comparison of the part is made as with Dask above, and by threads
def test_the_exact_part_of_a_study_is_made_by_workers(local: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(STUDY)
    (tmp_path / "fake.toml").write_text(FAKE)
    many = ("--executor", "threads:2", "--store", f"{tmp_path}/store", "--recheck", "100%", "--no-cache")
    result = swapstone(tmp_path, "study", "./mine.toml", "--seed", "1", *many, "--out", "shared")
    assert "the part simulated is not on the virtual clock: it is measured here, without --store" in result.stderr
    assert re.search(r"recheck: [1-9]\d* runs were made twice, 0 by two workers, and were equal", result.stderr)
    assert made_runs(tmp_path / "shared" / "exact") == made_runs(local)
    assert raw_outputs(tmp_path / "shared" / "exact") == raw_outputs(local)
    assert len(made_runs(tmp_path / "shared" / "simulated")) >= 4
    refused = swapstone(tmp_path, "study", "./mine.toml", "--only-part", "simulated", *many, expect=2)
    assert "No part of this study takes --store, --executor and --recheck" in refused.stderr


def test_options_of_many_machines_are_of_the_virtual_clock(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(FAKE)
    base = ("compare", "libc=glibc,musl", "--target", "fake:fake.toml")
    for option, value in (("--store", "store"), ("--executor", "threads:2"), ("--recheck", "2%")):
        result = swapstone(tmp_path, *base, option, value, expect=2)
        assert f"{option} is of the virtual clock" in result.stderr and "--target vm" in result.stderr
    assert "no value for --recheck" in swapstone(tmp_path, *base, "--recheck", "x", expect=2).stderr
    swapstone(tmp_path, *base, "--only", "b_malloc_tiny1", "--blocks", "1", "--out", "measured")
    for option in ("--store=store", "--executor=threads:2", "--recheck=2%"):
        result = swapstone(tmp_path, "compare", "--resume", "measured", option, expect=2)
        assert f"{option.partition('=')[0]} is of the virtual clock" in result.stderr, "it is not ignored"
    assert not list(tmp_path.glob("store*"))


def test_bad_input_of_the_three_commands(tmp_path: Path) -> None:
    name, store = "ab" * 32, ("--store", "store")
    for arguments, words in (
        (("run-trial", name), "The store is missing."),
        (("run-trial", *store), "The name of a run is missing."),
        (("run-trial", "../x", *store), "is no name of a store's entry"),
        (("run-trial", name, *store), f"trials/ab/{name} is refused: it is missing"),
        (("run-trial", name, *store), "swapstone plan, or swapstone compare, with this --store."),
        (("run-trial", "--plan", name, *store), f"has no plan {name}"),
        (("run-trial", name, "--share", "1/2", *store), "--share is a share of a plan."),
        (("collect", name, *store), f"has no plan {name}"),
        (("collect", name, "--store", "nosuch://x"), "can't be opened"),
        (("plan", "libc=glibc,musl", "--target", "vm", *store), "A plan needs an exact number of blocks"),
        (("plan", "libc=glibc,musl", "--target", "vm", "--blocks", "2"), "The store is missing."),
        (
            ("plan", "libc=glibc,musl", "--target", "vm", "--arch", "arm64,x86_64", *store),
            "--arch takes one value here.",
        ),
    ):
        assert words in swapstone(tmp_path, *arguments, expect=2).stderr
    plan = tmp_path / "store" / "plans" / name[:2]
    plan.mkdir(parents=True)
    (plan / name).write_text("{}")
    assert f"plans/ab/{name} is refused" in swapstone(tmp_path, "collect", name, *store, expect=2).stderr
