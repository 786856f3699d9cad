# SPDX-License-Identifier: MIT OR Apache-2.0
"""What images can consist of: architectures, packaged kernels, parts with programs, and kernel modules."""

from __future__ import annotations

from swapstone.model import FrozenStruct, find_named

MODULES: tuple[str, ...] = ("configfs", "qemu_fw_cfg", "null_blk", "lz4", "zstd", "zram", "ext4")
"""Kernel modules that measurements in a virtual machine need."""


class Architecture(FrozenStruct, frozen=True, kw_only=True):
    """An architecture of virtual machines.

    Attributes:
        name: on the command line.
        debian: in packages.
        machine: as printed by ``uname -m`` on a 64-bit kernel or given by the ELF header; see `read_kernel`.
        kernels: package of the newest version, by the kernel's name.
        emulator: QEMU's program.
        emulator_package: package of the emulator.
        options: of the emulator.
        console: name of the serial console on the kernel's command line.
        modules: loaded by default.
        suite: release of Debian that has its packages, at the mirrors of this machine's sources; empty for the releases that these name.
    """

    name: str
    debian: str
    machine: str
    kernels: dict[str, str]
    emulator: str
    emulator_package: str
    options: tuple[str, ...]
    console: str
    modules: tuple[str, ...] = MODULES
    suite: str = ""


ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture(
        name="x86_64",
        debian="amd64",
        machine="x86_64",
        kernels={"generic": "linux-image-amd64", "rt": "linux-image-rt-amd64"},
        emulator="qemu-system-x86_64",
        emulator_package="qemu-system-x86",
        options=("-M", "pc"),
        console="ttyS0",
    ),
    Architecture(
        name="arm64",
        debian="arm64",
        machine="aarch64",
        kernels={"generic": "linux-image-arm64", "rt": "linux-image-rt-arm64"},
        emulator="qemu-system-aarch64",
        emulator_package="qemu-system-arm",
        options=("-M", "virt", "-cpu", "cortex-a72"),
        console="ttyAMA0",
    ),
    Architecture(
        name="armhf",
        debian="armhf",
        machine="arm",
        kernels={"generic": "linux-image-armmp", "rt": "linux-image-rt-armmp"},
        emulator="qemu-system-arm",
        emulator_package="qemu-system-arm",
        options=("-M", "virt", "-cpu", "cortex-a15"),
        console="ttyAMA0",
        # The distribution builds its kernel without qemu_fw_cfg.
        modules=tuple(name for name in MODULES if name != "qemu_fw_cfg"),
    ),
    Architecture(
        name="riscv64",
        debian="riscv64",
        machine="riscv64",
        kernels={"generic": "linux-image-riscv64", "rt": "linux-image-rt-riscv64"},
        emulator="qemu-system-riscv64",
        emulator_package="qemu-system-misc",
        options=("-M", "virt"),
        console="ttyS0",
        suite="trixie",
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


def find_architecture(name: str) -> Architecture:
    """Return an architecture by name.

    Raises:
        UserError: there is no such architecture.
    """
    return find_named("architecture", name, {each.name: each for each in ARCHITECTURES})


def suite_of(debian: str) -> str:
    """Return the release that has an architecture's packages if it is not that of this machine's sources, by its Debian name."""
    return next((architecture.suite for architecture in ARCHITECTURES if architecture.debian == debian), "")


def find_part(name: str) -> ImagePart:
    """Return a part by name.

    Raises:
        UserError: there is no such part.
    """
    return find_named("part of an image", name, {part.name: part for part in PARTS})
