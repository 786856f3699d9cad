# SPDX-License-Identifier: MIT OR Apache-2.0
"""A crash or an error at each operation: the next step leads to the result of an undisturbed run, and no error is a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import TOP
from tests.faults.injection import CHANGING, FAILURES, KINDS, Fault, Operation
from tests.faults.scenarios import SCENARIOS, missing_programs

QUICK = dict.fromkeys(("experiment", "report"), 8)
"""Points of each kind of work in `./test`; the others need a compiler, apt-get or the agent, or begin with an experiment too."""

SLOW = {name: 120 if name == "experiment" else 40 for name in SCENARIOS}


def _examine(name: str, most: int) -> None:
    if missing := missing_programs(name):
        pytest.skip(missing)
    words = [name, "--most", str(most), "--json"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.faults.crash_points", *words],
        env={**os.environ, "PYTHONPATH": f"{TOP}:{TOP / 'src'}", "OPENBLAS_NUM_THREADS": "1"},
        cwd=TOP, capture_output=True, text=True, check=False, timeout=1800,
    )  # fmt: skip
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each for each in outcomes if each["defect"]] == [], done.stderr
    assert done.returncode == 0 and len(outcomes) >= min(most or 50, 8), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_sample_of_points(name: str) -> None:
    _examine(name, QUICK[name])


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SLOW)
def test_many_points(name: str) -> None:
    _examine(name, SLOW[name])


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_point(name: str) -> None:
    _examine(name, 0)


_SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from tests.faults.injection import Fault, Injection
import json, tempfile, shutil

folder = Path(sys.argv[1])
kind, point, lasting = json.loads(sys.argv[2])
injection = Injection((folder,), Fault(kind, point, lasting) if kind else None)
os.chdir(folder)
injection.install()
errors = []

def step(function):
    try:
        function()
    except OSError as error:
        errors.append(error.strerror)

step(lambda: Path("a").mkdir())
step(lambda: Path("a/b").write_bytes(b"0123456789"))
step(lambda: Path("a/c").write_text("text"))
step(lambda: Path("a/b").rename("a/d"))
step(lambda: os.fsync(os.open("a", os.O_RDONLY)))
step(lambda: Path("a/c").unlink())
step(lambda: subprocess.run(["true"], check=True))
step(lambda: shutil.rmtree("a"))
sys.stdout.write(json.dumps([[(each.kind, Path(each.path).name) for each in injection.operations], errors]))
"""
OPERATIONS = [
    *[("mkdir", "a"), ("create", "b"), ("write", "b"), ("create", "c"), ("write", "c"), ("rename", "d")],
    *[("read", "a"), ("sync", "a"), ("unlink", "c"), ("spawn", "true")],
]


def _injected(folder: Path, kind: str = "", point: int = 0, lasting: bool = False) -> tuple[int, list[object]]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SCRIPT, str(folder), json.dumps([kind, point, lasting])],
        env={**os.environ, "PYTHONPATH": str(TOP)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "Error" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout or "[]")


def test_operations_are_counted(tmp_path: Path) -> None:
    status, found = _injected(tmp_path)
    assert status == 0
    operations, errors = found
    assert [tuple(each) for each in operations][: len(OPERATIONS)] == OPERATIONS  # type: ignore[attr-defined]
    assert {each[0] for each in operations} >= {"unlink", "rmdir"}  # type: ignore[attr-defined]
    assert errors == []


def test_a_crash_ends_the_process_before_the_operation(tmp_path: Path) -> None:
    number = OPERATIONS.index(("rename", "d"))
    assert _injected(tmp_path, "crash", number)[0] == 137
    assert (tmp_path / "a" / "b").read_bytes() == b"0123456789" and not (tmp_path / "a" / "d").exists()


def test_a_torn_write_is_half_of_it(tmp_path: Path) -> None:
    assert _injected(tmp_path, "torn", OPERATIONS.index(("write", "b")))[0] == 137
    assert (tmp_path / "a" / "b").read_bytes() == b"01234"


def test_errors_come_once_or_last(tmp_path: Path) -> None:
    for lasting, count in ((False, 1), (True, 4)):  # a/b, a/c, the rename, the sync
        folder = tmp_path / str(lasting)
        folder.mkdir()
        status, (_, errors) = _injected(folder, "ENOSPC", OPERATIONS.index(("create", "b")), lasting)
        assert status == 0
        assert isinstance(errors, list) and errors[0] == "No space left on device"
        assert errors.count("No space left on device") == count


def test_every_kind_of_operation_has_an_error() -> None:
    assert set(KINDS) == CHANGING | {"read"} == frozenset().union(*FAILURES.values()) | {"spawn"}
    assert str(Fault("EIO", 3, lasting=True)) == "EIO from point 3"
    assert Operation("write", "x") == Operation("write", "x")
