# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installed tools and their exact versions."""

from __future__ import annotations

import functools
import itertools
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import output_lines
from swapstone.core.factors import read_facts
from swapstone.core.factors.elf_file import machine_of


@functools.cache
def compiler_version(compiler: tuple[str, ...]) -> str:
    """Return the first line of a compiler's ``--version``, or the reason for its absence."""
    return first_line([*compiler, "--version"])


@functools.cache
def compiler_identity(compiler: tuple[str, ...]) -> str:
    """Return a text that changes with the compiler and the C library that it links: part of an artifact's digest.

    It has the version line, and size and modification time of every start-up object and library of a link.
    """
    parts = [compiler_version(compiler), str(shutil.which(compiler[0]))]
    for where in link_inputs(compiler):
        status = where.resolve().stat()
        parts.append(f"{where}:{status.st_size}:{status.st_mtime_ns}")
    return "\n".join(parts)


@functools.cache
def link_inputs(compiler: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the start-up objects and the libraries of C and the compiler that a link uses, from the compiler's own link command.

    For a compiler with a specs file, such as musl-gcc, ``-print-file-name`` gives another C library's files.
    """
    found: dict[Path, None] = {}
    for way in ((), ("-static",)):
        plan = output_lines([*compiler, "-###", *way, "-x", "c", "/dev/null", "-o", "/dev/null"])
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
    """Return the folders that a compiler searches for ``#include <...>``, in order."""
    lines = output_lines([*compiler, "-E", "-v", "-x", "c", "/dev/null", "-o", "/dev/null"])
    start = next((number for number, line in enumerate(lines) if line.startswith("#include <")), len(lines))
    folders = itertools.takewhile(lambda line: line.startswith(" "), lines[start + 1 :])
    return tuple(Path(line.strip()) for line in folders)


@functools.cache
def preprocesses(compiler: tuple[str, ...], header: str) -> bool:
    """Return whether a header and all headers it includes can be preprocessed; some are missing for a cross compiler."""
    command = [*compiler, "-E", "-x", "c", "-include", header, "/dev/null", "-o", "/dev/null"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@functools.cache
def tool_of_compiler(compiler: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the command of a tool that belongs to a compiler, such as ``ld`` or ``ar``, as the compiler prints it; else its plain name."""
    path = first_line([*compiler, f"-print-prog-name={name}"])
    return (path,) if shutil.which(path) else (name,)


@functools.cache
def loader_version(program: Path) -> tuple[str, str] | None:
    """Return the version of a program's C library, as printed by its loader.

    The loaders of glibc and musl print it when run as programs.

    Returns:
        The loader's path and its version line; None for a program without a loader, a script, or a program of another architecture.
    """
    facts = read_facts(program)
    if facts is None or not facts.interp or facts.machine != machine_of(Path(sys.executable)):
        return None
    lines = output_lines([facts.interp, "--version"])
    version_lines = [line.strip() for line in lines if "version" in line.lower() or "libc" in line.lower()]
    return facts.interp, "; ".join(version_lines[:2]) or "unknown"


def first_line(command: list[str]) -> str:
    """Return the first line of a command's output, or the reason for its absence."""
    return (output_lines(command) or ["unknown"])[0]
