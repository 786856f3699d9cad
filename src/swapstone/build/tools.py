"""Which tools are here, and exactly which versions of them."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from swapstone.factors import Level
from swapstone.model import UnavailableError

ToolVersions = tuple[tuple[str, str], ...]
"""Pairs (tool, first line of what it says of its version)."""


def require_tools(factor: str, level: Level) -> None:
    """Check that a level's commands are installed.

    Raises:
        UnavailableError: one is missing; says which package brings it.
    """
    for command in level.needs:
        if shutil.which(command) is None:
            raise UnavailableError(
                f"{factor}={level.name} needs the command {command!r}, which is not installed.",
                f"Install it: sudo apt-get install {level.package}",
            )


@functools.cache
def compiler_version(compiler: tuple[str, ...]) -> str:
    """Return the first line of a compiler's ``--version``, or why there is none."""
    return _first_line([*compiler, "--version"])


@functools.cache
def compiler_identity(compiler: tuple[str, ...]) -> str:
    """Return a text that changes whenever the compiler or the C library it links with does: part of an artifact's address.

    It holds the version line and the size and time of change of every start-up object and library that a link takes in.
    """
    parts = [compiler_version(compiler), str(shutil.which(compiler[0]))]
    for name in ("crt1.o", "Scrt1.o", "libc.a", "libc.so", "libgcc.a"):
        where = Path(_first_line([*compiler, f"-print-file-name={name}"]))
        if where.is_absolute() and where.exists():
            status = where.resolve().stat()
            parts.append(f"{where}:{status.st_size}:{status.st_mtime_ns}")
    return "\n".join(parts)


def _first_line(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    lines = (result.stdout or result.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
