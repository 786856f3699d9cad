# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks which emulators and compilers for their machines are installed, and whether KVM works."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import install_command, packages_of
from swapstone.core.model import MOST_PROCESSORS, UserError
from swapstone.core.targets.health import Finding, MachineFindings, State, ability, trouble_of
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, check_cross, cross_compiler
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.vm.artifacts.image_cache import cached_images
from swapstone.parts.vm.artifacts.image_catalog import MACHINE_ARCHITECTURES, MachineArchitecture
from swapstone.parts.vm.artifacts.images import BuiltImage
from swapstone.parts.vm.machine.emulator import SEVERAL, EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.kvm import KVM_DEVICE, kvm_device_trouble, kvm_trouble
from swapstone.parts.vm.machine.vm_target import VmOptions
from swapstone.parts.vm.session import host_certificate
from swapstone.parts.vm.session.vm_images import vm_image_of

_DEFAULT = VmOptions()


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
        return [ability(name, (meaning, install_command(packages_of((emulator,)))), str, absent="missing")]
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


def kvm_finding(options: VmOptions = _DEFAULT, device: Path = KVM_DEVICE) -> Finding:
    """Return whether the packaged kernel starts under KVM. The result is cached until this host restarts.

    Args:
        options: name the emulator and the cache.
        device: KVM's.
    """
    name, machine = "KVM", os.uname().machine
    architecture = next((known for known in MACHINE_ARCHITECTURES if known.machine == machine), None)
    if architecture is None:
        return Finding(name=name, state=State.UNKNOWN, found=f"there are no images for this processor, {machine}")
    trouble = kvm_device_trouble(machine, device)
    if not trouble:
        wanted = (architecture.name, "generic")
        image = next(
            (kept for kept in cached_images() if kept.image and (kept.image.architecture, kept.image.kernel) == wanted),
            None,
        )
        if image is None or image.image is None:
            found = f"{device} opens; a kernel can be started under it once there is an image"
            return Finding(name=name, state=State.UNKNOWN, found=found, remedy="swapstone image build")
        try:
            trouble = kvm_trouble(
                vm_image_of(BuiltImage(image.image, image.path), architecture), options, device=device
            )
        except UserError as error:
            trouble = error.message.rstrip(".")
        if not trouble:
            return Finding(name=name, state=State.GOOD, found=f"{image.image.release} starts under it")
    meaning = "virtual machines have the virtual clock only, and --clock wall is unavailable for them"
    remedy = 'sudo usermod -aG kvm "$USER", and log in again' if "Permission denied" in trouble else ""
    return Finding(name=name, state=State.MISSING, found=f"unavailable: {trouble}", meaning=meaning, remedy=remedy)


FINDINGS = MachineFindings(10, lambda: [*emulator_findings(), kvm_finding()], exact=host_certificate.findings)
