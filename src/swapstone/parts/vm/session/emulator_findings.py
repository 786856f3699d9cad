# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks which emulators and compilers for their machines are installed."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping

from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.model import MOST_PROCESSORS, UserError
from swapstone.core.targets.health import Finding, MachineFindings, State, ability, trouble_of
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, check_cross, cross_compiler
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.vm.artifacts.image_catalog import MACHINE_ARCHITECTURES, MachineArchitecture
from swapstone.parts.vm.machine.emulator import SEVERAL, find_emulator
from swapstone.parts.vm.machine.machine_models import EmulatedMachine


def emulator_findings() -> list[Finding]:
    """Return for each architecture whether its images can be booted and its programs built on this machine, or why not."""
    try:
        lock = read_lock()
    except UserError as error:
        return [ability("images", (error.message, error.hint), str, absent="no lock")]
    return [finding for architecture in MACHINE_ARCHITECTURES for finding in _machine(architecture, lock.unavailable)]


def _machine(architecture: MachineArchitecture, without_images: Mapping[str, str]) -> list[Finding]:
    name, emulator = f"virtual {architecture.name}", architecture.emulator
    if why := without_images.get(architecture.debian):
        return [Finding(name=name, state=State.UNKNOWN, found=f"no images: {why}")]
    if shutil.which(emulator) is None:
        meaning = f"virtual machines of {architecture.name} are unavailable: no {emulator}"
        return [ability(name, (meaning, install_command(architecture.emulator_package)), str, absent="missing")]
    found = Finding(name=name, state=State.GOOD, found=emulator)
    return [found, *several_processors(architecture), *_programs(architecture)]


def several_processors(architecture: MachineArchitecture) -> list[Finding]:
    """Return whether the emulator can emulate several processors; nothing for architectures that never have more than one."""
    if architecture.machine not in SEVERAL:
        return []
    machine = EmulatedMachine(architecture=architecture.machine, processors=2)
    return [
        ability(
            f"--smp of {architecture.name}",
            trouble_of(lambda: find_emulator(machine)),
            lambda: f"1 to {MOST_PROCESSORS} processors, {find_emulator(machine).version}",
            f"machines of {architecture.name} have one processor: {{}}",
        )
    ]


def _programs(architecture: MachineArchitecture) -> list[Finding]:
    """Return whether programs for another architecture's machines can be built here, with each C library."""
    machine = architecture.machine
    if machine == os.uname().machine or machine not in CROSS_COMPILERS:
        return []
    return [
        ability(
            f"{libc} for {architecture.name}",
            trouble_of(functools.partial(check_cross, machine, "gcc", libc)),
            lambda: f"{cross_compiler(machine).prefix}gcc",
            f"programs for {architecture.name} with {libc} are unavailable: {{}}",
            "missing",
        )
        for libc in ("glibc", "musl")
    ]


FINDINGS = MachineFindings(10, emulator_findings)
