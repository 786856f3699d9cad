# SPDX-License-Identifier: MIT OR Apache-2.0
"""Standard output or standard error that is full, closed or without a reader, and a removed current folder: an error, never a traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from swapstone.cli.main import COMMANDS
from swapstone.core.record import load
from tests.e2e.cli import TIMEOUT_S, command, environment, fake, forked_status, swapstone

ONLY = ("--only", "b_malloc_tiny1", "--blocks", "2", "--seed", "3")
STUDY = 'title = "t"\nquestion = "q"\nfactor = [{ name = "libc", levels = ["glibc", "musl"] }]\n' + "".join(
    f'[[part]]\nname = "{name}"\ntitle = "T"\nsuites = ["libc"]\nonly = ["{workload}"]\nbudget = "1m"\n'
    for name, workload in (("one", "b_malloc_tiny1"), ("two", "b_string_strlen"))
)

PRINTING: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "libc=glibc,musl", *ONLY, "--target", "fake:fake.toml"),
    "study": ("study", "./two.toml", "--target", "fake:fake.toml", "--blocks", "2"),
    "show": ("show", "one"),
    "report": ("report", "one", "--markdown"),
    "export": ("export", "one", "--format", "csv"),
    "verify": ("verify", "one"),
    "agree": ("agree", "one", "two"),
    "rerun": ("rerun", "one"),
    "query": ("query", "SELECT record, runs FROM records"),
    "list": ("list", "workloads"),
    "conform": ("conform", "--markdown"),
    "published": ("published", "list"),
    "image": ("image", "list"),
    "completion": ("completion", "bash"),
    "docs": ("docs", "tutorial"),
    "doctor": ("doctor",),
}
IN_EACH_WAY = ("compare", "show", "report", "list")
"""Commands that are tested with a stream that is full, one that is closed and one without a reader; the others with one that is full."""

REFUSED = {
    "explain": ("explain", "one"),
    "profile": ("profile", "one"),
    "sdk": ("sdk", "--libc", "none", "--out", "sdk"),
    "target": ("target", "clean", "host"),
    "plan": ("plan", "libc=glibc,musl", "--store", "store"),
    "run-trial": ("run-trial", "--store", "store"),
    "collect": ("collect", "ab" * 32, "--store", "store"),
    "gate": ("gate", "--base", "none"),
    "bisect": ("bisect", "none"),
    "history": ("history",),
}
"""Commands that end with an error on standard error: the fake target has no explanations; the others name something that is absent."""

UNPRINTED = re.compile(r"error: Standard output (?P<why>.*): not all results were printed\.\n")


class Ended(NamedTuple):
    """A command that ended: its exit status, and what it printed where that could be read."""

    status: int
    printed: str


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory, agents: Path) -> Path:
    """A folder with two records, a study, and the description of the fake target. Commands run in it."""
    folder = tmp_path_factory.mktemp("records")
    fake(folder)
    shutil.copytree(agents, folder / "cache/swapstone/agents")
    (folder / "two.toml").write_text(STUDY)
    for name in ("one", "two"):
        target = ("--target", "fake:fake.toml", "--out", name)
        swapstone(folder, "compare", "libc=glibc,musl", *ONLY[:4], "--seed", str(len(name + name[0])), *target)
    return folder


@contextmanager
def _without_reader() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def _full() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def _ended(folder: Path, arguments: tuple[str, ...], stream: str, how: str) -> Ended:
    """Run a command with one stream full, closed or without a reader; the other one is read."""
    with (
        tempfile.TemporaryFile() as read,
        _without_reader() if how == "pipe" else _full() as bad,
    ):
        number = 1 if stream == "stdout" else 2
        out, err = (bad, read.fileno()) if number == 1 else (read.fileno(), bad)
        closed = (number,) if how == "closed" else ()
        asked = environment(folder, XDG_CACHE_HOME=str(folder / "cache"))
        status = forked_status(folder, list(arguments), asked, out=out, err=err, closed=closed)
        read.seek(0)
        printed = read.read().decode()
    assert "Traceback (most" not in printed and "Exception ignored" not in printed and "This is a bug" not in printed
    return Ended(status, printed)


def test_every_command_is_here() -> None:
    assert {*PRINTING, *REFUSED} == set(COMMANDS)


EXAMINED = pytest.param("doctor", marks=pytest.mark.exhaustive)
"""It examines the machine for some seconds, and prints as the others do."""
SOON = [name for name in PRINTING if name != "doctor"]


@pytest.mark.parametrize("name", [*SOON, EXAMINED])
def test_standard_output_that_cant_be_written(records: Path, name: str) -> None:
    for how, why in (("full", "can't be written (No space left on device)"), ("closed", "is closed"), ("pipe", "")):
        if how == "full" or name in IN_EACH_WAY:
            ended = _ended(records, PRINTING[name], "stdout", how)
            found = UNPRINTED.findall(ended.printed)
            # A reader such as head may end first: that is no error.
            assert (ended.status, found) == ((2, [why]) if why else (0, []))


@pytest.mark.parametrize("name", [*SOON, EXAMINED, *REFUSED])
def test_standard_error_that_cant_be_written(records: Path, name: str) -> None:
    arguments = {**PRINTING, **REFUSED}[name]
    for how in ("full", "closed", "pipe") if name in IN_EACH_WAY else ("full",):
        ended = _ended(records, arguments, "stderr", how)
        if name in REFUSED:
            assert ended.status == 2
        else:
            assert ended.printed and (ended.status == 0 or how == "full"), ended


def test_an_experiment_is_not_lost_because_its_messages_cant_be_printed(records: Path, tmp_path: Path) -> None:
    for stream in ("stdout", "stderr"):
        for how in ("full", "closed", "pipe"):
            out = tmp_path / f"{stream}-{how}"
            _ended(records, (*PRINTING["compare"], "--out", str(out)), stream, how)
            view = load(out)
            assert view.damages == () and view.seal is not None and view.seal.state == "complete"
            assert (out / "lock").read_bytes() == b"", "a closed descriptor's number is not used for a file"


@pytest.mark.parametrize(
    ("redirected", "status", "expected"),
    [
        (
            ">/dev/full",
            2,
            "error: Standard output can't be written (No space left on device): not all results were printed.\n",
        ),
        (">&-", 2, "error: Standard output is closed: not all results were printed.\n"),
        (">&- 2>&-", 2, ""),
        ("<&-", 0, ""),
        ("2>&- <&-", 0, ""),
        (">/dev/full 2>/dev/full", 2, ""),
    ],
)
def test_a_whole_process(tmp_path: Path, redirected: str, status: int, expected: str) -> None:
    """With the interpreter's own start and end, which flushes the streams again."""
    script = f'"$@" {redirected}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command("list", "factors")],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, expected)
    assert bool(done.stdout) == (">&-" not in redirected.replace("2>&-", "") and "full" not in redirected)


def test_a_reader_that_ends_first(tmp_path: Path) -> None:
    with _without_reader() as pipe:
        done = subprocess.run(
            command("list", "workloads"), env=environment(tmp_path), cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE,
            text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("words", "status"), [("list factors", 2), ("compare libc=glibc,musl", 2), ("--version", 0)])
def test_a_removed_current_folder(tmp_path: Path, words: str, status: int) -> None:
    (tmp_path / "gone").mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "swapstone", *words.split()],
        env=environment(tmp_path), cwd=tmp_path / "gone", capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert not (tmp_path / "gone").exists()
    assert done.returncode == status
    expected = "error: The current folder was removed.\nChange to another one: cd\n" if status else ""
    assert done.stderr == expected


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR"])
@pytest.mark.parametrize(("words", "status"), [("list factors", 2), ("--version", 0)])
def test_a_relative_folder_is_refused_by_name(tmp_path: Path, name: str, words: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "swapstone", *words.split()],
        env=environment(tmp_path) | {name: "here"}, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert done.stderr.startswith(f"error: {name} is a relative path, " if status else "")
    assert not (tmp_path / "here").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", [".:{}", ":{}", "{}:", "here:{}"])
def test_no_program_of_the_current_folder_runs(tmp_path: Path, path: str) -> None:
    (tmp_path / "here").mkdir()
    for folder in (tmp_path, tmp_path / "here"):
        for name in ("cc", "env", "perf", "strace", "uname"):
            (folder / name).write_text(f"#!/bin/sh\n: > {tmp_path}/ran\n")
            (folder / name).chmod(0o755)
    found = path.format("/nowhere")
    done = subprocess.run(
        [sys.executable, "-m", "swapstone", "doctor"],
        env=environment(tmp_path) | {"PATH": found}, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists()
