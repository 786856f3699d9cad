# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scripts of a checkout, started in a folder whose modules have the names of ours: none of these runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli import TOP

MODULES = (
    *("click", "msgspec", "numpy", "rich", "signal", "argparse", "runpy", "sitecustomize", "usercustomize"),
    *("ensurepip", "venv", "pip", "pytest", "swapstone/__init__", "swapstone/__main__", "benchmarks/__init__"),
)
TRACE = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\nraise SystemExit('a module of the folder ran')\n"

VARIABLES: dict[str, dict[str, str]] = {
    "no variable": {},
    "PYTHONPATH": {"PYTHONPATH": "{folder}"},
    "PYTHONPATH that is empty: the current folder": {"PYTHONPATH": ":"},
    "PYTHONHOME": {"PYTHONHOME": "{folder}"},
    "PYTHONSTARTUP": {"PYTHONSTARTUP": "{folder}/click.py", "PYTHONINSPECT": "1"},
    "PYTHONUSERBASE": {"PYTHONUSERBASE": "{folder}"},
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder with modules that leave a file and exit when they are imported."""
    folder = tmp_path / "hostile"
    for name in MODULES:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TRACE)
    return folder


def _started(folder: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWAPSTONE_"))}
    given = {name: value.format(folder=folder) for name, value in variables.items()}
    return subprocess.run(
        [TOP / script, *arguments],
        cwd=folder,
        env={**kept, "SWAPSTONE_RECORDS": str(folder / "records"), **given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", VARIABLES)
def test_the_launcher_imports_nothing_from_the_current_folder_or_the_users_variables(hostile: Path, name: str) -> None:
    result = _started(hostile, "swapstone", "list", "factors", **VARIABLES[name])
    assert (result.returncode, result.stderr) == (0, "")
    assert "allocator" in result.stdout
    assert not list(hostile.rglob("*.ran"))


PROGRAMS = (
    "python3",
    "readlink",
    "dirname",
    "env",
    "flock",
    "cmp",
    "id",
    "cc",
    "gcc",
    "ld",
    "git",
    "ssh-keygen",
    "getconf",
)


@pytest.mark.parametrize("entry", [".", "", "bin", "./bin", "../hostile/bin"])
def test_no_program_of_a_relative_entry_of_path_runs(hostile: Path, entry: str) -> None:
    for folder in (hostile, hostile / "bin"):
        folder.mkdir(exist_ok=True)
        for name in PROGRAMS:
            (folder / name).write_text(f"#!/bin/sh\n: >{hostile}/$(basename $0).ran\nexit 1\n")
            (folder / name).chmod(0o755)
    control = subprocess.run(["readlink"], cwd=hostile, env={"PATH": f"{entry}:{os.environ['PATH']}"}, check=False)
    assert control.returncode == 1 and (hostile / "readlink.ran").exists(), "the control: it runs without the check"
    (hostile / "readlink.ran").unlink()
    for path in (f"{entry}:{os.environ['PATH']}", f"/usr/bin:{entry}:{os.environ['PATH']}:{entry}"):
        result = _started(hostile, "swapstone", "list", "factors", PATH=path)
        assert (result.returncode, result.stderr) == (0, "") and "allocator" in result.stdout
        assert not list(hostile.rglob("*.ran"))


@pytest.mark.parametrize("script", ["benchmarks/libc-images", "tools/fuzz", "tools/check-spdx"])
def test_benchmarks_and_tools_do_not_either(hostile: Path, script: str) -> None:
    every = {name: value for variables in VARIABLES.values() for name, value in variables.items()}
    result = _started(hostile, script, "--help", **every | VARIABLES["PYTHONPATH"])
    assert (result.returncode, result.stderr) == (0, "") and "usage:" in result.stdout.lower()
    assert not list(hostile.rglob("*.ran"))


def test_the_modules_would_run_without_isolation(hostile: Path) -> None:
    """The control: what `python -m swapstone` does in that folder."""
    result = subprocess.run(
        [TOP / ".venv" / "bin" / "python", "-m", "swapstone"], cwd=hostile, capture_output=True, text=True, check=False
    )
    assert "a module of the folder ran" in result.stderr
    assert list(hostile.rglob("*.ran"))


def test_the_set_up_imports_nothing_from_the_current_folder(hostile: Path) -> None:
    """With the real Python: the probe of a module, the version, and the start of venv; the new environment is a script."""
    top = hostile.parent / "checkout"
    for name in ("swapstone", "tools/setup.sh", "requirements.lock"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, top / name)
    (top / "packages").write_text("python  python3-venv  py:venv  making .venv\n")
    python = top / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >>{top}/started\n')
    python.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [top / "swapstone", "list"],
        cwd=hostile,
        env={**kept, "PYTHONPATH": str(hostile)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert not list(hostile.rglob("*.ran"))
    starts = (top / "started").read_text().splitlines()
    assert len(starts) == 4, "a probe of pip, pip, the compilation of modules, and Swapstone"
    assert all(line.startswith("-I ") for line in starts), starts


def _scripts() -> list[Path]:
    listed = subprocess.run(["git", "-C", str(TOP), "ls-files"], capture_output=True, text=True, check=True).stdout
    found = [TOP / name for name in listed.splitlines() if re.fullmatch(r"[^/.]+|(tools|benchmarks)/[^/]+", name)]
    return [path for path in found if path.name == "setup.sh" or path.read_bytes().startswith(b"#!/bin/sh")]


def test_every_script_of_the_repository_starts_python_isolated() -> None:
    """Through `start_python` of tools/setup.sh, or with -I."""
    scripts = _scripts()
    assert {"swapstone", "test", "setup.sh", "fuzz", "overhead"} <= {path.name for path in scripts}
    start = re.compile(r'(?:bin/python"?|SWAPSTONE_PYTHON:-python3\}"?|"\$setup_python"|\bpython3) (?P<next>\S+)')
    for path in scripts:
        for line in path.read_text().splitlines():
            if line.lstrip().startswith(("#", "inside", "timed", "echo")):
                continue
            for match in start.finditer(line):
                assert match["next"] in {"-I", "-P", "-V)"}, f"{path}: {line.strip()}: use start_python or -I"
