# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the start of a command imports: modules that it does not need would make it slower."""

from __future__ import annotations

import subprocess
import sys

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
        ("compare --help", {"rich.console", "http.client", "ssl", "jinja2", "duckdb"}),
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
