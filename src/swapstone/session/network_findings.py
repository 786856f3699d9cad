# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether trials of network stacks can run on this machine, with and without an operating system."""

from __future__ import annotations

from swapstone.artifacts.crates import missing_crate_requirement
from swapstone.artifacts.guest import missing_guest_requirement
from swapstone.artifacts.tool_versions import compiler_version
from swapstone.targets.bare import BARE, emulator_version
from swapstone.targets.health import Examination, Finding, ability


def network_finding() -> Finding:
    """Return whether trials of network stacks can run."""
    return ability(
        "network stacks",
        missing_crate_requirement(),
        lambda: f"{compiler_version(('rustc',))}, root, a TAP",
        "{}: no netstack=",
    )


def bare_finding() -> Finding:
    """Return whether the target without an operating system can be built and booted."""
    meaning = "{}: no network stack without an operating system"
    return ability(f"target {BARE.name}", missing_guest_requirement(), emulator_version, meaning)


EXAMINATION = Examination(order=30, examine=lambda: [network_finding(), bare_finding()])
