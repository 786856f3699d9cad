# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether this machine can run trials of network stacks, in processes and on a machine without an operating system."""

from __future__ import annotations

from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.targets.health import Finding, MachineFindings, ability
from swapstone.parts.net.artifacts.crates import missing_crate_requirement
from swapstone.parts.net.targets.bare import BARE, emulator_version


def network_findings() -> tuple[Finding, ...]:
    """Return whether trials of network stacks can run, and whether the target without an operating system can be built and booted."""
    return (
        ability(
            "network stacks",
            missing_crate_requirement(),
            lambda: f"{compiler_version(('rustc',))}, root, a TAP",
            "{}: no netstack=",
        ),
        ability(
            f"target {BARE.name}",
            missing_crate_requirement(bare=True),
            emulator_version,
            "{}: no network stack without an operating system",
        ),
    )


FINDINGS = MachineFindings(20, network_findings)
