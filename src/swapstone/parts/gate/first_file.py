# SPDX-License-Identifier: MIT OR Apache-2.0
"""Proposes a ``swapstone.toml``: looks at how a repository is built, builds it, and runs what it makes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from swapstone.core.artifacts.placeholders import fill
from swapstone.core.model import refuse
from swapstone.core.model.directories import write_whole
from swapstone.core.model.safe_text import is_plain_word
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.artifacts.build_command import build_environment, run_build
from swapstone.parts.gate.builds import failure_of, loadable_files
from swapstone.parts.gate.gate_file import FILE, decode_gate
from swapstone.parts.gate.revisions import Repository
from swapstone.parts.gate.trusted import require_trust

_BUILD_TIMEOUT_S = 3600.0
_RUN_TIMEOUT_S = 10.0
_MOST_PROGRAMS = 4
_ARGUMENTS = ("", "--version", "--help", "-h")
_INSIDE = {"CMakeFiles", "deps", "meson-private", "build-script-build", "examples", "incremental", ".libs"}
"""Folders of build systems in which their own programs are."""


SYSTEMS: Mapping[str, str] = {
    "Cargo.toml": "CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release",
    "go.mod": "go build -o . ./...",
    "meson.build": "meson setup build --buildtype=debugoptimized && ninja -C build -j{jobs}",
    "CMakeLists.txt": (
        "cmake -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON && cmake --build build -j{jobs}"
    ),
    "configure": "./configure && make -s -j{jobs}",
    "Makefile": "make -s -j{jobs}",
}
"""How repositories with a certain file are built, in the order in which the files are looked for."""


def write_first_file(folder: Path, *, trust: bool, note: Callable[[str], None]) -> Path:
    """Write a ``swapstone.toml`` whose build works in an export of HEAD, and whose runs do if any program runs without a file.

    Args:
        folder: in the working tree.
        trust: whether the user accepts that the repository's code is built and run.
        note: receives lines of progress.

    Returns:
        The file.

    Raises:
        UserError: there is one, no build system is known, its build fails, or it makes no program.
    """
    repository = Repository(folder)
    path = repository.top / FILE
    refuse((path.exists(), f"There is a {FILE} already.", "Look at what it does: swapstone gate --dry-run"))
    build = next((command for file, command in SYSTEMS.items() if repository.object_of("HEAD", file)), "")
    hint = f"Write {FILE} by hand: swapstone docs gate"
    refuse((not build, f"HEAD has none of {', '.join(SYSTEMS)} at its top.", hint))
    lines = (
        f"build HEAD, by /bin/sh -c: {build}",
        "run each program that it makes, alone, with --version and with --help",
    )
    require_trust(repository, "propose a file", lambda: lines, trust=trust)
    with TemporaryFolder("gate") as work:
        tree = work / "tree"
        repository.export("HEAD", tree)
        note(f"building HEAD: {build}")
        command = fill(build, {"jobs": str(os.cpu_count() or 1)})
        status, output = run_build(command, tree, _BUILD_TIMEOUT_S, build_environment())
        refuse((bool(why := failure_of(status, output)), f"{why} (`{build}`).", hint))
        found = {program: _run_of(tree, program, note) for program in _programs(tree)}
    refuse((not found, f"`{build}` makes no program.", hint))
    runs = {program: run for program, run in found.items() if run is not None} or found
    text = _text(build, dict(list(runs.items())[:_MOST_PROGRAMS]))
    decode_gate(text.encode())
    write_whole(path, text.encode())
    return path


def _programs(tree: Path) -> list[str]:
    """Return the programs that a build made: executable ELF files, the shortest paths first."""
    made = [name for name in loadable_files(tree) if os.access(tree / name, os.X_OK) and ".so" not in name]
    found = (name for name in made if _INSIDE.isdisjoint(Path(name).parts) and is_plain_word(name))
    return sorted(found, key=lambda name: (name.count("/"), name))


def _run_of(tree: Path, program: str, note: Callable[[str], None]) -> str | None:
    """Return the first arguments with which a program ends with status 0; None if there are none."""
    for arguments in _ARGUMENTS:
        note(f"running ./{program} {arguments}".rstrip())
        status, _ = run_build(f"exec ./{program} {arguments}", tree, _RUN_TIMEOUT_S, build_environment())
        if status == 0:
            return arguments
    return None


def _text(build: str, runs: dict[str, str | None]) -> str:
    """Return the file."""
    programs = ", ".join(f'"{each}"' for each in runs)
    lines = [
        "# What `swapstone gate` builds, runs and rejects: `swapstone docs gate`.",
        f'build = "{build}"',
        f"programs = [{programs}]",
        '# paths = ["*.c", "*.h", "Makefile"]  # if these alone decide what is built, a change of others builds nothing',
        '# data = "bench"  # a folder of inputs, for which {data} stands in commands',
        'fail = { instructions = "1%", syscalls = "0", size = "2KiB" }',
    ]
    for program, arguments in runs.items():
        lines += ["", f"[run.{_name(program)}]"]
        lines += ["# It fails without arguments, with --version and with --help."] if arguments is None else []
        lines += ["# Replace this by typical work: a run needs 100,000 instructions of its own code."]
        lines += [f'command = "{" ".join(filter(None, (f"./{program}", arguments)))}"']
    return "\n".join(lines) + "\n"


def _name(program: str) -> str:
    name = "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in program.lower())
    return name if name[0].isalnum() else f"run-{name}"
