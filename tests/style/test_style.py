# SPDX-License-Identifier: MIT OR Apache-2.0
"""Formatters, linters and type checks, as tests."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.model.directories import cache_dir
from tests.programs import require

TOP = Path(__file__).parents[2]
C_FILES = sorted(path for top in ("native", "src") for path in (TOP / top).rglob("*") if path.suffix in {".c", ".h"})
PYTHON = ["src", "tests", "benchmarks", "tools"]


def _passes(*command: str) -> None:
    result = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command[:4])}\n{result.stdout[-4000:]}{result.stderr[-4000:]}"


def test_python_is_formatted() -> None:
    _passes(sys.executable, "-m", "ruff", "format", "--check", *PYTHON)


def test_python_is_lint_free() -> None:
    _passes(sys.executable, "-m", "ruff", "check", *PYTHON)


@pytest.mark.slow  # half a minute after a change of a module that many import; the hooks of pre-commit check types, too
def test_python_types_hold() -> None:
    """A new checkout begins with what an earlier run found about the same files: mypy compares their content."""
    cache = cache_dir() / "mypy"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:  # tests of another checkout may run at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        _passes(sys.executable, "-m", "mypy", "--cache-dir", str(cache))


def test_c_is_formatted() -> None:
    assert C_FILES
    _passes("clang-format", "--dry-run", "-Werror", *map(str, C_FILES))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang", "musl-gcc"])
def test_c_has_no_warnings(compiler: str) -> None:
    require(compiler)
    sources = [
        str(path)
        for path in C_FILES
        if path.suffix == ".c" and (path.parent.name == "workloads" or "src" in path.parts)
    ]
    assert sources
    _passes(
        compiler,
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fno-builtin",
        "-fsyntax-only",
        f"-I{TOP}/native/workloads",
        *sources,
    )


@pytest.mark.parametrize(
    "script",
    [
        "swapstone",
        "test",
        "crates/test",
        ".ci/run",
        "tools/setup.sh",
        "native/guest/swap.sh",
        "native/images/board-init",
        *sorted(str(path.relative_to(TOP)) for path in TOP.glob("src/swapstone/parts/**/*.sh")),
    ],
)
def test_shell_scripts_parse(script: str) -> None:
    _passes("sh", "-n", script)


def test_temporary_folders_can_be_found_after_a_kill() -> None:
    """In the system's folder a later start removes those of `TemporaryFolder`; others lie in the cache, beside what is written."""
    unnamed = [
        str(path.relative_to(TOP))
        for path in (TOP / "src").rglob("*.py")
        if re.search(r"(?:TemporaryDirectory|mkdtemp|mkstemp|NamedTemporaryFile)\((?![^\n]*dir=)", path.read_text())
    ]
    assert not unnamed


def test_every_test_file_is_collected(request: pytest.FixtureRequest) -> None:
    passed_over = [pattern for pattern in request.config.getini("norecursedirs") if not pattern.startswith((".", "__"))]
    assert not passed_over, "a folder of tests whose name is like this would not be run"
    stray = [
        path
        for path in (TOP / "tests").rglob("*.py")
        if "def test_" in path.read_text() and not path.match("test_*.py")
    ]
    assert not stray, "pytest looks into test_*.py only"
