"""A virtual machine as a target, on a clock without noise or, by KVM, on the wall clock: docs/virtual-machines.md."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.factors import ProgramFacts, read_facts
from swapstone.model import ImageDifference, UserError, WireError
from swapstone.model.cpio import Entry, unpack
from swapstone.model.directories import cache_dir
from swapstone.targets.agent_build import build_agent, build_init
from swapstone.targets.base import (
    DEFAULT_MACHINE,
    MachineConfig,
    MachineConfigError,
    Target,
    TargetDescription,
    TargetError,
)
from swapstone.targets.vm import guest, qemu, snapshot
from swapstone.targets.vm.guest import GuestCommands
from swapstone.targets.vm.machine_models import EmulatedMachine
from swapstone.targets.vm.qemu import Emulator, GuestEnd, GuestRun, Limits, Setup
from swapstone.targets.vm.run_cache import RunCache, mark_used, write_whole
from swapstone.targets.vm.run_name import digest_of, digest_of_file, run_inputs
from swapstone.wire import AgentAnswer, TrialRequest, encode_plan_header, encode_request

SLACK_MS = 60_000
"""How much longer than a trial's time-out its agent may take, in guest time: it waits up to 20 s for killed processes to be gone."""

_TRIAL = "t"  # every trial's name in its plan, so that an equal trial is an equal run
_QUIT = b"quit\n"
_TRIES = 3  # to save a machine
COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
"""What builds the agent for another processor than this machine's, by what ``uname -m`` says."""


@dataclasses.dataclass(frozen=True)
class VmImage:
    """What a virtual machine is made of, besides programs.

    Attributes:
        kernel: its file, plain or compressed, as QEMU takes it.
        initrd: an archive of what is in its file system; what Swapstone needs is added.
        machine: what is emulated.
        modules: paths in the initrd of what is loaded at the start, in this order; none leaves the initrd's own ``/modules``.
        agent, init: the agent and the first process; built when they are needed if left out.
        banner: what the kernel's file says it is, with or without ``Linux version`` before its release; empty where it doesn't say.
    """

    kernel: Path
    initrd: Path
    machine: EmulatedMachine = dataclasses.field(default_factory=EmulatedMachine)
    modules: tuple[str, ...] = ()
    agent: Path | None = None
    init: Path | None = None
    banner: str = ""


@dataclasses.dataclass(frozen=True)
class VmOptions:
    """How runs are made; none of it changes what comes of one, but `draw`.

    Attributes:
        draw: number of the replicate that every trial is; left out, it is the trial's block.
        no_cache: make every run anew.
        snapshots: start a machine once and save it, where it can be saved.
        limits: of each machine.
        cache: where runs and saved machines are kept; left out, in Swapstone's own folder.
        emulator: another QEMU than the usual one.
        at_once: how many machines run side by side; 0 for as many as this host has processors for them.
    """

    draw: int | None = None
    no_cache: bool = False
    snapshots: bool = True
    limits: Limits = dataclasses.field(default_factory=Limits)
    cache: Path | None = None
    emulator: str = ""
    at_once: int = 0


class _Kind:
    """One kind of machine: a kernel with its image, and what the programs of an experiment make of it.

    Args:
        parts: what it is made of.
        room: a folder for its image.
    """

    def __init__(self, parts: VmImage, room: Path) -> None:
        self.parts = parts
        self.kernel_digest = digest_of_file(parts.kernel)
        try:
            self.base = parts.initrd.read_bytes()
        except OSError as error:
            raise UserError(f"The initrd {parts.initrd} can't be read: {error.strerror}.") from error
        self.image = unpack(self.base)
        self._room = room
        self._lock = threading.Lock()
        self._written: tuple[bytes, tuple[Path, bytes]] | None = None

    def initrd(self, added: bytes) -> tuple[Path, bytes]:
        """Write the image with an archive behind it, unless it is the last one; return its path and digest."""
        with self._lock:
            if self._written is None or self._written[0] != added:
                data = self.base + bytes(-len(self.base) % 4) + added
                digest = hashlib.sha256(data).digest()
                path = self._room / f"image-{digest.hex()[:32]}.cpio"
                write_whole(path, data)
                self._written = (added, (path, digest))
            return self._written[1]


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A machine and its order."""

    kind: _Kind
    machine: EmulatedMachine
    order: bytes


class VmTarget(Target):
    """Runs each trial in a virtual machine of its own: on the instruction clock, or on the wall clock if the parts say so.

    On the wall clock every run is made anew, from nothing, and alone.

    Args:
        parts: what the machine is made of; or of each level of the kernel, the one that is the target's own first.
        ways: how runs are made.
        certificates: what differs between the first of these machines and each other one.

    Raises:
        UnavailableError: this machine can't emulate it.
        UserError: the kernel or the initrd can't be read.
    """

    name = "vm"
    shares_files = False
    boots = True
    has_load_generators = False

    def __init__(
        self,
        parts: VmImage | Mapping[str, VmImage],
        ways: VmOptions = VmOptions(),
        image_differences: tuple[ImageDifference, ...] = (),
    ) -> None:
        levels = {"": parts} if isinstance(parts, VmImage) else dict(parts)
        first = next(iter(levels.values()))
        self._ways = ways
        self._certificates = image_differences
        self._machine = first.machine
        self._repeats = not first.machine.wall
        self.at_once = (ways.at_once or len(os.sched_getaffinity(0))) if self._repeats else 1
        self._given = first
        self._emulator: Emulator = qemu.find_emulator(first.machine, ways.emulator)
        self._room = tempfile.TemporaryDirectory(prefix="swapstone-vm-")
        try:
            self._kinds = {level: _Kind(made, Path(self._room.name)) for level, made in levels.items()}
        except BaseException:
            self._room.cleanup()
            raise
        self._own = next(iter(self._kinds.values()))
        self._cache = ways.cache or cache_dir()
        self._runs = RunCache(self._cache / "runs")
        self._programs: dict[str, Path] = {}
        self._folders: dict[str, Mapping[str, Entry]] = {}
        self._saved: set[Path] = set()
        self._unsaved: set[Path] = set()
        self._saving: collections.defaultdict[Path, threading.Lock] = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def describe(self) -> TargetDescription:
        """Return what the guest says of itself."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        run = self.make(encode_plan_header() + _QUIT, limit_ms=SLACK_MS, draw=0)
        greeting, _ = understood(run)
        clock = "one instruction a nanosecond" if self._repeats else "by KVM on the wall clock, one processor"
        cpu = re.search(r"^model name\s*: (.*)$", greeting.file("/proc/cpuinfo"), re.MULTILINE)
        memory = re.search(r"^MemTotal:\s*(\d+) kB", greeting.file("/proc/meminfo"), re.MULTILINE)
        return TargetDescription(
            kernel=f"{greeting.system} {greeting.release} {greeting.version}",
            architecture=greeting.machine,
            cpu=cpu[1] if cpu else self._machine.family.cpu,
            cpus=(0,),
            virtualization=f"{self._emulator.version}, machine {self._machine.family.machine}, {clock}",
            memory_bytes=int(memory[1]) * 1024 if memory else 0,
        )

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return which emulator, agent and first process it is, and the digests of kernel and initrd."""
        return (
            ("qemu", f"{self._emulator.version}, SHA-256 {self._emulator.build}"),
            ("agent", self._agent.parent.name),
            ("guest init", self._init.parent.name),
            *(pair for level, kind in self._kinds.items() for pair in _digests(level, kind)),
            *((f"certificate of {found.between[1]}", found.summary()) for found in self._certificates),
        )

    def image_differences(self) -> tuple[ImageDifference, ...]:
        """Return what it was given; see `Target.image_differences`."""
        return self._certificates

    @functools.cached_property
    def _agent(self) -> Path:
        return self._given.agent or build_agent(cache_dir() / "agents", self._compiler())

    @functools.cached_property
    def _init(self) -> Path:
        return self._given.init or build_init(cache_dir() / "agents", self._compiler())

    def _compiler(self) -> str:
        architecture = self._machine.architecture
        return os.environ.get("CC") or "cc" if architecture == os.uname().machine else COMPILERS[architecture]

    def put(self, path: Path) -> str:
        """Bring a program into the machine, with all that lies beside it."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not a program that can be run.")
        entries, digest = guest.read_folder(path)
        facts = read_facts(path)
        image = self._own.image
        if facts and image is not None and (missing := guest.lacking(facts, entries, image)):
            raise UserError(
                f"{path.name} needs {', '.join(missing)}, and the machine's image has none.",
                "Link it statically, or take an image that has its C library.",
            )
        place = guest.guest_path(path, digest)
        self._folders[place.rpartition("/")[0]] = entries
        self._programs[place] = path
        return place

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read a program's own file, or one in the image."""
        if path in self._programs:
            found = read_facts(self._programs[path])
        else:
            found = guest.inspect(self._own.image or {}, path, Path(self._room.name))
        return msgspec.structs.replace(found, path=path) if found else None

    def scratch(self) -> str:
        """Return the folder that is empty in every new machine."""
        return guest.SCRATCH

    def run(self, request: TrialRequest, setting: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial in a machine of its own, or take an equal one that was run before; see `Target.run`."""
        encode_request(request)  # what an agent would refuse, its name too, is refused here
        asked = self._asked(request, setting)
        name, run = self._made(asked)
        greeting, answers = understood(run)
        if failed := next((ended for ended in greeting.ended if ended.kind == "prepare"), None):
            raise MachineConfigError(
                f"The machine can't be prepared: {setting.prepare[failed.number]!r} {failed.in_words()}."
            )
        if early := next((ended for ended in greeting.ended if ended.kind == "beside"), None):
            raise MachineConfigError(f"The load ended too early: {setting.beside[early.number]!r} {early.in_words()}.")
        if len(answers) != 1 or answers[0].id != _TRIAL:
            raise TargetError(f"The guest gave {len(answers)} answers to one question.", run.console)
        booted = (("booted", setting.kernel),) if _is_kernel(greeting, asked.kind.parts.banner) else ()
        return msgspec.structs.replace(answers[0], id=request.id, machine=(*booted, *greeting.pairs()), name=name)

    def make(self, plan: bytes, *, limit_ms: int, draw: int, setting: MachineConfig = DEFAULT_MACHINE) -> GuestRun:
        """Make a run of a whole plan, or take it from an earlier time.

        Args:
            plan: for the agent, from its first line to ``quit``.
            limit_ms: the most that the agent may take, in guest time.
            draw: number of the replicate.
            setting: of the machine.

        Returns:
            What came of it, whatever that is.

        Raises:
            WireError: the plan is too large.
            UserError: nothing can be written to the cache, or there is no such kernel here.
        """
        return self._made(self._order(plan, limit_ms=limit_ms, draw=draw, setting=setting))[1]

    def name_of(self, request: TrialRequest, setting: MachineConfig = DEFAULT_MACHINE) -> str:
        """Return a trial's digest: of all that it is a function of, 64 hexadecimal digits."""
        return digest_of(self._setup(self._asked(request, setting))[1])

    def stop(self) -> None:
        """End all machines; see `Target.stop`."""
        self._ways.limits.stop.set()

    def close(self) -> None:
        """Remove what it wrote, but for its cache. No machine runs between trials."""
        self._room.cleanup()

    def _asked(self, request: TrialRequest, setting: MachineConfig) -> _Asked:
        plan = encode_plan_header() + encode_request(msgspec.structs.replace(request, id=_TRIAL)) + _QUIT
        draw = _block(request.id) if self._ways.draw is None else self._ways.draw
        return self._order(plan, limit_ms=request.timeout_ms + SLACK_MS, draw=draw, setting=setting)

    def _order(self, plan: bytes, *, limit_ms: int, draw: int, setting: MachineConfig) -> _Asked:
        kind = self._kinds.get(setting.kernel) if setting.kernel else self._own
        if kind is None:
            raise UserError(
                f"This target has no kernel {setting.kernel}.", f"It has {', '.join(filter(None, self._kinds))}."
            )
        around = GuestCommands(prepare=setting.prepare, beside=setting.beside, settle_ms=setting.settle_ms)
        machine = kind.parts.machine
        if setting.memory_bytes:
            machine = msgspec.structs.replace(machine, memory_bytes=setting.memory_bytes)
        return _Asked(kind, machine, guest.encode_order(plan, draw=draw, limit_ms=limit_ms, around=around))

    def _made(self, asked: _Asked) -> tuple[str, GuestRun]:
        """Return a run with its name."""
        setup, inputs = self._setup(asked)
        digest = digest_of(inputs)
        known = self._runs.get(digest) if self._repeats and not self._ways.no_cache else None
        if known is not None:
            return digest, known
        run = self._boot(setup, inputs)
        if self._repeats and run.how is GuestEnd.FINISHED:  # the rest may have hung on this machine
            self._runs.put(digest, run)
        return digest, run

    def _setup(self, asked: _Asked) -> tuple[Setup, dict[str, bytes]]:
        machine = asked.machine
        added = self._overlay(asked.kind)
        initrd, digest = asked.kind.initrd(added)
        setup = Setup(self._emulator, machine, asked.kind.parts.kernel, initrd, asked.order)
        return setup, run_inputs(setup, kernel=asked.kind.kernel_digest, initrd=digest)

    def _overlay(self, kind: _Kind) -> bytes:
        """Return the archive that goes behind an image."""
        with self._lock:  # agent and first process are built once
            folders = {place: self._folders[place] for place in sorted(self._folders)}
            return guest.overlay(self._init.read_bytes(), self._agent.read_bytes(), folders, kind.parts.modules)

    def _boot(self, setup: Setup, inputs: Mapping[str, bytes]) -> GuestRun:
        limits = self._ways.limits
        if not (self._repeats and self._ways.snapshots):
            return qemu.boot(setup, limits)
        without = digest_of({name: value for name, value in inputs.items() if name != "order"})
        state = self._cache / "snapshots" / without
        with self._lock:
            saving = self._saving[state]
        with saving:  # several trials may want the same machine: one of them saves it
            if not self._is_whole(state):
                if state in self._unsaved:
                    return qemu.boot(setup, limits)
                try:
                    failed = _saved(setup, limits, state)
                except (snapshot.TooLateError, snapshot.UnlikeError):  # the run is the same without
                    self._unsaved.add(state)
                    return qemu.boot(setup, limits)
                if failed:
                    return failed
                self._saved.add(state)
        return snapshot.restore(setup, limits, state)

    def _is_whole(self, state: Path) -> bool:
        """Say whether a saved machine is there as it was written; looked at once."""
        if state in self._saved:
            return state.exists()
        try:
            whole = digest_of_file(state).hex() == state.with_name(f"{state.name}.sha256").read_text()
        except (UserError, OSError):
            return False
        if whole:
            mark_used(state)
            self._saved.add(state)
        return whole


def _digests(level: str, kind: _Kind) -> tuple[tuple[str, str], ...]:
    """Return what is kept in a manifest of one kind of machine."""
    which = f" of {level}" if level else ""
    return (
        (f"kernel{which}", f"SHA-256 {kind.kernel_digest.hex()}"),
        (f"initrd{which}", f"SHA-256 {hashlib.sha256(kind.base).hexdigest()}"),
    )


def _is_kernel(greeting: guest.Greeting, banner: str) -> bool:
    """Say whether the kernel that speaks is the one whose file says of itself what it is."""
    said = banner.removeprefix("Linux version ")  # a bzImage leaves these words out
    return said.startswith(f"{greeting.release} ") and greeting.version in said


def _saved(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Save a machine that proves itself; return what came of it instead, if that can't be done.

    Raises:
        TooLateError, UnlikeError: the last of several tries gave none that is as good as one from nothing.
    """
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                failed = _saved_once(setup, limits, state)
            except (snapshot.TooLateError, snapshot.UnlikeError):
                if not left:
                    raise
            else:
                return failed
    except OSError as error:
        raise UserError(
            f"A saved machine can't be written to {state.parent}: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
        ) from error
    return None


def _saved_once(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    failed = snapshot.save(setup, limits, state)
    if failed:
        return failed
    order = guest.encode_order(encode_plan_header() + _QUIT, draw=0, limit_ms=SLACK_MS)
    try:
        failed = snapshot.prove(dataclasses.replace(setup, order=order), limits, state)
    except snapshot.UnlikeError:
        state.unlink()
        raise
    if failed:
        state.unlink()
        return failed
    write_whole(
        state.with_name(f"{state.name}.sha256"), digest_of_file(state).hex().encode()
    )  # now it is taken for whole
    return None


def _block(identity: str) -> int:
    """Return the block in a trial's name ``BLOCK-POSITION``; 0 where there is none."""
    found = re.match(r"(\d+)-", identity)
    return int(found[1]) if found else 0


def understood(run: GuestRun) -> tuple[guest.Greeting, tuple[AgentAnswer, ...]]:
    """Decode what a machine said.

    Raises:
        TargetError: it did not finish, or can't be understood.
    """
    if run.how is not GuestEnd.FINISHED:
        lines = f"The last lines of its console:\n{run.console}" if run.console else "Its console said nothing."
        raise TargetError(f"The virtual machine failed: {run.reason}.", lines)
    try:
        return guest.decode_said(run.said)
    except WireError as error:
        raise TargetError(f"The virtual machine can't be understood: {error.message}", run.console) from error
