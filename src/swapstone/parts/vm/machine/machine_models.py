# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emulated machines: one model for each architecture (docs/virtual-machines.md)."""

from __future__ import annotations

from collections.abc import Iterable

from swapstone.core.model import MOST_PROCESSORS, USUAL_MEMORY_BYTES, FrozenStruct, UserError, unknown

CHANNEL_START = 4096
"""Offset of the output in a channel that is memory; as in native/port/virtual_machine.c."""

_CHANNEL_BYTES = 16 << 20  # native/port/virtual_machine.c
_ORDER_START = 12 << 20  # ORDER_START there


class MachineModel(FrozenStruct, frozen=True, kw_only=True):
    """The model of an emulated machine of one architecture.

    Attributes:
        program: the emulator.
        machine, cpu: values of QEMU's options ``-M`` and ``-cpu``.
        cpu_flags: flags in /proc/cpuinfo on which C libraries base the choice among variants of their functions.
        devices: QEMU's options for devices; ``{channel}`` and ``{order}`` are replaced by paths.
        options: of the kernel's command line.
        firmware: the firmware files that QEMU loads.
        ended_well: QEMU's exit status if the first process ended without an error; 0 where the kernel powers off in either case.
        channel_bytes: size of the shared memory that is the channel. Its first 8 bytes are the length of the output, which starts at
            `CHANNEL_START`. 0 if the channel is a file that grows.
        order_start: offset of the order in that memory: 8 bytes with its length, and from the next page on its text. 0 if the order is a
            file of fw_cfg.
        snapshots: whether a saved machine continues when it is restored.
        awake: options of the kernel's command line that keep an idle processor executing instructions; empty if none are known.
    """

    program: str
    machine: str
    cpu: str
    cpu_flags: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    options: tuple[str, ...]
    firmware: tuple[str, ...] = ()
    ended_well: int = 0
    channel_bytes: int = 0
    order_start: int = 0
    snapshots: bool = True
    awake: tuple[str, ...] = ()


_PCI_DEVICES = (
    *("-object", f"memory-backend-file,id=channel,mem-path={{channel}},size={_CHANNEL_BYTES},share=on"),
    *("-device", "i6300esb,addr=1"),
    *("-device", "ivshmem-plain,addr=2,memdev=channel,master=on"),
)
_VIRT_DEVICES = (*_PCI_DEVICES, "-fw_cfg", "name=opt/swapstone/order,file={order}")
_VIRT_OPTIONS = ("cryptomgr.notests", "rodata=off", "rcupdate.rcu_expedited=1")

MACHINE_MODELS: dict[str, MachineModel] = {
    "x86_64": MachineModel(
        program="qemu-system-x86_64",
        machine="pc,i8042=off",
        cpu="qemu64",
        cpu_flags=("ssse3", "sse4_1", "sse4_2", "avx", "avx2", "bmi2", "avx512vl", "avx512bw", "erms", "fsrm", "rtm"),
        devices=(
            *("-debugcon", "file:{channel}"),
            *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
            *("-device", "ib700"),
            *("-fw_cfg", "name=opt/swapstone/order,file={order}"),
        ),
        options=(
            *("console=ttyS0", "reboot=t", "no_timer_check", "tsc=reliable", "cryptomgr.notests", "rodata=off"),
            *("initcall_blacklist=load_system_certificate_list,init_blk_tracer", "rcupdate.rcu_expedited=1"),
        ),
        firmware=(
            "bios-256k.bin",
            "kvmvapic.bin",
            "linuxboot.bin",
            "linuxboot_dma.bin",
            "multiboot_dma.bin",
            "pvh.bin",
        ),
        ended_well=65,
        awake=("idle=poll",),
    ),
    "aarch64": MachineModel(
        program="qemu-system-aarch64",
        machine="virt",
        cpu="cortex-a72",
        cpu_flags=("atomics", "sve", "sve2", "mops"),
        devices=_VIRT_DEVICES,
        options=("console=ttyAMA0", *_VIRT_OPTIONS),
        channel_bytes=_CHANNEL_BYTES,
        awake=("nohlt", "cpuidle.off=1"),
    ),
    "arm": MachineModel(
        program="qemu-system-arm",
        # Without highmem=off, the PCI devices are above 4 GiB, where a kernel without LPAE can't access them.
        machine="virt,highmem=off",
        cpu="cortex-a15",
        cpu_flags=("neon", "vfp"),
        devices=_VIRT_DEVICES,
        options=("console=ttyAMA0", *_VIRT_OPTIONS),
        channel_bytes=_CHANNEL_BYTES,
    ),
    "riscv64": MachineModel(
        program="qemu-system-riscv64",
        machine="virt",
        cpu="rv64",
        cpu_flags=("v", "zba", "zbb", "zbs"),
        # QEMU 7.2 makes this machine's fw_cfg too late for its option -fw_cfg: "fw_cfg device not available".
        devices=_PCI_DEVICES,
        options=("console=ttyS0", *_VIRT_OPTIONS),
        firmware=("opensbi-riscv64-generic-fw_dynamic.bin",),
        channel_bytes=_CHANNEL_BYTES,
        order_start=_ORDER_START,
        snapshots=False,  # in QEMU 7.2 a restored machine never gets another timer interrupt
    ),
}
"""By the machine's name in `swapstone.parts.vm.artifacts.image_catalog`."""


class EmulatedMachine(FrozenStruct, frozen=True, kw_only=True):
    """An emulated machine.

    Attributes:
        architecture: one of `MACHINE_MODELS`.
        cpu: value of QEMU's option ``-cpu``; empty for the model's.
        memory_bytes: whole MiB.
        options: added to the kernel's command line.
        parameters: boot parameters of the kernel's level: they come last, and replace base options of the same key.
        dropped: keys of base options that are left out.
        wall: whether it runs under KVM on the wall clock, not on the virtual clock.
        ns_per_instruction: one of `CLOCK_SCALES`; without a meaning on the wall clock.
        processors: how many; 1 to `MOST_PROCESSORS`.
    """

    architecture: str = "x86_64"
    cpu: str = ""
    memory_bytes: int = USUAL_MEMORY_BYTES
    options: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    wall: bool = False
    ns_per_instruction: int = 1
    processors: int = 1

    @property
    def model(self) -> MachineModel:
        """The model of its architecture.

        Raises:
            UserError: there is no such architecture.
        """
        if self.architecture not in MACHINE_MODELS:
            raise unknown("architecture", self.architecture, MACHINE_MODELS)
        return MACHINE_MODELS[self.architecture]


def check_processors(processors: int) -> int:
    """Return a number of processors that a machine may have.

    Raises:
        UserError: it has fewer than one, or more than `MOST_PROCESSORS`.
    """
    if not 1 <= processors <= MOST_PROCESSORS:
        raise UserError(
            f"A virtual machine can't have {processors} processors.", f"Name 1 to {MOST_PROCESSORS} with --smp."
        )
    return processors


def check_awake(machine: EmulatedMachine, level: str, keys: Iterable[str]) -> None:
    """Check that a level of the factor ``kernel`` leaves the options alone that keep idle processors executing instructions.

    Args:
        machine: with several processors.
        level: as the user typed it.
        keys: of the boot parameters that it sets or leaves out, with ``_`` for ``-``.

    Raises:
        UserError: it sets or leaves out one of them.
    """
    awake = {word.partition("=")[0] for word in machine.model.awake}
    if key := next((key for key in keys if key in awake), ""):
        raise UserError(
            f"{level[:80]} changes the boot option {key}, which machines with several processors need: without it their clock depends "
            "on the host.",
            "Leave it out of the level, or leave --smp out.",
        )
