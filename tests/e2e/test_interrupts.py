# SPDX-License-Identifier: MIT OR Apache-2.0
"""SIGKILL, SIGINT and resuming: no trial is lost, repeated or incomplete."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.record import load
from tests.e2e.cli import TOP, command, environment, fake, runs_of, swapstone
from tests.processes import ends

EXPERIMENT = (
    "compare",
    "libc=glibc,musl",
    "--only",
    "b_malloc_*",
    "--seed",
    "11",
    "--blocks",
    "10",
    "--correction",
    "family",
)


def _started(records: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        env=environment(records),
        cwd=records,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _lines(record: Path) -> int:
    path = record / "runs.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait_for_lines(process: subprocess.Popen[str], record: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while _lines(record) < count and process.poll() is None:
        assert time.monotonic() < deadline, "the experiment makes no progress"
        time.sleep(0.002)


def _whole(tmp_path: Path, target: str) -> list[dict[str, object]]:
    """Return the runs of the experiment without interruption."""
    swapstone(tmp_path, *EXPERIMENT, "--target", target, "--out", str(tmp_path / "whole"))
    return runs_of(tmp_path / "whole")


def _killed_and_resumed(tmp_path: Path, target: str, moments: Iterator[int], kills: int) -> Path:
    """Run the experiment and kill it `kills` times, each time after as many further runs as the next of `moments`."""
    record = tmp_path / "killed"
    arguments = [*EXPERIMENT, "--target", target, "--out", str(record)]
    for _ in range(kills):
        process = _started(tmp_path, *arguments)
        _wait_for_lines(process, record, _lines(record) + next(moments))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        if (record / "record.json").exists():
            load(record)  # the record is readable after each kill
            arguments = ["compare", "--resume", str(record)]
    if "--resume" in arguments and load(record).seal is None:
        swapstone(tmp_path, *arguments)
    return record


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.exhaustive])])
def test_an_experiment_killed_at_random_moments_resumes_to_the_same_runs(tmp_path: Path, kills: int) -> None:
    target = fake(tmp_path)
    whole = _whole(tmp_path, target)
    moments = random.Random(4)
    step = max(1, 2 * len(whole) // (3 * kills))
    record = _killed_and_resumed(tmp_path, target, iter(lambda: moments.randint(0, step), None), kills)
    view = load(record)
    keys = [run.trial.key for run in view.runs]
    assert len(keys) == len(set(keys))
    assert runs_of(record) == whole
    assert view.damages == ()
    assert view.seal is not None and view.seal.state == "complete" and view.seal.sessions > 1
    assert "Whole and unaltered" in swapstone(tmp_path, "verify", str(record)).stdout


def test_sigint_prints_the_verdicts_so_far_and_the_resume_command(tmp_path: Path) -> None:
    target = fake(tmp_path)
    whole = _whole(tmp_path, target)
    record = tmp_path / "stopped"
    process = _started(tmp_path, *EXPERIMENT, "--target", target, "--out", str(record))
    _wait_for_lines(process, record, 140)  # of 176: 7 pairs or more, enough for a verdict
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "b_malloc_tiny1" in out and "worse" in out
    assert f"swapstone compare --resume {record}" in err
    assert "Traceback" not in err
    assert 139 <= _lines(record) < len(whole)  # the last may be a run that was not yet synced
    assert "interrupted" in swapstone(tmp_path, "show", str(record)).stdout
    swapstone(tmp_path, "compare", "--resume", str(record))
    assert runs_of(record) == whole
    again = swapstone(tmp_path, "compare", "--resume", str(record), expect=2)
    assert "there is nothing to resume" in again.stderr


STUDY = """
title = "t"
question = "q"
suites = ["libc"]
only = ["b_malloc_tiny1"]
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
[[part]]
name = "one"
title = "One"
[[part]]
name = "two"
title = "Two"
"""


@pytest.mark.slow
@pytest.mark.parametrize("between_s", [0.0, pytest.param(0.1, marks=pytest.mark.exhaustive)])
def test_two_signals_during_a_study_lose_nothing_and_name_the_next_step(tmp_path: Path, between_s: float) -> None:
    (tmp_path / "two.toml").write_text(STUDY)
    options = ("--target", fake(tmp_path), "--blocks", "30", "--seed", "5", "--out", "s")
    process = _started(tmp_path, "study", "./two.toml", *options)
    _wait_for_lines(process, tmp_path / "s" / "one", 20)
    process.send_signal(signal.SIGINT)
    time.sleep(between_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err, err + out
    assert "swapstone study --resume" in err, err
    kept = runs_of(tmp_path / "s" / "one")
    assert len(kept) >= 19  # of 20 lines the last may be a run that was not yet synced
    resumed = swapstone(tmp_path, "study", "--resume", "s")
    assert "Traceback" not in resumed.stderr
    assert runs_of(tmp_path / "s" / "one")[: len(kept)] == kept
    for part in ("one", "two"):
        assert "Whole and unaltered" in swapstone(tmp_path, "verify", f"s/{part}").stdout


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "r"
    arguments = ["compare", "libc=glibc,musl", "--blocks", "2000", "--target", fake(tmp_path), "--out", str(record)]
    process = _started(tmp_path, *arguments)
    try:
        _wait_for_lines(process, record, 5)
        result = swapstone(tmp_path, "compare", "--resume", str(record), expect=2)
        assert "Another process is writing" in result.stderr
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_agent_ends_when_the_experiment_is_killed(tmp_path: Path) -> None:
    record = tmp_path / "r"
    arguments = ["compare", "libc=glibc,musl", "--only", "b_malloc_sparse", "--blocks", "12", "--out", str(record)]
    process = _started(tmp_path, *arguments)
    _wait_for_lines(process, record, 4)
    agents = _children(process.pid)
    assert agents
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert all(ends(pid) for pid in agents), f"the agent {agents} outlives the experiment"
    swapstone(tmp_path, "compare", "--resume", str(record))
    assert load(record).damages == ()


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


STARTS = ("list workloads", "compare libc=glibc,musl --target fake:none.toml", "show last", "query 'SELECT 1'")


def _interrupted(command: list[str], after_s: float, folder: Path, **changes: str) -> tuple[int, str]:
    """Start a command, send SIGINT after a while, and return the exit status and standard error."""
    started = {**environment(folder), **changes}
    process = subprocess.Popen(
        command, env=started, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_sigint_during_the_start_prints_one_line(tmp_path: Path, after_s: float) -> None:
    """The launcher, so that the interpreter's own start is included."""
    for arguments in STARTS[:2]:
        status, err = _interrupted([str(TOP / "swapstone"), *shlex.split(arguments)], after_s, tmp_path)
        if status != 130:  # it was quicker, or the signal came before the shell's first line
            assert status in {0, 2, -signal.SIGINT}
            assert after_s >= 0.1 or status == -signal.SIGINT
            continue
        # click ends the line of a terminal's ^C.
        assert err.removeprefix("\n").startswith("Interrupted") and err.removeprefix("\n").count("\n") == 1, err


def _interrupted_at_import(folder: Path, place: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in which the import of a module sends the signal itself, so that the moment is exact."""
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Sender:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {place!r} and 'swapstone' in sys.modules:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Sender())\n"
    )
    return subprocess.run(
        command(*arguments),
        env={**environment(folder), "PYTHONPATH": f"{folder}:{TOP / 'src'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("place", ["msgspec", "click", "swapstone.cli.compare"])
def test_sigint_during_an_import_ends_the_process(tmp_path: Path, place: str) -> None:
    result = _interrupted_at_import(tmp_path, place, "compare", "--help")
    assert (result.returncode, result.stderr) == (130, "Interrupted during the start: nothing was done.\n")


@pytest.mark.slow
def test_sigint_during_the_import_of_numpy_waits_and_ends_the_experiment(tmp_path: Path) -> None:
    """It is imported after the first block. After an exception at this place it refuses to be imported again."""
    record = tmp_path / "r"
    arguments = ("compare", "/bin/true", "/bin/true again", "--blocks", "20", "--out", str(record))
    result = _interrupted_at_import(tmp_path, "numpy._core._exceptions", *arguments)
    assert result.returncode == 130, result.stderr
    assert f"swapstone compare --resume {record}" in result.stderr
    assert "Traceback" not in result.stderr
    assert [run.trial.block for run in load(record).runs] == [0, 0]


def test_sigint_during_set_up_names_it_and_set_up_starts_again(tmp_path: Path) -> None:
    """The launcher with a Python that takes long to make the environment."""
    for name in ("swapstone", "tools/setup.sh", "packages", "requirements.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    slow = tmp_path / "python3"
    slow.write_text('#!/bin/sh\ncase "$*" in *venv*) sleep 1;; *) exit 0;; esac\n')
    slow.chmod(0o755)
    status, err = _interrupted([str(tmp_path / "swapstone"), "list"], 0.5, tmp_path, SWAPSTONE_PYTHON=str(slow))
    assert status == 130
    assert err.splitlines()[-1] == "Interrupted during the start: nothing was done."
    assert not (tmp_path / ".venv" / "lock.run").exists()


def test_sigint_during_a_build_names_the_command_that_resumes(tmp_path: Path) -> None:
    """The whole process group receives the signal, as from a terminal."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x.c").write_text("")
    record = tmp_path / "r"
    build = ("--source", "src", "--build", ": {cc} {cflags} {ldflags}; sleep 30", "--out", str(record), "--", "./x")
    process = _started(tmp_path, "compare", "libc=glibc,musl", *build)
    deadline = time.monotonic() + 60
    while not record.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)  # the build's shell has started
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"swapstone compare --resume {record}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "error" not in err
