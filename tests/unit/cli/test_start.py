# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the start of a command imports: modules that it does not need would make it slower."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import sys
from swapstone.cli.main import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
print(*sys.modules, file=sys.stderr)
"""
_OURS = "swapstone."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("--version", {"msgspec", "numpy", "rich", "jinja2", "duckdb", f"{_OURS}model", f"{_OURS}session"}),
        ("--help", {"msgspec", "numpy", "rich", "jinja2", "duckdb", f"{_OURS}model", f"{_OURS}session"}),
        ("docs --path", {"numpy", "rich", "jinja2", "duckdb", "elftools", f"{_OURS}factors"}),
        ("list factors", {"numpy", "jinja2", "duckdb", f"{_OURS}instruments", f"{_OURS}run"}),
        ("compare --help", {"numpy", "rich.console", "http.client", "ssl", "jinja2", "duckdb", f"{_OURS}core.stats"}),
        ("show --help", {"jinja2", "duckdb", "scipy", f"{_OURS}instruments"}),
        ("query --help", {"duckdb", "jinja2", f"{_OURS}instruments"}),
    ],
)
def test_a_command_does_not_import_what_it_does_not_need(words: str, absent: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *words.split()], capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(done.stderr.split())
    assert "swapstone.cli.main" in imported
    assert not absent & imported


_FIRST_TRIAL = """
import os, sys
from swapstone.core.targets.agent_target import AgentTarget
def end(*_):
    print(*sys.modules, file=sys.stderr, flush=True)
    os._exit(0)
AgentTarget._run = end
from swapstone.cli.main import main
main()
"""


@pytest.mark.slow
def test_the_first_trial_begins_without_what_analyses(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FIRST_TRIAL, "compare", "/bin/true", "/bin/false", "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stderr.split())
    assert f"{_OURS}core.run.engine" in imported
    late = ("stats", "comparison.rows", "report.topics", "session.analysis")
    assert not imported & {"numpy", *(f"{_OURS}core.{name}" for name in late)}
