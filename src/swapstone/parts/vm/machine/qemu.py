# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run of QEMU: a machine on the virtual clock, or with KVM on the wall clock, from its command line to its output.

Every end of a guest is a result and no exception: panic, hang, too much output, failed start. docs/virtual-machines.md explains the
clock and the options.

A virtual machine boots a kernel and an initrd, to which the files of an experiment are appended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from swapstone.core.model import FrozenStruct
from swapstone.core.model.cpio import unpack
from swapstone.core.model.directories import share_dir
from swapstone.core.model.frozen_struct import Name, NonNegative
from swapstone.core.model.regular_file import readable, tail_of
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_build import FREESTANDING, build_native, plugin_option, sha256_of
from swapstone.parts.vm.factors.kernel import kept_options
from swapstone.parts.vm.machine.emulator import (
    BARE,
    CHANNEL_BYTES,
    CHANNEL_START,
    EmulatedMachine,
    Emulator,
    MachineModel,
    clock_options,
)
from swapstone.parts.vm.machine.task_counts import decode_counts


@dataclasses.dataclass(frozen=True)
class VmImage:
    """The kernel and the file system that a virtual machine boots, without programs.

    Attributes:
        kernel: its file in a form that QEMU boots.
        initrd: a cpio archive of the file system, to which agent and first process are appended.
        machine: the emulated machine.
        agent, init: the agent and the first process; None to build them when they are needed.
        own_modules: this project's modules for this kernel by name, for trials that need them.
        banner: the kernel's version text in its file, with or without ``Linux version``; empty if it has none.
    """

    kernel: Path
    initrd: Path
    machine: EmulatedMachine = dataclasses.field(default_factory=EmulatedMachine)
    agent: Path | None = None
    init: Path | None = None
    own_modules: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    banner: str = ""


class BootImage:
    """One kernel with its initrd, to which agent and first process are appended.

    Args:
        source: kernel and file system.
    """

    def __init__(self, source: VmImage) -> None:
        self.source = source
        self.kernel_digest = bytes.fromhex(sha256_of(source.kernel))
        with readable(f"The initrd {source.initrd}"):
            self.base = source.initrd.read_bytes()
        self.entries = unpack(self.base)

    def initrd(self, added: bytes) -> bytes:
        """Return the initrd with an appended archive."""
        return self.base + bytes(-len(self.base) % 4) + added


def guest_sources() -> tuple[Path, ...]:
    """Return the C files and headers of a virtual machine's first process, sorted."""
    patterns = ("guest/*.[ch]", "port/*.[ch]", "wire/*.[ch]", "agent/text.[ch]")
    return tuple(sorted(path for pattern in patterns for path in (share_dir() / "native").glob(pattern)))


def build_init(directory: Path, compiler: str = "cc", *flags: str) -> Path:
    """Compile the first process of virtual machines, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-init", guest_sources(), directory, (compiler, *FREESTANDING, *flags))


HOST_LIMIT_S = 600.0
"""How long a machine may run by default, in seconds of this machine's time."""

_LOOK_S = 0.05  # interval of checks of a running machine
_TAIL_BYTES = 8192
_LINES = 12
_TURN_US = 10
_TURNS = (
    *("-netdev", "hubport,id=turns,hubid=0"),
    *("-object", f"filter-buffer,id=turn,netdev=turns,interval={_TURN_US}"),
)
"""A timer of the emulator, each 10 us of the guest's time, that the guest can't observe. Each expiry ends the turn of a processor."""

_KVM = ("-accel", "kvm", "-rtc", "base=utc")
_OPTIONS = ("quiet", "panic=-1", "nokaslr", "norandmaps", "mitigations=off", "random.trust_cpu=on")
_NOT_ON_WALL = frozenset({"mitigations=off", "rodata=off", "tsc=reliable", "rcupdate.rcu_expedited=1"})
"""Options that make the boot fast and also change what is measured: on the wall clock the machine has the kernel's defaults."""

_END, _SILENT = b"swapstone-end\n", "it ended without a reason"
_ENDED_FAILED = 67  # exit status by isa-debug-exit; native/port/virtual_machine.c


@dataclasses.dataclass(frozen=True)
class Setup:
    """All inputs of a run. A snapshot is none: it does not change the result.

    `plugin` is none either: arguments of QEMU's code generator that observe the machine, which the guest can't observe. Without them, and
    with `points`, the run's program is counted (`swapstone.parts.vm.machine.task_counts`). `received` has the files of the trial: what the
    machine receives (`EmulatedMachine.receives`), else an archive that follows the initrd.
    """

    emulator: Emulator
    machine: EmulatedMachine
    kernel: Path
    initrd: Path
    order: bytes
    plugin: tuple[str, ...] = ()
    received: Path = Path(os.devnull)
    points: bytes = b""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What ends a machine from outside: host time, bytes on its console, and the event `stop`."""

    host_s: float = HOST_LIMIT_S
    console_bytes: int = 1 << 20
    stop: threading.Event = dataclasses.field(default_factory=threading.Event, compare=False)


class GuestEnd(enum.Enum):
    """How a machine ended."""

    FINISHED = "finished"
    PANICKED = "panicked"
    INIT_FAILED = "init failed"  # its first process reported an error
    SILENT = "silent"  # it ended without a reason
    HOST_TIME = "host time"
    FLOODED = "flooded"
    STOPPED = "stopped"
    EMULATOR = "emulator"  # QEMU could not start, or crashed


class GuestRun(FrozenStruct, frozen=True, kw_only=True):
    """The result of a run.

    Attributes:
        end: how it ended.
        reason: for messages; empty if it finished.
        output: of its channel.
        console: the last lines of its console, or of QEMU's error messages.
        counts: what its program executed: pairs (fact, number); empty if that is not known.
    """

    end: GuestEnd
    reason: str = ""
    output: bytes = b""
    console: str = ""
    counts: tuple[tuple[Name, NonNegative], ...] = ()


def arguments(machine: EmulatedMachine, files: Mapping[str, str], *, saving: bool = False) -> tuple[str, ...]:
    """Return QEMU's arguments, without those that only monitor it.

    QEMU advances the clock of an idle machine in another thread than the one that executes its instructions, and may do so after the
    last instruction and before it is counted. When it records the run, a lock prevents that; but it can't save such a machine
    (docs/virtual-machine-runs.md, "Why a run repeats itself").

    Args:
        machine: the emulated machine.
        files: paths of ``kernel``, ``initrd``, ``order``, ``console``, ``channel`` and ``received``.
        saving: for a machine that can be saved, whose clock may be wrong.
    """
    family = machine.model
    return (
        *BARE,
        *(
            _KVM
            if machine.wall
            else clock_options(machine.ns_per_instruction, recorded=not saving and machine.processors == 1)
        ),
        *(
            "-M",
            family.machine,
            "-cpu",
            "host" if machine.wall else machine.cpu or family.cpu,
            "-smp",
            str(machine.processors),
            "-m",
            f"{machine.memory_bytes >> 20}M",
        ),
        *("-kernel", files["kernel"], "-initrd", files["initrd"], "-serial", f"file:{files['console']}"),
        *family.device_options(files, receives=machine.receives),
        *(_TURNS if machine.processors > 1 else ()),
        *("-append", " ".join(kernel_command_line(machine))),
    )


def base_options(machine: EmulatedMachine) -> tuple[str, ...]:
    """Return the kernel's command line of every machine of this architecture and clock, without what the level of its kernel changes."""
    awake = machine.model.awake if machine.processors > 1 and not machine.wall else ()
    return tuple(
        word for word in (*_OPTIONS, *machine.model.options, *awake) if not (machine.wall and word in _NOT_ON_WALL)
    )


def kept_base_options(machine: EmulatedMachine) -> tuple[str, ...]:
    """Return the base options that the level of a machine's kernel neither replaces nor leaves out."""
    return kept_options(base_options(machine), machine.parameters, machine.dropped)


def kernel_command_line(machine: EmulatedMachine) -> tuple[str, ...]:
    """Return the words of the kernel's command line."""
    return (*kept_base_options(machine), *machine.options, *machine.parameters)


class LimitReached(Exception):  # noqa: N818 - ends a wait; not an error of this program
    """A machine exceeded a limit.

    Args:
        end: which.
        reason: in words.
    """

    def __init__(self, end: GuestEnd, reason: str) -> None:
        super().__init__(reason)
        self.end = end
        self.reason = reason


class Guest:
    """A running machine, as a context manager. It ends with the context, and with this program.

    Args:
        setup: inputs.
        limits: of the run.
        watching: further arguments, which the guest can't observe.
        fds: file descriptors that they refer to.
        saving: for a machine that can be saved; see `arguments`.
    """

    def __init__(
        self,
        setup: Setup,
        limits: Limits,
        watching: Sequence[str] = (),
        fds: Sequence[int] = (),
        *,
        saving: bool = False,
    ) -> None:
        self._model = setup.machine.model
        self._limits = limits
        self._folder = TemporaryFolder("vm")
        folder = self._folder.path
        self._console, self._channel, self._complaints = (folder / name for name in ("console", "channel", "stderr"))
        self._counts, points = folder / "counts", folder / "points"
        (folder / "order").write_bytes(setup.order)
        plugin = setup.plugin
        if setup.points and not plugin and not saving:
            points.write_bytes(setup.points)
            plugin = plugin_option(self._counts, "mode=tasks", f"points={points}")
        if start := self._model.order_start:
            _write_order(self._channel, start, setup.order)
        files = {name: str(folder / name) for name in ("order", "console", "channel")}
        files |= {"kernel": str(setup.kernel), "initrd": str(setup.initrd), "received": str(setup.received)}
        if not setup.machine.receives:
            files["initrd"] = str(folder / "initrd")
            (folder / "initrd").write_bytes(setup.initrd.read_bytes() + setup.received.read_bytes())
        self._until = time.monotonic() + limits.host_s
        with self._complaints.open("wb") as complaints:
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--"),
                    *(
                        *setup.emulator.command,
                        *arguments(setup.machine, files, saving=saving),
                        *plugin,
                        *watching,
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                pass_fds=fds,
                start_new_session=True,
            )
        # SCHED_BATCH: a thread that wakes does not interrupt another one. QEMU's main loop wakes at each timer of the guest, and would wait
        # for the lock of the thread that executes the guest. It needs no rights (sched(7)). Where it is denied, the machine only takes more
        # processor time (docs/virtual-machine-runs.md).
        with contextlib.suppress(OSError):
            os.sched_setscheduler(self.process.pid, os.SCHED_BATCH, os.sched_param(0))

    def check(self) -> None:
        """Check the limits.

        Raises:
            LimitReached: one is exceeded.
        """
        limits = self._limits
        if self._console.exists() and self._console.stat().st_size > limits.console_bytes:
            raise LimitReached(GuestEnd.FLOODED, f"it wrote more than {limits.console_bytes} bytes to its console")
        if limits.stop.is_set():
            raise LimitReached(GuestEnd.STOPPED, "it was stopped")
        if time.monotonic() > self._until:
            raise LimitReached(
                GuestEnd.HOST_TIME, f"it ran for more than {limits.host_s:g} s of this machine's time (--guest-timeout)"
            )

    def output_bytes(self) -> int:
        """Return the size of its channel's output in bytes."""
        try:
            with self._channel.open("rb") as handle:
                return int.from_bytes(handle.read(8), "little")
        except FileNotFoundError:
            return 0

    def _output(self) -> bytes:
        """Return its channel's output."""
        with self._channel.open("rb") as handle:
            handle.seek(CHANNEL_START)
            return handle.read(min(self.output_bytes(), CHANNEL_BYTES))

    def wait(self) -> GuestRun:
        """Wait until it ends or exceeds a limit."""
        try:
            while self.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_LOOK_S)
                self.check()
        except LimitReached as stopped:
            return self.ended(stopped)
        return self.ended()

    def ended(self, stopped: LimitReached | None = None) -> GuestRun:
        """Kill it if it still runs, and return the result. `stopped` is the limit, if it exceeded one."""
        self._kill()
        console, complaints = (tail_of(path, _TAIL_BYTES) for path in (self._console, self._complaints))
        if stopped:
            return GuestRun(end=stopped.end, reason=stopped.reason, console=last_lines(console))
        end, reason = judge_end(self.process.returncode, console, complaints, self._model)
        output = self._output() if end is GuestEnd.FINISHED else b""
        if end is GuestEnd.FINISHED and not self._model.ended_well and not output.endswith(_END):
            # The kernel powers such a machine off in either case. An error is on the console, if there is one.
            return GuestRun(end=GuestEnd.SILENT, reason=_SILENT, console=last_lines(console or complaints))
        counts = decode_counts(self._counts.read_bytes()) if output and self._counts.exists() else ()
        return GuestRun(end=end, reason=reason, output=output, console=last_lines(console or complaints), counts=counts)

    def _kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._folder.close()


def _write_order(channel: Path, start: int, order: bytes) -> None:
    """Create the memory of a channel with an order in it; see `MachineModel`."""
    with channel.open("wb") as handle:
        handle.truncate(CHANNEL_BYTES)
        for at, content in ((start, len(order).to_bytes(8, "little")), (start + CHANNEL_START, order)):
            handle.seek(at)
            handle.write(content)


def last_lines(text: str) -> str:
    """Return the last lines that are not blank."""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-_LINES:])


_NOT_UNPACKED = "Initramfs unpacking failed: write error"
"""The kernel's message (init/initramfs.c) when the file system in memory is full. It boots with the files that were unpacked before."""


_CHANNEL_FULL = "can't write to the channel: error 28"
"""What the first process reports then (native/guest/init.c)."""


def judge_end(status: int, console: str, complaints: str, family: MachineModel) -> tuple[GuestEnd, str]:
    """Determine how a machine ended.

    Args:
        status: QEMU's exit status; negative if a signal ended it.
        console: the end of the guest's console.
        complaints: the output of QEMU.
        family: the machine's model.

    Returns:
        The end and its reason.
    """
    reported = re.search(r"^swapstone-init: (.*)$", console, re.MULTILINE)
    panic = re.search(r"Kernel panic - not syncing: (.*)$", console, re.MULTILINE)
    if panic and not (reported and reported.start() < panic.start()):  # a panic after the report is its consequence
        return GuestEnd.PANICKED, f"its kernel panicked: {panic[1].strip()}"
    if _NOT_UNPACKED in console:
        return GuestEnd.INIT_FAILED, "its files did not fit into its memory; add memory (--memory)"
    if reported and reported[1].strip() == _CHANNEL_FULL:
        room = (family.order_start or CHANNEL_BYTES) >> 20
        return GuestEnd.FLOODED, (
            f"what it printed does not fit into the {room} MiB of its channel, where a byte that is no visible ASCII character takes three"
        )
    if reported:
        return GuestEnd.INIT_FAILED, f"its first process reports: {_named_error(reported[1].strip())}"
    if status == family.ended_well:
        return GuestEnd.FINISHED, ""
    if status < 0:
        return GuestEnd.EMULATOR, f"QEMU was ended by signal {-status}"
    if status not in {0, _ENDED_FAILED}:
        words = complaints.strip().splitlines()[-1:] or [f"status {status}"]
        return GuestEnd.EMULATOR, f"QEMU could not run it: {words[0]}"
    return GuestEnd.SILENT, _SILENT


def _named_error(report: str) -> str:
    """Append the text of the error number with which a report of the first process ends."""
    number = re.search(r": error ([0-9]{1,4})\Z", report)
    return f"{report} ({os.strerror(int(number[1]))})" if number else report


def boot(setup: Setup, limits: Limits) -> GuestRun:
    """Boot a machine and wait for its end."""
    with Guest(setup, limits, ("-action", "watchdog=none")) as guest:
        return guest.wait()
