# SPDX-License-Identifier: MIT OR Apache-2.0
"""Proposes a ``swapstone.toml``: looks at how a repository is built, builds it, and runs what it makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from swapstone.core.artifacts.placeholders import fill
from swapstone.core.factors import read_facts
from swapstone.core.model import UserError, refuse
from swapstone.core.model.directories import write_whole
from swapstone.core.model.safe_text import is_plain_word, safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.artifacts.build_command import build_environment, run_build
from swapstone.parts.gate.gate_file import FILE, decode_gate
from swapstone.parts.gate.revisions import Repository
from swapstone.parts.gate.trusted import require_trust

_BUILD_TIMEOUT_S = 3600.0
_RUN_TIMEOUT_S = 10.0
_MOST_PROGRAMS = 4
_ARGUMENTS = ("", "--version", "--help", "-h")
_INSIDE = {"CMakeFiles", "deps", "meson-private", "build-script-build", "examples", "incremental", ".libs"}
"""Folders of build systems in which their own programs are."""


class BuildSystem(NamedTuple):
    """How repositories with a certain file are built, and which files decide what is built."""

    file: str
    build: str
    paths: tuple[str, ...]


SYSTEMS: tuple[BuildSystem, ...] = (
    BuildSystem("Cargo.toml", "cargo build --release", ("*.rs", "*.toml", "Cargo.lock")),
    BuildSystem("go.mod", "go build -o . ./...", ("*.go", "go.mod", "go.sum")),
    BuildSystem(
        "meson.build",
        "meson setup build --buildtype=release && ninja -C build -j{jobs}",
        ("*.c", "*.cc", "*.cpp", "*.h", "meson*"),
    ),
    BuildSystem(
        "CMakeLists.txt",
        "cmake -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo && cmake --build build -j{jobs}",
        ("*.c", "*.cc", "*.cpp", "*.h", "*CMakeLists.txt", "*.cmake"),
    ),
    BuildSystem("configure", "./configure && make -s -j{jobs}", ("*.c", "*.cc", "*.cpp", "*.h", "*.in", "configure")),
    BuildSystem("Makefile", "make -s -j{jobs}", ("*.c", "*.cc", "*.cpp", "*.h", "*Makefile")),
)
"""In the order in which they are looked for."""


def write_first_file(folder: Path, *, trust: bool, note: Callable[[str], None]) -> Path:
    """Write a ``swapstone.toml`` whose build and runs work in an export of HEAD.

    Args:
        folder: in the working tree.
        trust: whether the user accepts that the repository's code is built and run.
        note: receives lines of progress.

    Returns:
        The file.

    Raises:
        UserError: there is one, no build system is known, its build fails, or no program of it runs.
    """
    repository = Repository(folder)
    path = repository.top / FILE
    refuse((path.exists(), f"There is a {FILE} already.", "Look at what it does: swapstone gate --dry-run"))
    system = next((each for each in SYSTEMS if repository.object_of("HEAD", each.file)), None)
    known = ", ".join(each.file for each in SYSTEMS)
    if system is None:
        raise UserError(f"HEAD has none of {known} at its top.", f"Write {FILE} by hand: swapstone docs gate")
    lines = (
        f"build HEAD, by /bin/sh -c: {system.build}",
        "run each program that it makes, alone, with --version and with --help",
    )
    require_trust(repository, "propose a file", lambda: lines, trust=trust)
    with TemporaryFolder("gate") as work:
        tree = work / "tree"
        repository.export("HEAD", tree)
        note(f"building HEAD: {system.build}")
        command = fill(system.build, {"jobs": str(os.cpu_count() or 1)})
        status, output = run_build(command, tree, _BUILD_TIMEOUT_S, build_environment())
        last = output.decode(errors="replace").strip().splitlines()[-1:]
        hint = f"Write {FILE} by hand: swapstone docs gate"
        refuse((status != 0, f"`{system.build}` fails: {safe_excerpt(''.join(last))}", hint))
        runs = {program: run for program in _programs(tree) if (run := _run_of(tree, program, note)) is not None}
    refuse((not runs, f"`{system.build}` makes no program that runs alone, with --version or with --help.", hint))
    text = _text(system, dict(list(runs.items())[:_MOST_PROGRAMS]))
    decode_gate(text.encode())
    write_whole(path, text.encode())
    return path


def _programs(tree: Path) -> list[str]:
    """Return the programs that a build made: executable ELF files, the shortest paths first."""
    found = []
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK) or ".so" in path.name:
            continue
        if _INSIDE.isdisjoint(name.parts) and is_plain_word(str(name)) and read_facts(path) is not None:
            found.append(str(name))
    return sorted(found, key=lambda name: (name.count("/"), name))


def _run_of(tree: Path, program: str, note: Callable[[str], None]) -> str | None:
    """Return the first arguments with which a program ends with status 0; None if there are none."""
    for arguments in _ARGUMENTS:
        note(f"running ./{program} {arguments}".rstrip())
        status, _ = run_build(f"exec ./{program} {arguments}", tree, _RUN_TIMEOUT_S, build_environment())
        if status == 0:
            return arguments
    return None


def _text(system: BuildSystem, runs: dict[str, str]) -> str:
    """Return the file."""
    quoted = {
        name: ", ".join(f'"{each}"' for each in texts) for name, texts in (("programs", runs), ("paths", system.paths))
    }
    lines = [
        "# What `swapstone gate` builds, runs and rejects: `swapstone docs gate`.",
        f'build = "{system.build}"',
        f"programs = [{quoted['programs']}]",
        f"paths = [{quoted['paths']}]",
        '# data = "bench"  # a folder of inputs, for which {data} stands in commands',
        'fail = { instructions = "1%", syscalls = "0", size = "2KiB" }',
    ]
    for program, arguments in runs.items():
        lines += [
            "",
            f"[run.{_name(program)}]",
            "# Replace this by typical work: a run needs 100,000 instructions of its own code.",
            f'command = "{f"./{program} {arguments}".rstrip()}"',
        ]
    return "\n".join(lines) + "\n"


def _name(program: str) -> str:
    name = "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in program.lower())
    return name if name[0].isalnum() else f"run-{name}"
