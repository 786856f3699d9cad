"""The machines that are emulated: what one of each architecture is made of (docs/virtual-machines.md)."""

from __future__ import annotations

from swapstone.model import USUAL_MEMORY_BYTES, FrozenStruct, unknown

CHANNEL_START = 4096
"""Where, in a channel that is memory, the words begin; native/port/virtual_machine.c."""

_CHANNEL_BYTES = 16 << 20  # native/port/virtual_machine.c


class MachineModel(FrozenStruct, frozen=True, kw_only=True):
    """What an emulated machine of one architecture is made of.

    Attributes:
        program: the emulator.
        machine, cpu: what it emulates.
        devices: options for devices; ``{channel}`` and ``{order}`` stand for files.
        options: of the kernel's command line.
        firmware: files besides the program that the machine's first instructions come from.
        ended_well: QEMU's exit status where the first process ends the machine well; 0 where its kernel does, whatever happened.
        channel_bytes: of the memory that is the channel, its first 8 bytes the number of those that follow `CHANNEL_START`; 0 where
            the channel is a file that grows.
    """

    program: str
    machine: str
    cpu: str
    devices: tuple[str, ...] = ()
    options: tuple[str, ...]
    firmware: tuple[str, ...] = ()
    ended_well: int = 0
    channel_bytes: int = 0


MACHINE_MODELS: dict[str, MachineModel] = {
    "x86_64": MachineModel(
        program="qemu-system-x86_64",
        machine="pc,i8042=off",
        cpu="qemu64",
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
    ),
    "aarch64": MachineModel(
        program="qemu-system-aarch64",
        machine="virt",
        cpu="cortex-a72",
        devices=(
            *("-object", f"memory-backend-file,id=channel,mem-path={{channel}},size={_CHANNEL_BYTES},share=on"),
            *("-device", "i6300esb,addr=1"),
            *("-device", "ivshmem-plain,addr=2,memdev=channel,master=on"),
            *("-fw_cfg", "name=opt/swapstone/order,file={order}"),
        ),
        options=("console=ttyAMA0", "cryptomgr.notests", "rodata=off", "rcupdate.rcu_expedited=1"),
        channel_bytes=_CHANNEL_BYTES,
    ),
}
"""By what ``uname -m`` says."""


class EmulatedMachine(FrozenStruct, frozen=True, kw_only=True):
    """The machine that is emulated: one processor, and nothing that is not named here.

    Attributes:
        architecture: one of `MACHINE_MODELS`.
        memory_bytes: whole MiB.
        options: what is added to the kernel's command line.
        wall: whether it runs by KVM, on the wall clock, and not on the virtual one.
    """

    architecture: str = "x86_64"
    memory_bytes: int = USUAL_MEMORY_BYTES
    options: tuple[str, ...] = ()
    wall: bool = False

    @property
    def family(self) -> MachineModel:
        """What it is made of.

        Raises:
            UserError: there is no such architecture.
        """
        if self.architecture not in MACHINE_MODELS:
            raise unknown("architecture", self.architecture, MACHINE_MODELS)
        return MACHINE_MODELS[self.architecture]
