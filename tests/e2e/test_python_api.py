# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of docs/python.md: on the fake target, and from an installed wheel on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.core.session.options import PIECES
from swapstone.version import __version__
from tests.e2e.cli import TOP, environment, fake
from tests.e2e.installed_wheel import installed

BLOCKS = re.findall(r"```python\n(.*?)```", (TOP / "docs" / "python.md").read_text(), re.DOTALL)


def _on_the_fake_target(target: str) -> str:
    """Return code that makes the fake target the default of `swapstone.compare`."""
    return f"import functools, swapstone\nswapstone.compare = functools.partial(swapstone.compare, swapstone.Place(target={target!r}))\n"


def test_the_examples_run(tmp_path: Path) -> None:
    assert len(BLOCKS) == 4
    script = _on_the_fake_target(fake(tmp_path)) + "\n".join(BLOCKS)
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("('") and "'b_malloc_tiny1'" in result.stdout
    assert "calibrating 1 workload on the baseline" in lines
    assert re.search(r"^b_string_strlen: 1\.5\dx \[", result.stdout, re.MULTILINE)
    assert lines[-1] == "6 trials"
    assert result.stderr == ""


def test_every_argument_and_export_is_documented() -> None:
    import inspect

    import swapstone

    text = (TOP / "docs" / "python.md").read_text()
    named = set(re.findall(r"`(\w+)[`(]", text)) | set(re.findall(r"`swapstone\.(\w+)[`(]", text))
    assert set(inspect.signature(swapstone.compare).parameters) - {"settings", "factors"} <= named
    assert {kind.__name__ for kind in PIECES.values()} <= named
    assert {name for name in dir(swapstone.Record) if not name.startswith("_")} - {
        "context",
        "name",
        "view",
        "reload",
    } <= named
    events = {name for name in vars(swapstone.Progress) if not name.startswith("_")}
    assert len(events) > 5
    assert events <= named


@pytest.mark.slow
def test_an_example_runs_from_an_installed_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheels")]
    subprocess.run(build, cwd=TOP, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    home, packages, clean = installed(wheel, tmp_path / "venv")
    python = home / "bin" / "python"

    def run(script: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=600, check=False
        )

    where = run("import swapstone; print(swapstone.__file__, swapstone.__version__)")
    assert where.stdout.startswith(f"{packages}/swapstone/__init__.py {__version__}"), where
    result = run(BLOCKS[1])  # on this machine
    assert result.returncode == 0, result.stderr
    assert "complete" in result.stdout and "b_string_strlen" in result.stdout
    assert run("import swapstone; assert swapstone.load('last').verify().ok").returncode == 0

    def command(*arguments: str) -> str:
        program = [str(home / "bin" / "swapstone"), *arguments]
        return subprocess.run(program, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert command("--version") == f"swapstone, version {__version__}\n"
    assert "Commands:" in command("--help")
    (tmp_path / "spec.toml").write_text("[[behaviour]]\nwall_ns = 1_000_000\nnoise = 0.02\n")
    assert "musl" in command("compare", "libc=glibc,musl", "--target", "fake:spec.toml", "--only", "b_malloc_tiny1")
    # The pages that messages name are in the package.
    listed = command("docs", "--path").split()
    pages = [*(TOP / "docs").glob("*.md"), *(TOP / "docs" / "measurements").glob("*.md")]
    assert len(listed) == len(pages)
    assert all(path.startswith(f"{packages}/swapstone/share/docs/") for path in listed)
    assert command("docs", "studies") == (TOP / "docs" / "studies.md").read_text()
