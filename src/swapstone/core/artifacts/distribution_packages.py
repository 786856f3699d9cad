# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs of this machine that Swapstone starts, and the packages that bring them: the table in the file `packages`.

A program is named as in the third field of a line there, without a version: a command, or the absolute path of a file.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.core.model.directories import share_dir
from swapstone.core.model.errors import MissingProgramsError, UnavailableError

_IN_EVERY_DEBIAN = "base-files"
ADMINISTRATORS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Folders of programs for administrators, such as servers."""


@functools.cache
def _table() -> Mapping[str, tuple[tuple[str, ...], tuple[int, int], str]]:
    """Return for each program the packages of which the first that the distribution has brings it, its lowest version, and the reason."""
    lines = (share_dir() / "packages").read_text().splitlines()
    rows = (line.split(None, 3) for line in lines if line and not line.startswith("#"))
    parts = ((probe.partition(":"), names.split("|"), why) for _, names, probe, why in rows)
    return {program: (tuple(names), _first_numbers(lowest), why) for (program, _, lowest), names, why in parts}


def _first_numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(?:[0-9]+:)?([0-9]{1,6})\.([0-9]{1,6})", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_installed(program: str) -> bool:
    """Return whether a program is installed, in the version that `packages` has; tools/setup.sh has the same conditions."""
    if "/" in program:
        return any(Path("/").glob(program[1:]))
    if not (shutil.which(program) or shutil.which(program, path=ADMINISTRATORS)):
        return False
    lowest = _table()[program][1] if program in _table() else (0, 0)
    return lowest == (0, 0) or any(
        _first_numbers(line.removeprefix(f"{program} ")) >= lowest for line in output_lines([program, "--version"])[:1]
    )


def missing_programs(programs: Iterable[str]) -> MissingProgramsError | None:
    """Return the error that names all missing programs which packages bring, with one command; None if there are none.

    Args:
        programs: of this machine. Those that this distribution has no package of are left out: what needs them is unavailable.
    """
    named = [program for program in dict.fromkeys(programs) if program in _table() and not is_installed(program)]
    missing = {program: package for program in named if (package := _package(*_table()[program][:2]))}
    if not missing:
        return None
    reasons = [f"    {package}: {_table()[program][2]}" for program, package in missing.items()]
    error = MissingProgramsError(
        "\n".join(("Packages are missing:", *reasons)),
        f"Install them: {install_command(' '.join(dict.fromkeys(missing.values())))}",
    )
    error.programs = tuple(missing)
    return error


def _package(names: Sequence[str], lowest: tuple[int, int]) -> str:
    """Return the first package that the distribution has, in the version that is needed; empty if it has none."""
    if not package_versions(_IN_EVERY_DEBIAN):  # nothing is known of this distribution
        return names[0]
    return next((name for name in names if any(_first_numbers(each) >= lowest for each in package_versions(name))), "")


def packages_of(programs: Iterable[str]) -> str:
    """Return the packages that bring some programs, separated by blanks; of alternatives the first."""
    return " ".join(dict.fromkeys(_table()[program][0][0] for program in programs if program in _table()))


def package_versions(package: str) -> tuple[str, ...]:
    """Return the versions of a package in this machine's package lists, the newest first; none without lists or apt-cache."""
    program = shutil.which("apt-cache")
    return _listed_versions(program, package) if program else ()


@functools.cache
def _listed_versions(program: str, package: str) -> tuple[str, ...]:
    rows = (line.split("|") for line in output_lines([program, "madison", "--", package]))
    return tuple(row[1].strip() for row in rows if len(row) >= 3 and row[0].strip() == package)


def install_command(packages: str) -> str:
    """Return the command that installs packages, or a sentence on those that this distribution lacks.

    Args:
        packages: Debian's names, separated by spaces. Of alternatives in the table, the first that the distribution has is used.
            None for what comes with each Debian: apt-get and dpkg.
    """
    if not (names := packages.split()):
        return "use Debian, or a distribution made from it"
    others = {each[0]: each for each, _, _ in _table().values()}
    chosen = [next(filter(package_versions, others.get(name, ())), name) for name in names]
    absent = [name for name in chosen if not package_versions(name)]
    if absent and not package_versions(_IN_EVERY_DEBIAN):
        update = "sudo apt-get update && " if shutil.which("apt-cache") else ""
        return f"{update}sudo apt-get install {' '.join(names)}"
    if absent:
        return f"this distribution has no package {' '.join(absent)}; Debian has it"
    return f"sudo apt-get install {' '.join(chosen)}"


def require_command(command: str, what: str) -> str:
    """Return the path of a command.

    Args:
        command: its name or path.
        what: what needs it, for the message.

    Raises:
        UnavailableError: it is not installed; the hint names the package if one is known.
    """
    found = shutil.which(command) or shutil.which(command, path=ADMINISTRATORS)
    if found is None:
        packages = packages_of((command,))
        raise UnavailableError(
            f"{what} needs the command {command!r}, which is not installed.",
            f"Install it: {install_command(packages)}" if packages else "",
        )
    return found


def output_lines(command: list[str]) -> list[str]:
    """Return the lines of a command's standard output, or else of its standard error."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"unknown ({error})"]
    return (result.stdout or result.stderr).strip().splitlines()
