"""One run of QEMU: a machine on the virtual clock, or by KVM on the wall clock, from its command line to what it left behind.

Whatever a guest does is an outcome, never an exception: it panicked, hung, flooded its console, never started. The clock and each
option are explained in docs/virtual-machines.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from swapstone.model import FrozenStruct, UnavailableError
from swapstone.targets.vm.machine_models import CHANNEL_START, EmulatedMachine, MachineModel

OLDEST = (7, 0)
"""The oldest QEMU whose instruction clock was seen to repeat itself to the byte."""

_LOOK_S = 0.05  # how often a running machine is looked at
_TAIL_BYTES = 8192
_LINES = 12
_PROBE_S = 30
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_COUNTED = "shift=0,sleep=off"
_EXACT = f"{_COUNTED},rr=record,rrfile=/dev/null"
"""Who records a run, though nobody reads the record, gets one lock around carrying out instructions and counting them: see `arguments`."""

_CLOCK = ("-accel", "tcg", "-icount", _EXACT, "-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1")
_KVM = ("-accel", "kvm", "-rtc", "base=utc")
_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-sandbox", _SANDBOX)
_OPTIONS = ("quiet", "panic=-1", "nokaslr", "norandmaps", "mitigations=off", "random.trust_cpu=on")
_NOT_ON_WALL = frozenset({"mitigations=off", "rodata=off", "tsc=reliable", "rcupdate.rcu_expedited=1"})
"""Options that make a start cheap, and so does all that is measured afterwards: a wall clock shall show what users have."""

_END, _SILENT = b"swapstone-end\n", "it ended without saying why"
_ENDED_FAILED = 67  # exit status by isa-debug-exit; native/port/virtual_machine.c


class Emulator(FrozenStruct, frozen=True, kw_only=True):
    """A QEMU that can do what is asked of it.

    Attributes:
        path: the program.
        version: its first line about itself.
        build: SHA-256 of the program and of the firmware that it starts machines with.
    """

    path: str
    version: str
    build: str


@dataclasses.dataclass(frozen=True)
class Files:
    """Paths that a command line names."""

    kernel: str
    initrd: str
    order: str
    console: str
    channel: str


@dataclasses.dataclass(frozen=True)
class Setup:
    """All that a run is a function of, but for the snapshot that it may start from: that changes nothing."""

    emulator: Emulator
    machine: EmulatedMachine
    kernel: Path
    initrd: Path
    order: bytes


@dataclasses.dataclass(frozen=True)
class Limits:
    """What ends a machine from outside: time of this host, bytes that it prints, and whoever sets `stop`."""

    host_s: float = 600.0
    console_bytes: int = 1 << 20
    channel_bytes: int = 128 << 20
    stop: threading.Event = dataclasses.field(default_factory=threading.Event, compare=False)


class GuestEnd(enum.Enum):
    """How a machine ended."""

    FINISHED = "finished"
    PANICKED = "panicked"
    COMPLAINED = "complained"  # its first process says what failed
    SILENT = "silent"  # it ended, and nobody said why
    HOST_TIME = "host time"
    FLOODED = "flooded"
    STOPPED = "stopped"
    EMULATOR = "emulator"  # QEMU could not start, or crashed


class GuestRun(FrozenStruct, frozen=True, kw_only=True):
    """What came of a machine.

    Attributes:
        how: how it ended.
        reason: in words; empty if it finished.
        said: all that came through its channel.
        console: the last lines of its console, or of QEMU's own complaints.
    """

    how: GuestEnd
    reason: str = ""
    said: bytes = b""
    console: str = ""


def arguments(machine: EmulatedMachine, files: Files, *, saving: bool = False) -> tuple[str, ...]:
    """Return QEMU's arguments, without those that only say how it is watched.

    QEMU moves the clock of an idle machine on from another thread than the one that carries out its instructions, and may do so between
    the last of them and their being counted. Where it records the run, a lock keeps the two apart. It can't save such a machine, though
    (docs/virtual-machines.md, "Why a run repeats itself").

    Args:
        machine: what to emulate.
        files: where things are.
        saving: make it one that can be saved. Its clock may be wrong then.
    """
    clock = [_COUNTED if saving and word == _EXACT else word for word in _CLOCK]
    family = machine.family
    devices = [device.replace(":{channel}", f":{files.channel}") for device in family.devices]
    for name, path in (("channel", files.channel), ("order", files.order)):
        devices = [device.replace(f"={{{name}}}", f"={path.replace(',', ',,')}") for device in devices]
    words = [word for word in (*_OPTIONS, *family.options) if not (machine.wall and word in _NOT_ON_WALL)]
    return (
        *_BARE,
        *(_KVM if machine.wall else clock),
        *(
            "-M",
            family.machine,
            "-cpu",
            "host" if machine.wall else family.cpu,
            "-smp",
            "1",
            "-m",
            f"{machine.memory_bytes >> 20}M",
        ),
        *("-kernel", files.kernel, "-initrd", files.initrd, "-serial", f"file:{files.console}"),
        *devices,
        *("-append", " ".join((*words, *machine.options))),
    )


def find_emulator(machine: EmulatedMachine, program: str = "") -> Emulator:
    """Find out whether there is a QEMU that can emulate a machine on the virtual clock.

    Args:
        machine: what is to be emulated.
        program: another emulator than the usual one.

    Raises:
        UnavailableError: there is none, it is too old, or it can't do something; the text says what.
    """
    name = program or machine.family.program
    hint = "On Debian: sudo apt-get install qemu-system-x86 qemu-system-arm"
    path = shutil.which(name)
    if path is None:
        raise UnavailableError(f"There is no {name} to emulate a machine with.", hint)
    if shutil.which("setpriv") is None:
        raise UnavailableError(
            "There is no setpriv, by which an emulator ends with the program that started it.",
            "On Debian: sudo apt-get install util-linux",
        )
    status = Path(path).stat()
    return _examine(path, machine.family, (status.st_size, status.st_mtime_ns))


@functools.cache
def _examine(path: str, family: MachineModel, _stamp: tuple[int, int]) -> Emulator:
    """Ask an emulator for its version, and let it start an empty machine with all that a run needs."""
    version = (_ask([path, "--version"]).stdout.splitlines() or [""])[0]
    found = re.search(r"version (\d+)\.(\d+)", version)
    if not found:
        raise UnavailableError(f"{path} does not say which QEMU it is, but {version!r}.")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise UnavailableError(
            f"{path} is too old: {version}.", f"The virtual clock needs QEMU {OLDEST[0]}.{OLDEST[1]} or newer."
        )
    tried = _ask(
        [path, *_BARE, *_CLOCK, "-M", "none", "-qmp", "stdio"], '{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n'
    )
    if tried.returncode != 0:
        words = tried.stderr.strip().splitlines()[-1:] or [f"status {tried.returncode}"]
        raise UnavailableError(f"{path} can't emulate a machine on the virtual clock: {words[0]}")
    digest = hashlib.sha256(version.encode())
    for part in (Path(path), *_firmware(path, family.firmware)):
        digest.update(f"\0{part.name}\0".encode() + hashlib.sha256(part.read_bytes()).digest())
    return Emulator(path=path, version=version, build=digest.hexdigest())


def _firmware(path: str, names: Iterable[str]) -> list[Path]:
    """Return the files that an emulator would take, from the first of its folders that has each."""
    folders = [Path(line) for line in _ask([path, "-L", "help"]).stdout.splitlines()]
    places = (((folder / name) for folder in folders if (folder / name).is_file()) for name in names)
    return [place for place in (next(found, None) for found in places) if place]


def _ask(command: Sequence[str], words: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=words, capture_output=True, text=True, check=False, timeout=_PROBE_S, env={"LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]} does not answer: {error}.") from error


class Stopped(Exception):  # noqa: N818 - it stops a wait; nothing is wrong with this program
    """A machine went beyond a limit.

    Args:
        how: which.
        reason: in words.
    """

    def __init__(self, how: GuestEnd, reason: str) -> None:
        super().__init__(reason)
        self.how = how
        self.reason = reason


class Guest:
    """A machine that runs, as a context manager. It ends with this object, and with the program that holds it.

    Args:
        setup: what to run.
        limits: what ends it.
        watching: further arguments, which change nothing for the guest.
        fds: open files that they name.
        saving: make it one that can be saved; see `arguments`.
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
        self._family = setup.machine.family
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="swapstone-vm-")
        folder = Path(self._folder.name)
        self._console, self._channel, self._complaints = (folder / name for name in ("console", "channel", "stderr"))
        (folder / "order").write_bytes(setup.order)
        files = Files(
            str(setup.kernel), str(setup.initrd), str(folder / "order"), str(self._console), str(self._channel)
        )
        self._until = time.monotonic() + limits.host_s
        with self._complaints.open("wb") as complaints:
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "--"),
                    *(setup.emulator.path, *arguments(setup.machine, files, saving=saving), *watching),
                ],
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                pass_fds=fds,
                start_new_session=True,
            )

    def check(self) -> None:
        """Look whether it is within its limits.

        Raises:
            Stopped: it is not.
        """
        limits = self._limits
        for size, most, name in (
            (_size(self._console), limits.console_bytes, "console"),
            (self._spoken(), limits.channel_bytes, "channel"),
        ):
            if size > most:
                raise Stopped(GuestEnd.FLOODED, f"it wrote more than {most} bytes to its {name}")
        if limits.stop.is_set():
            raise Stopped(GuestEnd.STOPPED, "it was stopped")
        if time.monotonic() > self._until:
            raise Stopped(GuestEnd.HOST_TIME, f"it ran for more than {limits.host_s:g} s of this machine's time")

    def has_spoken(self) -> bool:
        """Say whether anything came through its channel."""
        return self._spoken() > 0

    def _spoken(self) -> int:
        """Return how many bytes came through its channel."""
        if not self._family.channel_bytes:
            return _size(self._channel)
        try:
            with self._channel.open("rb") as handle:
                return int.from_bytes(handle.read(8), "little")
        except FileNotFoundError:
            return 0

    def _said(self) -> bytes:
        """Return what came through its channel."""
        with self._channel.open("rb") as handle:
            handle.seek(CHANNEL_START if self._family.channel_bytes else 0)
            return handle.read(self._spoken())

    def wait(self) -> GuestRun:
        """Wait until it has ended, or has to."""
        try:
            while self.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_LOOK_S)
                self.check()
        except Stopped as stopped:
            return self.ended(stopped)
        return self.ended()

    def ended(self, stopped: Stopped | None = None) -> GuestRun:
        """End it if it runs still, and say what came of it.

        Args:
            stopped: why it was ended, if not by itself.
        """
        self._kill()
        console, complaints = _tail(self._console), _tail(self._complaints)
        if stopped:
            return GuestRun(how=stopped.how, reason=stopped.reason, console=last_lines(console))
        how, reason = judge_end(self.process.returncode, console, complaints, self._family)
        said = self._said() if how is GuestEnd.FINISHED else b""
        if how is GuestEnd.FINISHED and not self._family.ended_well and not said.endswith(_END):
            # Its kernel ends such a machine in either case, and what failed was said on the console, if there is one.
            return GuestRun(how=GuestEnd.SILENT, reason=_SILENT, console=last_lines(console or complaints))
        return GuestRun(how=how, reason=reason, said=said, console=last_lines(console or complaints))

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
        self._folder.cleanup()


def _size(path: Path) -> int:
    """Return how many bytes a file has; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _tail(path: Path) -> str:
    """Return the last bytes of a file as text; empty where there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return handle.read().decode(errors="backslashreplace").replace("\r\n", "\n")
    except FileNotFoundError:
        return ""


def last_lines(text: str) -> str:
    """Return the last lines that say something."""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-_LINES:])


def judge_end(status: int, console: str, complaints: str, family: MachineModel) -> tuple[GuestEnd, str]:
    """Say how a machine ended.

    Args:
        status: QEMU's exit status; negative if a signal ended it.
        console: the end of the guest's console.
        complaints: what QEMU said.
        family: what the machine was made of.

    Returns:
        How, and why in words.
    """
    said = re.search(r"^swapstone-init: (.*)$", console, re.MULTILINE)
    panic = re.search(r"Kernel panic - not syncing: (.*)$", console, re.MULTILINE)
    if panic:
        return GuestEnd.PANICKED, f"its kernel panicked: {panic[1].strip()}"
    if said:
        return GuestEnd.COMPLAINED, f"its first process says: {said[1].strip()}"
    if status == family.ended_well:
        return GuestEnd.FINISHED, ""
    if status < 0:
        return GuestEnd.EMULATOR, f"QEMU was ended by signal {-status}"
    if status not in {0, _ENDED_FAILED}:
        words = complaints.strip().splitlines()[-1:] or [f"status {status}"]
        return GuestEnd.EMULATOR, f"QEMU could not run it: {words[0]}"
    return GuestEnd.SILENT, _SILENT


def boot(setup: Setup, limits: Limits) -> GuestRun:
    """Start a machine from nothing and wait for its end."""
    with Guest(setup, limits, ("-action", "watchdog=none")) as guest:
        return guest.wait()
