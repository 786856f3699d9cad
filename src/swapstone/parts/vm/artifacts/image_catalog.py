# SPDX-License-Identifier: MIT OR Apache-2.0
"""What images can consist of: architectures, packaged kernels, parts with programs, and kernel modules."""

from __future__ import annotations

import msgspec

from swapstone.core.model import FrozenStruct, architectures, find_named
from swapstone.core.model.architectures import Architecture

MODULES: tuple[str, ...] = ("configfs", "qemu_fw_cfg", "null_blk", "lz4", "zstd", "zram", "ext4")
"""Kernel modules that measurements in a virtual machine need."""


class MachineArchitecture(Architecture, frozen=True, kw_only=True):
    """An architecture of virtual machines.

    Attributes:
        kernels: package of the newest version, by the kernel's name.
        emulator: QEMU's program.
        options: of the emulator.
        console: name of the serial console on the kernel's command line.
        modules: loaded by default.
    """

    kernels: dict[str, str]
    emulator: str
    options: tuple[str, ...]
    console: str
    modules: tuple[str, ...] = MODULES


MACHINE_ARCHITECTURES: tuple[MachineArchitecture, ...] = (
    MachineArchitecture(
        **msgspec.structs.asdict(architectures.X86_64),
        kernels={"generic": "linux-image-amd64", "rt": "linux-image-rt-amd64"},
        emulator="qemu-system-x86_64",
        options=("-M", "pc"),
        console="ttyS0",
    ),
    MachineArchitecture(
        **msgspec.structs.asdict(architectures.ARM64),
        kernels={"generic": "linux-image-arm64", "rt": "linux-image-rt-arm64"},
        emulator="qemu-system-aarch64",
        options=("-M", "virt", "-cpu", "cortex-a72"),
        console="ttyAMA0",
    ),
    MachineArchitecture(
        **msgspec.structs.asdict(architectures.ARMHF),
        kernels={"generic": "linux-image-armmp", "rt": "linux-image-rt-armmp"},
        emulator="qemu-system-arm",
        options=("-M", "virt", "-cpu", "cortex-a15"),
        console="ttyAMA0",
        # The distribution builds its kernel without qemu_fw_cfg.
        modules=tuple(name for name in MODULES if name != "qemu_fw_cfg"),
    ),
    MachineArchitecture(
        **msgspec.structs.asdict(architectures.RISCV64),
        kernels={"generic": "linux-image-riscv64", "rt": "linux-image-rt-riscv64"},
        emulator="qemu-system-riscv64",
        options=("-M", "virt"),
        console="ttyS0",
    ),
)

KERNELS: dict[str, tuple[str, str]] = {
    "generic": ("generic", ""),
    "rt": ("rt", ""),
    "none": ("generic", "preempt=none"),
    "voluntary": ("generic", "preempt=voluntary"),
    "full": ("generic", "preempt=full"),
}
"""Levels of the factor kernel, each with its packaged kernel and additions to the kernel's command line."""


class ImagePart(FrozenStruct, frozen=True, kw_only=True):
    """A component that an image can contain besides its kernel.

    Attributes:
        name: on the command line.
        package: that contains it.
        files: paths without ``usr/``; each is a pattern that matches one file.
        objects: sonames needed at run time in addition to the dependencies of its files.
    """

    name: str
    package: str
    files: tuple[str, ...]
    objects: tuple[str, ...] = ()


PARTS: tuple[ImagePart, ...] = (
    ImagePart(name="busybox", package="busybox-static", files=("bin/busybox",)),
    ImagePart(
        name="glibc", package="libc6", files=(), objects=("libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")
    ),
    # glibc loads it by name when a thread is cancelled.
    ImagePart(name="libgcc", package="libgcc-s1", files=(), objects=("libgcc_s.so.1",)),
    ImagePart(name="musl", package="musl", files=("lib/ld-musl-*.so.1",)),
    ImagePart(name="cyclictest", package="rt-tests", files=("bin/cyclictest", "bin/hackbench")),
    ImagePart(name="stress-ng", package="stress-ng", files=("bin/stress-ng",)),
    ImagePart(name="iperf3", package="iperf3", files=("bin/iperf3",)),
    ImagePart(name="memtester", package="memtester", files=("sbin/memtester",)),
    ImagePart(name="mke2fs", package="e2fsprogs", files=("sbin/mke2fs", "etc/mke2fs.conf")),
)


def find_machine_architecture(name: str) -> MachineArchitecture:
    """Return an architecture of virtual machines by name.

    Raises:
        UserError: there is no such architecture.
    """
    return find_named("architecture", name, {each.name: each for each in MACHINE_ARCHITECTURES})


def find_part(name: str) -> ImagePart:
    """Return a part by name.

    Raises:
        UserError: there is no such part.
    """
    return find_named("part of an image", name, {part.name: part for part in PARTS})
