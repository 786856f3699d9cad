# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what virtual boards boot."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.model.architectures import find_architecture
from swapstone.parts.vm.artifacts.libc_files import LibcImageRequest, build_libc_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import VmImage

BOARD_PROGRAMS = ("busybox", "zlib", "dropbear")
BOARD_MODULES = ("virtio_pci", "virtio_net", "lz4", "zstd", "zram")


def board_image(name: str, notify: Callable[[str], None]) -> VmImage:
    """Build what a virtual board boots, or take it from the cache: a kernel with its network driver, and busybox and dropbear with musl.

    Args:
        name: of its architecture.
        notify: called with a line before each long step, and before the boot.

    Raises:
        UserError: a download or a build fails.
        UnavailableError: a tool is missing; the hint names its package.
    """
    architecture = find_architecture(name)
    wanted = LibcImageRequest(
        architecture=architecture.name, libc="musl", modules=BOARD_MODULES, programs=BOARD_PROGRAMS
    )
    built = build_libc_image(wanted, notify).built
    notify(f"booting a virtual board: an emulated {architecture.name} machine")
    machine = EmulatedMachine(architecture=architecture.machine)
    return VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)
