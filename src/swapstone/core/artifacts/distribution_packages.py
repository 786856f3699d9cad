# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command that installs a package, for hints. It names only packages that this machine's distribution has."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess

from swapstone.core.model import UnavailableError

_IN_EVERY_DEBIAN = "base-files"
_ALTERNATIVES = {"cargo-web": "cargo", "rustc-web": "rustc", "linux-perf": "linux-tools-generic"}
"""The package that takes the place of another where the distribution lacks that. Debian's stable releases have an old rustc, and a
newer rustc-web, with which browsers are built; Ubuntu names perf's package differently."""


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
        packages: Debian's names, separated by spaces. Other distributions' names are used where they are known.
    """
    names = packages.split()
    chosen = [name if package_versions(name) else _ALTERNATIVES.get(name, name) for name in names]
    absent = [name for name in chosen if not package_versions(name)]
    if absent and not package_versions(_IN_EVERY_DEBIAN):
        update = "sudo apt-get update && " if shutil.which("apt-cache") else ""
        return f"{update}sudo apt-get install {' '.join(names)}"
    if absent:
        return f"this distribution has no package {' '.join(absent)}; Debian has it"
    return f"sudo apt-get install {' '.join(chosen)}"


def rust_command(lowest: tuple[int, int]) -> str:
    """Return the command that installs a Rust of at least a version: from a package if there is one, else with rustup.

    Args:
        lowest: major and minor version.
    """
    for compiler, cargo in (("rustc", "cargo"), ("rustc-web", "cargo-web")):
        if _newest(compiler) >= lowest:
            return f"sudo apt-get install {cargo} {compiler}"
    if package_versions("rustup"):
        return "sudo apt-get install rustup && rustup default stable"
    newest = max(_newest("rustc"), _newest("rustc-web"))
    offered = f"the newest package of this distribution is Rust {newest[0]}.{newest[1]}" if newest[0] else "no package"
    return f"follow https://rustup.rs ({offered})"


def _newest(package: str) -> tuple[int, int]:
    found = [re.match(r"(?:[0-9]+:)?([0-9]+)\.([0-9]+)", version) for version in package_versions(package)]
    return max(((int(match[1]), int(match[2])) for match in found if match), default=(0, 0))


def require_command(command: str, what: str, packages: str) -> str:
    """Return the path of a command.

    Args:
        command: its name or path.
        what: what needs it, for the message.
        packages: that have it, separated by blanks; empty if no package is known.

    Raises:
        UnavailableError: it is not installed.
    """
    found = shutil.which(command)
    if found is None:
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
