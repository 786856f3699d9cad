# SPDX-License-Identifier: MIT OR Apache-2.0
"""The code blocks of docs/extending.md, and copies of the source to carry a recipe out in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[3]


def code_blocks(heading: str) -> list[str]:
    """Return the code blocks of the section of docs/extending.md whose heading starts with a text."""
    text = (TOP / "docs" / "extending.md").read_text()
    sections = [part for part in re.split(r"(?m)^## ", text) if part.startswith(heading)]
    assert len(sections) == 1, f"docs/extending.md has {len(sections)} sections {heading!r}"
    return re.findall(r"(?ms)^```[a-z]*\n(.*?)^```$", sections[0])


def copy_source(folder: Path) -> Path:
    """Copy the source; return the folder for PYTHONPATH.

    Compiled modules are copied too, because compiling them takes most of the time of a new process. A module that a test changes
    has another time, and is compiled again.
    """
    ignore = shutil.ignore_patterns("*.pyc.*")  # files that another process is writing
    shutil.copytree(TOP / "src", folder / "src", ignore=ignore)
    shutil.copy(TOP / "packages", folder / "packages")
    for name in ("native", "studies"):
        shutil.copytree(TOP / name, folder / name, ignore=ignore)
    return folder / "src"


def add_part(source: Path, name: str, file: str, manifest: str) -> None:
    """Add a part of one module to a copy of the source.

    Args:
        source: as `copy_source` returned it.
        name: of the folder and of the module.
        file: content of the module.
        manifest: content of ``part.toml``.
    """
    folder = source / "swapstone" / "parts" / name
    folder.mkdir()
    (folder / f"{name}.py").write_text(file)
    (folder / "part.toml").write_text(manifest)


def run_python(source: Path, script: str, *arguments: str) -> str:
    """Run a script with a copy of the source; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout
