"""A virtual machine on a clock without noise, as a target: docs/virtual-machines.md."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.factors import ProgramFacts, read_facts
from swapstone.model import UserError, WireError
from swapstone.model.cpio import Entry, archive, file, unpack
from swapstone.model.share import cache_dir
from swapstone.targets import guest, qemu, snapshot
from swapstone.targets.agent import build_agent, build_init
from swapstone.targets.base import Target, TargetDescription, TargetError
from swapstone.targets.qemu import Emulator, GuestEnd, GuestRun, Limits, Machine, Setup
from swapstone.targets.runs import RunCache, digest_of, digest_of_file, write_whole
from swapstone.wire import AgentAnswer, TrialRequest, encode_plan_header, encode_request

SLACK_MS = 60_000
"""How much longer than a trial's time-out its agent may take, in guest time: it waits up to 20 s for killed processes to be gone."""

_TRIAL = "t"  # every trial's name in its plan, so that an equal trial is an equal run
_QUIT = b"quit\n"
_COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a virtual machine is made of, besides programs.

    Attributes:
        kernel: its file, plain or compressed, as QEMU takes it.
        initrd: an archive of what is in its file system; what Swapstone needs is added.
        machine: what is emulated.
        modules: paths in the initrd of what is loaded at the start, in this order; none leaves the initrd's own ``/modules``.
        agent, init: the agent and the first process; built when they are needed if left out.
    """

    kernel: Path
    initrd: Path
    machine: Machine = dataclasses.field(default_factory=Machine)
    modules: tuple[str, ...] = ()
    agent: Path | None = None
    init: Path | None = None


@dataclasses.dataclass(frozen=True)
class Ways:
    """How runs are made; none of it changes what comes of one, but `draw`.

    Attributes:
        draw: number of the replicate that every trial is; left out, it is the trial's block.
        no_cache: make every run anew.
        snapshots: start a machine once and save it, where it can be saved.
        limits: of each machine.
        cache: where runs and saved machines are kept; left out, in Swapstone's own folder.
        emulator: another QEMU than the usual one.
    """

    draw: int | None = None
    no_cache: bool = False
    snapshots: bool = True
    limits: Limits = dataclasses.field(default_factory=Limits)
    cache: Path | None = None
    emulator: str = ""


class VmTarget(Target):
    """Runs each trial in an emulated machine of its own, on the instruction clock.

    Args:
        parts: what the machine is made of.
        ways: how runs are made.

    Raises:
        UnavailableError: this machine can't emulate it.
        UserError: the kernel or the initrd can't be read.
    """

    name = "vm"
    shares_files = False

    def __init__(self, parts: Parts, ways: Ways = Ways()) -> None:
        self._parts = parts
        self._ways = ways
        self._emulator: Emulator = qemu.find_emulator(parts.machine, ways.emulator)
        self._kernel_digest = digest_of_file(parts.kernel)
        try:
            self._base = parts.initrd.read_bytes()
        except OSError as error:
            raise UserError(f"The initrd {parts.initrd} can't be read: {error.strerror}.") from error
        self._image = unpack(self._base)
        self._cache = ways.cache or cache_dir()
        self._runs = RunCache(self._cache / "runs")
        self._programs: dict[str, Path] = {}
        self._folders: dict[str, Mapping[str, Entry]] = {}
        self._saved: set[Path] = set()
        self._written: tuple[tuple[tuple[str, ...], bytes], bytes] | None = None
        self._room = tempfile.TemporaryDirectory(prefix="swapstone-vm-")

    def describe(self) -> TargetDescription:
        """Return what the guest says of itself."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        run = self.make(encode_plan_header() + _QUIT, limit_ms=SLACK_MS, draw=0)
        greeting, _ = _understood(run)
        cpu = re.search(r"^model name\s*: (.*)$", greeting.file("/proc/cpuinfo"), re.MULTILINE)
        memory = re.search(r"^MemTotal:\s*(\d+) kB", greeting.file("/proc/meminfo"), re.MULTILINE)
        return TargetDescription(
            kernel=f"{greeting.system} {greeting.release} {greeting.version}",
            architecture=greeting.machine,
            cpu=cpu[1] if cpu else self._parts.machine.family.cpu,
            cpus=(0,),
            virtualization=f"{self._emulator.version}, machine {self._parts.machine.family.machine}, one instruction a nanosecond",
            memory_bytes=int(memory[1]) * 1024 if memory else 0,
        )

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return which emulator, agent and first process it is, and the digests of kernel and initrd."""
        return (
            ("qemu", f"{self._emulator.version}, SHA-256 {self._emulator.build}"),
            ("agent", self._agent.parent.name),
            ("guest init", self._init.parent.name),
            ("kernel", f"SHA-256 {self._kernel_digest.hex()}"),
            ("initrd", f"SHA-256 {hashlib.sha256(self._base).hexdigest()}"),
        )

    @functools.cached_property
    def _agent(self) -> Path:
        return self._parts.agent or build_agent(cache_dir() / "agents", self._compiler())

    @functools.cached_property
    def _init(self) -> Path:
        return self._parts.init or build_init(cache_dir() / "agents", self._compiler())

    def _compiler(self) -> str:
        architecture = self._parts.machine.architecture
        return os.environ.get("CC") or "cc" if architecture == os.uname().machine else _COMPILERS[architecture]

    def put(self, path: Path) -> str:
        """Bring a program into the machine, with all that lies beside it."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not a program that can be run.")
        entries, digest = guest.read_folder(path)
        facts = read_facts(path)
        if facts and self._image is not None and (missing := guest.lacking(facts, entries, self._image)):
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
            found = guest.inspect(self._image or {}, path, Path(self._room.name))
        return msgspec.structs.replace(found, path=path) if found else None

    def scratch(self) -> str:
        """Return the folder that is empty in every new machine."""
        return guest.SCRATCH

    def run(self, request: TrialRequest) -> AgentAnswer:
        """Run one trial in a machine of its own, or take an equal one that was run before; see `Target.run`."""
        encode_request(request)  # what an agent would refuse, its name too, is refused here
        plan = encode_plan_header() + encode_request(msgspec.structs.replace(request, id=_TRIAL)) + _QUIT
        draw = _block(request.id) if self._ways.draw is None else self._ways.draw
        run = self.make(plan, limit_ms=request.timeout_ms + SLACK_MS, draw=draw)
        _, answers = _understood(run)
        if len(answers) != 1 or answers[0].id != _TRIAL:
            raise TargetError(f"The guest gave {len(answers)} answers to one question.", run.console)
        return msgspec.structs.replace(answers[0], id=request.id)

    def make(self, plan: bytes, *, limit_ms: int, draw: int) -> GuestRun:
        """Make a run of a whole plan, or take it from an earlier time.

        Args:
            plan: for the agent, from its first line to ``quit``.
            limit_ms: the most that the agent may take, in guest time.
            draw: number of the replicate.

        Returns:
            What came of it, whatever that is.

        Raises:
            WireError: the plan is too large.
            UserError: nothing can be written to the cache.
        """
        setup, inputs = self._setup(guest.encode_order(plan, draw=draw, limit_ms=limit_ms))
        digest = digest_of(inputs)
        known = None if self._ways.no_cache else self._runs.get(digest)
        if known is not None:
            return known
        run = self._boot(setup, inputs)
        if run.how is GuestEnd.FINISHED:  # the rest may have hung on this machine
            self._runs.put(digest, run)
        return run

    def name_of(self, request: TrialRequest) -> str:
        """Return a trial's digest: of all that it is a function of, 64 hexadecimal digits."""
        plan = encode_plan_header() + encode_request(msgspec.structs.replace(request, id=_TRIAL)) + _QUIT
        draw = _block(request.id) if self._ways.draw is None else self._ways.draw
        order = guest.encode_order(plan, draw=draw, limit_ms=request.timeout_ms + SLACK_MS)
        return digest_of(self._setup(order)[1])

    def close(self) -> None:
        """Remove what it wrote, but for its cache. No machine runs between trials."""
        self._room.cleanup()

    def _setup(self, order: bytes) -> tuple[Setup, dict[str, bytes]]:
        machine = self._parts.machine
        initrd, digest = self._initrd(order if not machine.family.has_ports else b"")
        setup = Setup(self._emulator, machine, self._parts.kernel, initrd, order)
        names = qemu.Files("KERNEL", "INITRD", "ORDER", "CONSOLE", "CHANNEL")
        return setup, {
            "emulator": self._emulator.build.encode(),
            "arguments": "\0".join(qemu.arguments(machine, names)).encode(),
            "kernel": self._kernel_digest,
            "initrd": digest,
            "order": order,
        }

    def _initrd(self, order: bytes) -> tuple[Path, bytes]:
        """Write the image with all programs, unless it is the last one; return its path and digest."""
        made_of = (tuple(sorted(self._folders)), order)  # a folder's path has its digest
        if self._written is None or self._written[0] != made_of:
            added = guest.overlay(
                self._init.read_bytes(), self._agent.read_bytes(), self._folders, self._parts.modules
            ) + (archive({"order": file(order)}) if order else b"")
            data = self._base + bytes(-len(self._base) % 4) + added
            path = Path(self._room.name) / "image.cpio"
            path.write_bytes(data)
            self._written = (made_of, hashlib.sha256(data).digest())
        return Path(self._room.name) / "image.cpio", self._written[1]

    def _boot(self, setup: Setup, inputs: Mapping[str, bytes]) -> GuestRun:
        if not (self._ways.snapshots and setup.machine.family.has_ports):
            return qemu.boot(setup, self._ways.limits)
        without = digest_of({name: value for name, value in inputs.items() if name != "order"})
        state = self._cache / "snapshots" / without
        if not self._is_whole(state):
            try:
                failed = _saved(setup, self._ways.limits, state)
            except snapshot.TooLateError:  # next time, perhaps; the run is the same without
                return qemu.boot(setup, self._ways.limits)
            if failed:
                return failed
            self._saved.add(state)
        return snapshot.restore(setup, self._ways.limits, state)

    def _is_whole(self, state: Path) -> bool:
        """Say whether a saved machine is there as it was written; looked at once."""
        if state in self._saved:
            return state.exists()
        try:
            whole = digest_of_file(state).hex() == state.with_name(f"{state.name}.sha256").read_text()
        except (UserError, OSError):
            return False
        if whole:
            self._saved.add(state)
        return whole


def _saved(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Save a machine; return what came of it instead, if that can't be done."""
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        failed = snapshot.save(setup, limits, state)
        if failed is None:
            write_whole(state.with_name(f"{state.name}.sha256"), digest_of_file(state).hex().encode())
    except OSError as error:
        raise UserError(
            f"A saved machine can't be written to {state.parent}: {error.strerror}.",
            "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
        ) from error
    return failed


def _block(identity: str) -> int:
    """Return the block in a trial's name ``BLOCK-POSITION``; 0 where there is none."""
    found = re.match(r"(\d+)-", identity)
    return int(found[1]) if found else 0


def _understood(run: GuestRun) -> tuple[guest.Greeting, tuple[AgentAnswer, ...]]:
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
