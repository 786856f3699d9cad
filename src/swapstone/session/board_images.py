# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what virtual boards boot."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.artifacts.image_catalog import find_architecture
from swapstone.artifacts.libc_image import LibcImageRequest, build_libc_image
from swapstone.targets.emulated_board import BoardImageRequest
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.machine_models import EmulatedMachine
from swapstone.targets.vm.spec import VmImages, VmSpec

BOARD_PROGRAMS = ("busybox", "zlib", "dropbear")
BOARD_MODULES = ("virtio_pci", "virtio_net", "lz4", "zstd", "zram")


def board_image(request: VmSpec | BoardImageRequest, notify: Callable[[str], None]) -> VmImages:
    """Build the image of a virtual board, or take it from the cache: musl, busybox and dropbear, and no program of an experiment.

    Args:
        request: the board; a `VmSpec` is of another kind of target.
        notify: called with a line before each long step, and before the boot.

    Raises:
        UserError: a download or a build fails.
        UnavailableError: a tool is missing; the hint names its package.
    """
    assert isinstance(request, BoardImageRequest)
    architecture = find_architecture(request.architecture)
    wanted = LibcImageRequest(
        architecture=architecture.name, libc="musl", modules=BOARD_MODULES, programs=BOARD_PROGRAMS
    )
    built = build_libc_image(wanted, notify).built
    notify(f"booting a virtual board: an emulated {architecture.name} machine")
    machine = EmulatedMachine(architecture=architecture.machine)
    return VmImages({request.architecture: VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)})
