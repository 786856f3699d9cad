# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether load generators work on this machine."""

from __future__ import annotations

import functools
import shutil
import subprocess

from swapstone.core.artifacts.distribution_packages import install_command, packages_of
from swapstone.core.targets.health import Finding, MachineFindings, ability

_VERSIONS = {"wrk": "-v", "ab": "-V"}
"""The load generators that must be installed, and the option with which each prints its version."""


def load_generator_findings() -> list[Finding]:
    """Return for each load generator whether it is installed, with its version."""
    return [
        ability(
            f"load generator {name}",
            None
            if shutil.which(name)
            else (f"{name} can't send requests to servers", install_command(packages_of((name,)))),
            functools.partial(_version, name),
            absent="missing",
        )
        for name in _VERSIONS
    ]


def _version(name: str) -> str:
    printed = subprocess.run(
        [name, _VERSIONS[name]], capture_output=True, text=True, errors="replace", timeout=30, check=False
    )
    line = (printed.stdout + printed.stderr).strip().partition("\n")[0]  # wrk prints it and exits with status 1
    return line.partition(" Copyright")[0] or "it prints no version"


FINDINGS = MachineFindings(30, load_generator_findings)
