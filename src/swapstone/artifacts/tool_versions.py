"""Which tools are here, and exactly which versions of them."""

from __future__ import annotations

import functools
import itertools
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from swapstone.factors import Level, read_facts
from swapstone.model import UnavailableError


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
    return first_line([*compiler, "--version"])


@functools.cache
def compiler_identity(compiler: tuple[str, ...]) -> str:
    """Return a text that changes whenever the compiler or the C library it links with does: part of an artifact's address.

    It holds the version line and the size and time of change of every start-up object and library that a link takes in.
    """
    parts = [compiler_version(compiler), str(shutil.which(compiler[0]))]
    for where in link_inputs(compiler):
        status = where.resolve().stat()
        parts.append(f"{where}:{status.st_size}:{status.st_mtime_ns}")
    return "\n".join(parts)


@functools.cache
def link_inputs(compiler: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the start-up objects and the libraries of C and of the compiler that a link takes in, as the compiler itself plans it.

    A compiler with a specs file, such as musl-gcc, answers ``-print-file-name`` with another C library's files; its plan is right.
    """
    found: dict[Path, None] = {}
    for way in ((), ("-static",)):
        plan = _said([*compiler, "-###", *way, "-x", "c", "/dev/null", "-o", "/dev/null"])
        words = next((shlex.split(line) for line in reversed(plan) if "crt1.o" in line), [])
        folders = [Path(word[2:]) for word in words if word.startswith("-L")]
        libraries = [_first(folders, name) for name in ("libc.so", "libc.a", "libgcc.a")]
        objects = [Path(word) for word in words if word.endswith((".o", ".a"))]
        found |= {
            path: None for path in (*objects, *libraries) if path is not None and path.is_absolute() and path.exists()
        }
    return tuple(found)


def _first(folders: list[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def header_folders(compiler: tuple[str, ...]) -> tuple[Path, ...]:
    """Return where a compiler looks for ``#include <...>``, in order."""
    lines = _said([*compiler, "-E", "-v", "-x", "c", "/dev/null", "-o", "/dev/null"])
    start = next((number for number, line in enumerate(lines) if line.startswith("#include <")), len(lines))
    folders = itertools.takewhile(lambda line: line.startswith(" "), lines[start + 1 :])
    return tuple(Path(line.strip()) for line in folders)


@functools.cache
def preprocesses(compiler: tuple[str, ...], header: str) -> bool:
    """Say whether a compiler finds a header with all that it includes; a foreign one may find another machine's, which lacks some."""
    command = [*compiler, "-E", "-x", "c", "-include", header, "/dev/null", "-o", "/dev/null"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@functools.cache
def loader_version(program: Path) -> tuple[str, str] | None:
    """Ask a program's own loader for the version of the C library that it belongs to.

    The loaders of glibc and of musl both say it when they are run as programs.

    Returns:
        The loader's path and what it says, in one line; None for a program without a loader, for a script, and for a program of
        another machine's processor, whose loader can't be asked here.
    """
    facts = read_facts(program)
    ours = read_facts(Path(sys.executable).resolve())
    names = [facts.interp] if facts is not None and facts.interp and ours and facts.machine == ours.machine else []
    if not names:
        return None
    said = _said([names[0], "--version"])
    telling = [line.strip() for line in said if "version" in line.lower() or "libc" in line.lower()]
    return names[0], "; ".join(telling[:2]) or "unknown"


def first_line(command: list[str]) -> str:
    """Return the first line that a command says, or why there is none."""
    return (_said(command) or ["unknown"])[0]


def _said(command: list[str]) -> list[str]:
    """Return the lines that a command says, on standard output or else on standard error."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"unknown ({error})"]
    return (result.stdout or result.stderr).strip().splitlines()
