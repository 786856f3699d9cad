# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests whether KVM works on this host by booting a kernel, once for each boot of the host."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from pathlib import Path

import msgspec

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.core.targets.agent_build import sha256_of
from swapstone.core.wire import encode_plan_header
from swapstone.parts.vm.machine.qemu import GuestEnd, Limits, VmImage
from swapstone.parts.vm.machine.run_cache import digest_of
from swapstone.parts.vm.machine.run_output import decode_run
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget

PROBE_S = 15.0
"""A kernel under KVM boots in a second or two. One that has not booted by now does not work."""

KVM_DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIMIT_MS = 5_000
_USUAL = VmOptions()


def by_kvm(image: VmImage) -> VmImage:
    """Return an image whose machine runs under KVM, on the wall clock."""
    return dataclasses.replace(image, machine=msgspec.structs.replace(image.machine, wall=True))


def require_kvm(trouble: str) -> None:
    """Refuse the wall clock in a virtual machine without KVM: it would time the emulator.

    Args:
        trouble: what `kvm_device_trouble` or `kvm_trouble` returned.

    Raises:
        UnavailableError: `trouble` is not empty.
    """
    if trouble:
        raise UnavailableError(
            f"A virtual machine on the wall clock needs KVM, which is unavailable: {trouble}.",
            "Leave --clock out: the virtual clock needs none. Or measure on --target host.",
        )


def kvm_device_trouble(architecture: str, device: Path = KVM_DEVICE) -> str:
    """Return why KVM can't be used, as far as the device shows; empty if it may work.

    Args:
        architecture: of the machine, as ``uname -m`` prints it.
        device: of KVM.
    """
    here = os.uname().machine
    if architecture != here:
        return f"KVM runs machines of this host's architecture, {here}, and this one is {architecture}"
    try:
        with device.open("r+b", buffering=0):
            return ""
    except OSError as error:
        return f"{device} can't be opened: {error.strerror}"


def kvm_trouble(
    image: VmImage,
    options: VmOptions = _USUAL,
    *,
    limit_s: float = PROBE_S,
    device: Path = KVM_DEVICE,
    boot_id: Path = BOOT_ID,
) -> str:
    """Boot a machine under KVM, or return the cached result of this boot of the host.

    The device alone proves little: with nested virtualization, kernels may not boot under it.

    Args:
        image: the machine; its clock is ignored.
        options: name the emulator and the cache.
        limit_s: limit of the boot, in seconds.
        device: of KVM.
        boot_id: a file whose content is another one after each boot of the host.

    Returns:
        Why KVM does not work, without a full stop; empty if it works.

    Raises:
        UserError: the kernel or the initrd can't be read, or the cache is not writable.
    """
    if trouble := kvm_device_trouble(image.machine.architecture, device):
        return trouble
    image = by_kvm(image)
    with VmTarget(image, dataclasses.replace(options, limits=Limits(host_s=limit_s, stop=threading.Event()))) as target:
        started = boot_id.read_bytes() if boot_id.exists() else b""
        kernel, emulator = bytes.fromhex(sha256_of(image.kernel)), dict(target.tools())["qemu"].encode()
        # Valid for one image and one emulator until this host is rebooted.
        cached = (
            (options.cache or cache_dir())
            / "kvm"
            / digest_of(
                {
                    "host": started,
                    "emulator": emulator,
                    "kernel": kernel,
                    "initrd": bytes.fromhex(sha256_of(image.initrd)),
                }
            )
        )
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return cached.read_text()
        trouble = _try_kernel(target, image, limit_s, device)
    write_whole(cached, trouble.encode())
    return trouble


def _try_kernel(target: VmTarget, image: VmImage, limit_s: float, device: Path) -> str:
    run = target.run_plan(encode_plan_header() + b"quit\n", limit_ms=_LIMIT_MS, replicate=0)
    name = image.banner.removeprefix("Linux version ").partition(" (")[0] or str(image.kernel)
    if run.end is GuestEnd.HOST_TIME:
        return f"{device} opens, but the kernel {name} did not start under it within {limit_s:g} s"
    if run.end is not GuestEnd.FINISHED:
        return f"{device} opens, but the kernel {name} did not start under it: {run.reason}"
    try:
        decode_run(run)
    except UserError as error:
        return f"{device} opens, but the kernel {name} does not run well under it: {error.message}"
    return ""
