# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each benchmark states under its own name what it is for, and measures nothing for ``--help``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
COMMANDS = sorted(path.name for path in FOLDER.iterdir() if path.is_file() and not path.suffix)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_command_and_its_purpose(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert f"start_python -m benchmarks {command} " in (FOLDER / command).read_text()
    monkeypatch.setattr(sys, "argv", ["__main__.py", command, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("benchmarks", run_name="__main__")
    assert not ended.value.code
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith(f"usage: benchmarks/{command} ")
    assert ".py" not in usage
    assert len(rest.partition("options:")[0]) > 40  # what it is for
