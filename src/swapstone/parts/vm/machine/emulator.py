# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds a QEMU that can emulate a machine on the instruction clock: which one, its version, and whether it has what the machine needs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import (
    MOST_PROCESSORS,
    USUAL_MEMORY_BYTES,
    FrozenStruct,
    UnavailableError,
    UserError,
    unknown,
)
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder

CHANNEL_START = 4096
"""Offset of the output in the channel, whose first 8 bytes are its length; as in native/port/virtual_machine.c."""

CHANNEL_BYTES = 64 << 20
"""Size of the memory that a guest writes its output to, as in native/port/virtual_machine.h: for any 16 MiB that a program prints, because
no byte takes more than three, and the answers beside them."""

_ORDER_START = CHANNEL_BYTES - (4 << 20)  # ORDER_START in native/port/virtual_machine.c


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
        order_start: offset of the order in the channel: 8 bytes with its length, and from the next page on its text. 0 if the order is a
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
    order_start: int = 0
    snapshots: bool = True
    awake: tuple[str, ...] = ()

    def device_options(self, files: Mapping[str, str], *, receives: bool = False) -> tuple[str, ...]:
        """Return `devices` with the paths of ``channel`` and ``order``, and the file of fw_cfg that a machine receives, ``received``."""
        found = (*self.devices, *(_RECEIVED if receives else ()))
        for name in ("channel", "order", *(("received",) if receives else ())):
            found = tuple(device.replace(f"={{{name}}}", f"={files[name].replace(',', ',,')}") for device in found)
        return found


_CHANNEL = (
    *("-object", f"memory-backend-file,id=channel,mem-path={{channel}},size={CHANNEL_BYTES},share=on"),
    *("-device", "ivshmem-plain,addr=2,memdev=channel,master=on"),
)
_ORDER = ("-fw_cfg", "name=opt/swapstone/order,file={order}")
_RECEIVED = ("-fw_cfg", "name=opt/swapstone/files,file={received}")
_PCI_DEVICES = ("-device", "i6300esb,addr=1", *_CHANNEL)
_VIRT_OPTIONS = ("cryptomgr.notests", "rodata=off", "rcupdate.rcu_expedited=1")

MACHINE_MODELS: dict[str, MachineModel] = {
    "x86_64": MachineModel(
        program="qemu-system-x86_64",
        machine="pc,i8042=off",
        cpu="qemu64",
        cpu_flags=("ssse3", "sse4_1", "sse4_2", "avx", "avx2", "bmi2", "avx512vl", "avx512bw", "erms", "fsrm", "rtm"),
        devices=("-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-device", "ib700", *_CHANNEL, *_ORDER),
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
        devices=(*_PCI_DEVICES, *_ORDER),
        options=("console=ttyAMA0", *_VIRT_OPTIONS),
        awake=("nohlt", "cpuidle.off=1"),
    ),
    "arm": MachineModel(
        program="qemu-system-arm",
        # Without highmem=off, the PCI devices are above 4 GiB, where a kernel without LPAE can't access them.
        machine="virt,highmem=off",
        cpu="cortex-a15",
        cpu_flags=("neon", "vfp"),
        devices=(*_PCI_DEVICES, *_ORDER),
        options=("console=ttyAMA0", *_VIRT_OPTIONS),
        snapshots=False,  # QEMU 7.2 ends when it restores one: "replay_advance_current_icount: Assertion `diff >= 0' failed"
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
        receives: whether it receives files after it was saved, into a pool that it made; else they are a part of its initrd.
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
    receives: bool = False

    @property
    def is_saved(self) -> bool:
        """Whether it is booted once, saved, and restored for each trial."""
        return self.model.snapshots and not self.wall and self.processors == 1

    @property
    def model(self) -> MachineModel:
        """The model of its architecture.

        Raises:
            UserError: there is no such architecture.
        """
        if self.architecture not in MACHINE_MODELS:
            raise unknown("architecture", self.architecture, MACHINE_MODELS)
        return MACHINE_MODELS[self.architecture]


def check_processors(processors: int) -> None:
    """Check the number of processors of a machine.

    Raises:
        UserError: it has fewer than one, or more than `MOST_PROCESSORS`.
    """
    if not 1 <= processors <= MOST_PROCESSORS:
        raise UserError(
            f"A virtual machine can't have {processors} processors.", f"Name 1 to {MOST_PROCESSORS} with --smp."
        )


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


OLDEST = (7, 0)
"""The oldest QEMU whose runs on the instruction clock were found to be reproducible to the byte."""

OLDEST_OF_SEVERAL = (10, 0)
"""The oldest QEMU whose runs with several processors were found to be fair to each of them, and mostly reproducible.

Before 8.1 a busy processor can take all turns of the others (QEMU's commit 83ecdb18eb): with 7.2 an arm64 kernel has latencies of 73 ms
where it has 3.2 ms with 10.0, and x86_64 hangs.
"""

SEVERAL = ("x86_64", "aarch64")
"""Architectures whose machines may have several processors."""

EMULATORS_VARIABLE = "SWAPSTONE_QEMU"
"""The environment variable with the folder of another QEMU: that of its programs, or one into which packages of Debian were unpacked."""

_VERSION = re.compile(r"version ([0-9]{1,6})\.([0-9]{1,6})")
_CPU = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._+-]{0,40}(,[+-]?[a-z0-9][a-z0-9._-]{0,30}(=[a-z0-9]{1,10})?){0,40}", re.ASCII
)
_PROBE_S = 30
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_RECORDED = "rr=record,rrfile=/dev/null"
"""Recording, to /dev/null, makes QEMU hold one lock while it executes and counts instructions; see `arguments` in qemu.py."""

BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-sandbox", _SANDBOX)


class Emulator(FrozenStruct, frozen=True, kw_only=True):
    """A usable QEMU.

    Attributes:
        path: the program.
        data: folders of its firmware; empty for those that it finds itself.
        version: the first line of ``--version``.
        build: SHA-256 of the program and its firmware.
    """

    path: str
    version: str
    build: str
    data: tuple[str, ...] = ()

    @property
    def number(self) -> tuple[int, int]:
        """The first two numbers of its version."""
        found = _VERSION.search(self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def command(self) -> tuple[str, ...]:
        """The program, with the options that name its firmware."""
        return _command(self.path, self.data)


def _command(path: str, data: Iterable[str]) -> tuple[str, ...]:
    return (path, *(word for folder in data for word in ("-L", folder)))


def clock_options(ns_per_instruction: int, *, recorded: bool = True) -> tuple[str, ...]:
    """Return the options of a clock that counts instructions."""
    counted = f"shift={ns_per_instruction.bit_length() - 1},sleep=off"
    words = f"{counted},{_RECORDED}" if recorded else counted
    return ("-accel", "tcg", "-icount", words, "-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1")


def check_cpu(emulator: Emulator, machine: EmulatedMachine) -> None:
    """Check before images are fetched that an emulator has a machine's processor.

    Raises:
        UserError: it has no such model or feature, or the text is no value of ``-cpu``.
    """
    cpu = machine.cpu
    if not _CPU.fullmatch(cpu):
        raise UserError(
            f"{cpu[:80]!a} is no processor model of QEMU.", "For example: --cpu-model Nehalem or qemu64,+ssse3"
        )
    model = machine.model
    value = f"{cpu},enforce" if machine.architecture == "x86_64" else cpu  # others refuse what they don't have
    tried = _ask(
        [*emulator.command, *BARE, "-accel", "tcg", "-M", model.machine, "-cpu", value, "-S", "-qmp", "stdio"],
        '{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n',
    )
    if tried.returncode != 0:
        lines = [line.partition(": ")[2] or line for line in tried.stderr.strip().splitlines()]
        raise UserError(
            f"{emulator.version} can't emulate the processor {cpu}: {'; '.join(lines[:3])[:300] or f'status {tried.returncode}'}.",
            f"List the models: {Path(emulator.path).name} -cpu help",
        )


def find_emulator(machine: EmulatedMachine, program: str = "") -> Emulator:
    """Find a QEMU that can emulate a machine on the virtual clock.

    Args:
        machine: the machine to emulate.
        program: name or path of the emulator; empty for the machine's default.

    Raises:
        UnavailableError: there is none, it is too old, or it lacks a feature; the text names it.
    """
    path, data = _located(program or machine.model.program)
    require_command("setpriv", "Ending the emulator together with Swapstone")
    status = Path(path).stat()
    found = _examine(path, data, machine.model, (status.st_size, status.st_mtime_ns))
    check_several(machine, found)
    return found


def _located(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the path of an emulator, and the folders of its firmware if it can't find them itself.

    Raises:
        UnavailableError: there is no such program.
    """
    chosen = os.environ.get(EMULATORS_VARIABLE, "") if "/" not in name else ""
    if not chosen:
        return require_command(name, "Emulating a machine"), ()
    root = Path(chosen).expanduser().absolute()
    found = next((each for each in (root / name, root / "usr/bin" / name) if os.access(each, os.X_OK)), None)
    if found is None:
        raise UnavailableError(
            f"{EMULATORS_VARIABLE} names the folder {safe(chosen)[:200]}, and there is no {name} in it.",
            f"Unset it for the {name} of this system.",
        )
    shared = (root / "usr/share/qemu", root / "usr/share/seabios")
    return str(found), tuple(str(folder) for folder in shared if folder.is_dir())


def check_several(machine: EmulatedMachine, emulator: Emulator) -> None:
    """Check that an emulator can emulate a machine's number of processors.

    Raises:
        UnavailableError: it can't; the text has the reason.
    """
    if machine.processors == 1:
        return
    if machine.architecture not in SEVERAL:
        raise UnavailableError(
            f"A machine of {machine.architecture} has one processor: no options are known that keep it from being idle.",
            "Several processors: --arch x86_64 or --arch arm64",
        )
    if emulator.number < OLDEST_OF_SEVERAL:
        raise UnavailableError(
            f"Several processors on the instruction clock need QEMU {OLDEST_OF_SEVERAL[0]}.{OLDEST_OF_SEVERAL[1]} or newer, and "
            f"{emulator.path} is: {emulator.version}. Before 8.1 a busy processor takes the turns of the others.",
            "On Debian 12: " + SEVERAL_HINT,
        )


SEVERAL_HINT = (
    "sudo apt-get install -t bookworm-backports qemu-system-x86 qemu-system-arm, or unpack these packages with dpkg -x into a folder and "
    f"set {EMULATORS_VARIABLE} to it"
)


@functools.cache
def _examine(path: str, data: tuple[str, ...], family: MachineModel, _stamp: tuple[int, int]) -> Emulator:
    """Read an emulator's version, and start a machine without a kernel, with the clock and the devices of a run."""
    version = (_ask([path, "--version"]).stdout.splitlines() or [""])[0]
    found = _VERSION.search(version)
    if not found:
        raise UnavailableError(f"The output of {path} --version names no version of QEMU: {version!r}.")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise UnavailableError(
            f"{path} is too old: {version}.", f"The virtual clock needs QEMU {OLDEST[0]}.{OLDEST[1]} or newer."
        )
    with TemporaryFolder("vm") as room:
        files = {name: str(room / name) for name in ("channel", "order")}
        Path(files["order"]).touch()
        machine = ("-M", family.machine, "-cpu", family.cpu, *family.device_options(files))
        tried = _ask(
            [*_command(path, data), *BARE, *clock_options(1), *machine, "-S", "-qmp", "stdio"],
            '{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n',
        )
    if tried.returncode != 0:
        words = tried.stderr.strip().splitlines()[-1:] or [f"status {tried.returncode}"]
        raise UnavailableError(f"{path} can't emulate a machine on the virtual clock: {words[0]}")
    digest = hashlib.sha256(version.encode())
    for part in (Path(path), *_firmware(path, data, family.firmware)):
        digest.update(f"\0{part.name}\0".encode() + hashlib.sha256(part.read_bytes()).digest())
    return Emulator(path=path, version=version, build=digest.hexdigest(), data=data)


def _firmware(path: str, data: Iterable[str], names: Iterable[str]) -> list[Path]:
    """Return the firmware files that an emulator loads, each from the first of its folders that contains it."""
    folders = [*map(Path, data)]
    folders += [Path(line) for line in _ask([path, "-L", "help"]).stdout.splitlines()]
    places = (((folder / name) for folder in folders if (folder / name).is_file()) for name in names)
    return [place for place in (next(found, None) for found in places) if place]


def _ask(command: Sequence[str], words: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=words, capture_output=True, text=True, check=False, timeout=_PROBE_S, env={"LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]} can't be run: {error}.") from error
