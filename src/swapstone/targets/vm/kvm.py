"""Whether KVM works here: a kernel is started under it, once for each start of this host."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import msgspec

from swapstone.model import UserError
from swapstone.model.directories import cache_dir
from swapstone.targets.vm.qemu import GuestEnd, Limits
from swapstone.targets.vm.run_cache import write_whole
from swapstone.targets.vm.run_name import digest_of, digest_of_file
from swapstone.targets.vm.target import VmImage, VmOptions, VmTarget, understood
from swapstone.wire import encode_plan_header

PROBE_S = 15.0
"""A stock kernel under KVM is up in a second or two; one that isn't there by now won't come."""

KVM_DEVICE = Path("/dev/kvm")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LIMIT_MS = 5_000
_USUAL = VmOptions()


def by_kvm(parts: VmImage) -> VmImage:
    """Return the same machine on the wall clock."""
    return dataclasses.replace(parts, machine=msgspec.structs.replace(parts.machine, wall=True))


def kvm_device_trouble(architecture: str, device: Path = KVM_DEVICE) -> str:
    """Say why KVM can't be used, as far as can be told without starting anything; empty if nothing speaks against it.

    Args:
        architecture: of the machine, as ``uname -m`` says.
        device: KVM's.
    """
    here = os.uname().machine
    if architecture != here:
        return f"KVM runs machines of this processor, {here}, and this one is {architecture}"
    try:
        with device.open("r+b", buffering=0):
            return ""
    except OSError as error:
        return f"{device} can't be opened: {error.strerror}"


def kvm_trouble(
    parts: VmImage, ways: VmOptions = _USUAL, *, limit_s: float = PROBE_S, device: Path = KVM_DEVICE
) -> str:
    """Start a machine under KVM, unless that was tried before since this host was started, and say what is wrong with it.

    That the device is there says little: it may be a virtual machine's own, under which ordinary kernels don't start.

    Args:
        parts: the machine; its clock doesn't matter.
        ways: names the emulator and the cache, in which the answer is kept.
        limit_s: how long it may take, in seconds.
        device: KVM's.

    Returns:
        The reason why it doesn't work, in words without a full stop; empty if it works.

    Raises:
        UserError: the kernel or the initrd can't be read, or the answer can't be written.
    """
    if trouble := kvm_device_trouble(parts.machine.architecture, device):
        return trouble
    parts = by_kvm(parts)
    with VmTarget(parts, dataclasses.replace(ways, limits=Limits(host_s=limit_s, stop=threading.Event()))) as target:
        kept = (ways.cache or cache_dir()) / "kvm" / _key(parts, dict(target.tools())["qemu"])
        if (known := _known(kept)) is not None:
            return known
        trouble = _tried(target, parts, limit_s, device)
    write_whole(kept, trouble.encode())
    return trouble


def _key(parts: VmImage, emulator: str) -> str:
    """Name an answer: it holds for a kernel and an emulator, as long as this host is not started again."""
    started = _BOOT.read_bytes() if _BOOT.exists() else b""
    return digest_of({"host": started, "emulator": emulator.encode(), "kernel": digest_of_file(parts.kernel)})


def _known(kept: Path) -> str | None:
    try:
        return kept.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _tried(target: VmTarget, parts: VmImage, limit_s: float, device: Path) -> str:
    run = target.make(encode_plan_header() + b"quit\n", limit_ms=_LIMIT_MS, draw=0)
    name = parts.banner.removeprefix("Linux version ").partition(" (")[0] or str(parts.kernel)
    if run.how is GuestEnd.HOST_TIME:
        return f"{device} opens, but the kernel {name} did not start under it within {limit_s:g} s"
    if run.how is not GuestEnd.FINISHED:
        return f"{device} opens, but the kernel {name} did not start under it: {run.reason}"
    try:
        understood(run)
    except UserError as error:
        return f"{device} opens, but the kernel {name} does not run well under it: {error.message}"
    return ""
