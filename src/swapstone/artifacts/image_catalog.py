"""What images are made of: architectures, kernels, the programs that packages bring, and the modules that are loaded."""

from __future__ import annotations

from swapstone.model import FrozenStruct, unknown

MODULES: tuple[str, ...] = ("configfs", "qemu_fw_cfg", "null_blk", "lz4", "zstd", "zram", "ext4")
"""What a measurement in a virtual machine needs of the kernel's modules."""


class Architecture(FrozenStruct, frozen=True, kw_only=True):
    """A kind of machine that images are made for.

    Attributes:
        name: as the command line has it.
        debian: as packages have it.
        machine: as ``uname -m`` of a 64-bit kernel or the ELF header has it; what `read_kernel` says.
        kernels: kernel's name to the package that names its newest version.
        emulator: the program that runs it.
        emulator_package: what brings that.
        options: what the emulator is given for it.
        console: the kernel's name of the serial line.
        modules: those that are loaded unless others are asked for.
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
        # The distribution's kernel for it is built without qemu_fw_cfg.
        modules=tuple(name for name in MODULES if name != "qemu_fw_cfg"),
    ),
    Architecture(
        name="riscv64",
        debian="riscv64",
        machine="riscv64",
        kernels={"generic": "linux-image-riscv64"},
        emulator="qemu-system-riscv64",
        emulator_package="qemu-system-misc",
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
"""Levels of the kernel, each with the packaged kernel that it is and what is added to the kernel's command line."""


class Part(FrozenStruct, frozen=True, kw_only=True):
    """Something that an image can have besides its kernel.

    Attributes:
        name: what is asked for.
        package: the package that brings it.
        files: its paths, without ``usr/``; each a pattern that matches one file.
        objects: sonames that it needs at run time besides those that its files name.
    """

    name: str
    package: str
    files: tuple[str, ...]
    objects: tuple[str, ...] = ()


PARTS: tuple[Part, ...] = (
    Part(name="busybox", package="busybox-static", files=("bin/busybox",)),
    Part(name="glibc", package="libc6", files=(), objects=("libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")),
    # glibc opens it by name when a thread is cancelled.
    Part(name="libgcc", package="libgcc-s1", files=(), objects=("libgcc_s.so.1",)),
    Part(name="musl", package="musl", files=("lib/ld-musl-*.so.1",)),
    Part(name="cyclictest", package="rt-tests", files=("bin/cyclictest", "bin/hackbench")),
    Part(name="stress-ng", package="stress-ng", files=("bin/stress-ng",)),
    Part(name="iperf3", package="iperf3", files=("bin/iperf3",)),
    Part(name="memtester", package="memtester", files=("sbin/memtester",)),
    Part(name="mke2fs", package="e2fsprogs", files=("sbin/mke2fs", "etc/mke2fs.conf")),
)


def architecture_of(name: str) -> Architecture:
    """Return the architecture of a name.

    Raises:
        UserError: there is none.
    """
    for architecture in ARCHITECTURES:
        if architecture.name == name:
            return architecture
    raise unknown("architecture", name, [architecture.name for architecture in ARCHITECTURES])


def part_of(name: str) -> Part:
    """Return the part of a name.

    Raises:
        UserError: there is none.
    """
    for part in PARTS:
        if part.name == name:
            return part
    raise unknown("part of an image", name, [part.name for part in PARTS])
