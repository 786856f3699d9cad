# SPDX-License-Identifier: MIT OR Apache-2.0
"""A virtual machine as a target, on the virtual clock or, with KVM, on the wall clock: docs/virtual-machines.md."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import ProgramFacts, facts_of
from swapstone.core.model import ImageDifference, UnavailableError, UserError
from swapstone.core.model.cpio import Entry, archive, file, unpack
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.core.model.regular_file import readable
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_build import build_agent, plugin_option, sha256_of
from swapstone.core.targets.carried_files import CarriedFiles, check_place, check_room, memory_for
from swapstone.core.targets.observed_target import ObservedTarget
from swapstone.core.targets.target import (
    DEFAULT_MACHINE,
    MachineConfig,
    MachineConfigError,
    TargetDescription,
    TargetError,
)
from swapstone.core.wire import AgentAnswer, TrialRequest, encode_plan_header, encode_request
from swapstone.parts.build.artifacts.toolchain import native_compiler
from swapstone.parts.vm.artifacts.debug_package import read_debug_file
from swapstone.parts.vm.factors.kernel import (
    DROPPED_OPTIONS,
    KEPT_OPTIONS,
    PARAMETERS,
    files_that_show,
    split_kernel,
    why_ignored,
)
from swapstone.parts.vm.machine import guest, qemu
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator, find_emulator
from swapstone.parts.vm.machine.file_pool import POOLS, Pool, encode_pool, pool_files
from swapstone.parts.vm.machine.guest import GuestReport, block_of, find, placed, resolve
from swapstone.parts.vm.machine.qemu import BootImage, GuestEnd, GuestRun, Limits, Setup, VmImage, build_init
from swapstone.parts.vm.machine.run_cache import NamedRun, RunCache, RunSource, digest_of, run_inputs
from swapstone.parts.vm.machine.run_output import TRIAL, check_run, decode_run
from swapstone.parts.vm.machine.snapshot import QUIT, SLACK_MS, MachineRunner
from swapstone.parts.vm.machine.task_counts import (
    mark_of,
    own_addresses,
    points_of,
    printed_functions,
    require_counted,
)


def counted_clock(machine: EmulatedMachine) -> str:
    """Return how the virtual clock counts, for the description of a target."""
    nanoseconds = machine.ns_per_instruction
    counted = "one instruction a nanosecond" if nanoseconds == 1 else f"one instruction every {nanoseconds} ns"
    return counted if machine.processors == 1 else f"{counted} of {machine.processors} processors in turn"


_FUNCTIONS_BYTES = 1 << 20
_ONLINE = "/sys/devices/system/cpu/online"
"""The file of a guest that shows how many processors it has."""


def why_other_processors(machine: EmulatedMachine, report: GuestReport) -> str:
    """Return which processors a guest has, if they are not those of its machine; else an empty text."""
    requested = f"0-{machine.processors - 1}"
    online = report.file(_ONLINE).strip()
    if machine.processors == 1 or online == requested:
        return ""
    return f"the processors {requested} were requested, and {safe(online)[:40] or 'no list of them'} are online"


def missing_features(machine: EmulatedMachine, cpuinfo: str) -> str:
    """Return which features the processor lacks, and so which variants of their functions C libraries can't choose; a suffix."""
    listed = re.search(r"^(?:flags|Features)[ \t]*: (.*)$", cpuinfo, re.MULTILINE)
    missing = [flag for flag in machine.model.cpu_flags if flag not in listed[1].split()] if listed else []
    return f"; no variants of C libraries that need {', '.join(missing)}" if missing else ""


CARRIED = "files of own programs"
"""Name of their digest among the tools."""


def is_running(report: GuestReport, banner: str) -> bool:
    """Return whether the running kernel has the banner of a kernel's file."""
    text = banner.removeprefix("Linux version ")  # the banner of a bzImage does not contain these words
    return text.startswith(f"{report.release} ") and report.version in text


def _first(group: CarriedFiles) -> str:
    """Return the path of the program, or of the preloaded object, that has these files."""
    return next(iter(group.files), "")


@dataclasses.dataclass(frozen=True)
class VmOptions:
    """Options of a virtual machine. Only `replicate` changes the result of a run.

    Attributes:
        replicate: number of the replicate for all trials; None: the number of the trial's block.
        no_cache: run every trial anew.
        snapshots: restore machines from a snapshot, where one can be saved.
        limits: of each machine.
        cache: folder for runs and snapshots; None for Swapstone's cache folder.
        emulator: path of the QEMU; empty for the default of the machine.
        at_once: number of machines that run at the same time; 0 for the number of processors of this host.
    """

    replicate: int | None = None
    no_cache: bool = False
    snapshots: bool = True
    limits: Limits = dataclasses.field(default_factory=Limits)
    cache: Path | None = None
    emulator: str = ""
    at_once: int = 0


class VmTarget(ObservedTarget):
    """Runs each trial in a virtual machine of its own, on the virtual clock, or on the wall clock if the machine is `wall`.

    On the wall clock every trial boots a machine, without cache and snapshots, one at a time.

    Args:
        images: what the machine boots; or images by level of the factor ``kernel``, the default first.
        options: cache, snapshots, limits.
        image_differences: what differs between the first of these machines and each other one.

    Attributes:
        options: those arguments.

    Raises:
        UnavailableError: this machine can't emulate it.
        UserError: the kernel or the initrd can't be read.
    """

    name = "vm"
    offers = frozenset({"runs_programs", "carries_files", "takes_libraries", "boots", "shares_runs"})

    def __init__(
        self,
        images: VmImage | Mapping[str, VmImage],
        options: VmOptions = VmOptions(),
        image_differences: tuple[ImageDifference, ...] = (),
    ) -> None:
        levels = {"": images} if isinstance(images, VmImage) else dict(images)
        first = next(iter(levels.values()))
        self.options = options
        self._differences = image_differences
        self._machine = first.machine
        self._exact = not first.machine.wall
        self.at_once = (options.at_once or len(os.sched_getaffinity(0))) if self._exact else 1
        self._emulator: Emulator = find_emulator(first.machine, options.emulator)
        self._folder = TemporaryFolder("vm")
        try:
            self._boot_images = {level: BootImage(made) for level, made in levels.items()}
        except BaseException:
            self._folder.close()
            raise
        self._default_image = next(iter(self._boot_images.values()))
        self._cache = options.cache or cache_dir()
        self._runs = RunCache(self._cache / "runs")
        self._roots: dict[str, Mapping[str, Entry]] = {}
        self._groups: list[CarriedFiles] = []
        self._libraries: list[str] = []
        self._tree: Mapping[str, Entry] = self._default_image.entries or {}
        self._initrd = functools.cache(self._write_initrd)
        self._received = functools.cache(self._write_received)
        self._runner = MachineRunner(self._cache / "snapshots", options.limits, snapshots=options.snapshots)
        self._shared: RunSource | None = None
        self._reading = threading.Lock()
        self._watched: dict[str, tuple[bytes, str]] = {}

    @property
    def architecture(self) -> str:
        """The architecture of the emulated machine."""
        return self._machine.architecture

    def describe(self) -> TargetDescription:
        """Return the description that the guest reports."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        run = self.run_plan(encode_plan_header() + QUIT, limit_ms=SLACK_MS, replicate=0, config=self._plain_config())
        report, _ = decode_run(run)
        clock = counted_clock(self._machine) if self._exact else "by KVM on the wall clock, one processor"
        cpu = re.search(r"^model name[ \t]*: (.*)$", report.file("/proc/cpuinfo"), re.MULTILINE)
        memory = re.search(r"^MemTotal: *([0-9]{1,15}) kB", report.file("/proc/meminfo"), re.MULTILINE)
        return TargetDescription(
            kernel=f"{report.system} {report.release} {report.version}",
            architecture=report.machine,
            cpu=(cpu[1] if cpu else self._machine.cpu or self._machine.model.cpu)
            + missing_features(self._machine, report.file("/proc/cpuinfo")),
            cpus=tuple(range(self._machine.processors)),
            virtualization=f"{self._emulator.version}, machine {self._machine.model.machine}, {clock}",
            memory_bytes=int(memory[1]) * 1024 if memory else 0,
        )

    def _plain_config(self, kernel: str = "") -> MachineConfig:
        """Return a configuration in which only the memory is changed, if the files need more."""
        memory_bytes = max((group.memory_bytes for group in self._groups), default=0)
        return MachineConfig(kernel=kernel, memory_bytes=memory_bytes)

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return emulator, agent, first process, and the digests of kernels and initrds."""
        return (
            ("qemu", f"{self._emulator.version}, SHA-256 {self._emulator.build}"),
            ("agent", f"{self._agent.parent.name}, SHA-256 {sha256_of(self._agent)}"),
            ("guest init", f"{self._init.parent.name}, SHA-256 {sha256_of(self._init)}"),
            *(
                (f"{what} of {level}" if level else what, f"SHA-256 {digest}")
                for level, image in self._boot_images.items()
                for what, digest in (
                    ("kernel", image.kernel_digest.hex()),
                    ("initrd", hashlib.sha256(image.base).hexdigest()),
                )
            ),
            *self._carried_digest(),
            *((("emulated processor", self._machine.cpu or self._machine.model.cpu),) if self._exact else ()),
            *(
                (f"counts of {level}" if level else "counts", f"unavailable: {why}")
                for level in self._boot_images
                if self._exact and (why := self._watched_in(level)[1])
            ),
            ("base boot options", " ".join(qemu.base_options(self._machine))),
            *(
                (f"boot options of {level}", " ".join(qemu.kernel_command_line(machine)))
                for level, machine in ((level, image.source.machine) for level, image in self._boot_images.items())
                if machine.parameters or machine.dropped
            ),
            *((f"certificate of {difference.between[1]}", difference.summary()) for difference in self._differences),
        )

    def _carried_digest(self) -> tuple[tuple[str, str], ...]:
        """Return the entry of the files at their own paths, so that a resumed record has the same ones."""
        groups = [group for group in self._groups if not _first(group).startswith(guest.PROGRAMS)]
        carried = functools.reduce(CarriedFiles.joined, groups, CarriedFiles({}))
        if not groups:
            return ()
        digest = hashlib.sha256(archive(placed({}, carried))).hexdigest()
        return ((CARRIED, f"{len(carried.files)} files, {carried.size_bytes()} bytes, SHA-256 {digest}"),)

    def image_differences(self) -> tuple[ImageDifference, ...]:
        """Return the differences between the images; see `Target.image_differences`."""
        return self._differences

    @functools.cached_property
    def _agent(self) -> Path:
        return self._default_image.source.agent or build_agent(
            cache_dir() / "agents", native_compiler(self.architecture), *own_addresses(self.architecture, "agent")
        )

    @functools.cached_property
    def _init(self) -> Path:
        return self._default_image.source.init or build_init(
            cache_dir() / "agents", native_compiler(self.architecture), *own_addresses(self.architecture, "init")
        )

    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:
        """Add a program and files of its folder to what its trials get."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not an executable file.")
        return self._added(path, beside)

    def _added(self, path: Path, beside: Sequence[Path] = (), place: str = "") -> str:
        """Add a file with others of its folder; return its path, which by default depends on their contents alone.

        Raises:
            UserError: it can't be read, or needs a library that the image lacks.
        """
        with readable(safe(str(path))):
            entries = {each.name: file(each.read_bytes(), executable=True) for each in (path, *beside)}
        facts, image = facts_of(entries[path.name].content, str(path)), self._default_image.entries
        loaded = guest.own_loader(facts, image or {})
        if facts and not loaded and image is not None and (missing := guest.missing_libraries(facts, entries, image)):
            raise UserError(
                f"{safe(path.name)} needs {', '.join(map(safe, missing))}, and the machine's image does not contain it.",
                "Link it statically, or use an image with its C library.",
            )
        place = place or guest.guest_path(path, hashlib.sha256(archive(entries)).hexdigest())
        above = place.rpartition("/")[0]
        self._add(CarriedFiles({f"{above}/{name}": entry for name, entry in entries.items()} | loaded))
        return place

    def _add(self, group: CarriedFiles) -> None:
        """Add files to what the trials of a program get.

        Raises:
            UserError: a machine has no room for them.
        """
        if group in self._groups:
            return
        memory_bytes = group.memory_bytes or (0 if self._machine.is_saved else self._machine.memory_bytes)
        check_room(group.size_bytes(), memory_bytes)
        found = placed(self._default_image.entries or {}, group)
        if not memory_bytes and all(encode_pool(pool, found) is None for pool in POOLS):
            count, sizes = sum(stat.S_ISREG(each.mode) for each in found.values()), POOLS[-1].sizes
            raise UserError(
                f"A machine can't receive these {count} files: it has room for {len(sizes)}, the largest of "
                f"{', '.join(f'{size / (1 << 20):g}' for size in sizes[:-8:-1])} MiB.",
                f"Give it the memory to boot with them: --memory {memory_for(group.size_bytes())}M",
            )
        self._tree = {**self._tree, **found}
        self._groups.append(group)
        self._received.cache_clear()

    def put_files(self, carried: CarriedFiles) -> None:
        """Add files at their own paths; see `Target.put_files`."""
        names = {path.rpartition("/")[2] for path in self._default_image.entries or {}}
        if missing := [name for name in carried.from_image if name.rpartition("/")[2] not in names]:
            raise UserError(
                f"The program needs {', '.join(map(safe, missing))}, and the machine's image does not contain it.",
                "Link it statically.",
            )
        self._add(carried)

    def put_library(self, path: Path, *, keep_path: bool) -> str:
        """Add a shared object; see `Target.put_library`."""
        if keep_path:
            check_place(str(path))
        self._libraries.append(self._added(path, place=str(path) if keep_path else ""))
        return self._libraries[-1]

    def put_root(self, folder: Path, name: str) -> str:
        """Add a root file system to the initrd; see `Target.put_root`."""
        place = f"{guest.ROOTS}/{name}"
        if place not in self._roots:
            self._roots[place] = guest.read_root(folder)
            self._initrd.cache_clear()
        return place

    def real_path(self, path: str) -> str:
        """Return a path in the machine without links."""
        return f"/{resolve(self._tree, path)}"

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read the file of a program, or a file in the image."""
        entry = find(self._tree, path)
        return facts_of(entry.content, path) if entry else None

    def scratch(self) -> str:
        """Return a folder that is empty in every new machine."""
        return guest.SCRATCH

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial in a machine of its own, or return an equal run from the cache; see `Target.run`."""
        return self.run_observed(request, config)[0]

    def run_observed(
        self, request: TrialRequest, config: MachineConfig, plugin: tuple[str, ...] = ()
    ) -> tuple[AgentAnswer, GuestRun]:
        """Run one trial, and return the machine's whole output too; see `ObservedTarget.run_observed`."""
        named = self.named_run(request, config)
        observed = dataclasses.replace(named.setup, plugin=plugin)
        run = self._runner.make(observed, named.inputs) if plugin else self._run_or_cached(named)
        asked = named.setup.machine
        report, answers = decode_run(run)
        check_run(config, report, answers, run.console)
        ignored = why_other_processors(asked, report)
        if ignored := ignored or why_ignored(asked.parameters, dict(report.files)):
            raise MachineConfigError(f"The machine is not the requested one: {ignored}.")
        banner = self._boot_image(config).source.banner
        booted = (("booted", split_kernel(config.kernel)[0]),) if is_running(report, banner) else ()
        machine = (
            *booted,
            (KEPT_OPTIONS, " ".join(qemu.kept_base_options(asked))),
            (DROPPED_OPTIONS, " ".join(asked.dropped)),
            (PARAMETERS, " ".join(asked.parameters)),
            *report.pairs(),
        )
        facts = (*answers[0].facts, *run.counts)
        answer = msgspec.structs.replace(answers[0], id=request.id, facts=facts, machine=machine, name=named.name)
        return answer, run

    def debug_file(self, name: str, folder: Path, notify: Callable[[str], None]) -> tuple[str, bytes | None]:
        """Return a debug file of the image's glibc; see `ObservedTarget.debug_file`."""
        return read_debug_file(self.architecture, name, folder, notify)

    def files(self, config: MachineConfig = DEFAULT_MACHINE) -> dict[str, Entry]:
        """Return the files of the machines of a configuration, by their paths without the first slash."""
        image = self._boot_image(config)
        files = {**(image.entries or {}), **(unpack(self._overlay()) or {})}
        return {**files, **self._entries(image, None)}

    def run_plan(
        self,
        plan: bytes,
        *,
        limit_ms: int,
        replicate: int,
        config: MachineConfig = DEFAULT_MACHINE,
        words: frozenset[str] = frozenset(),
    ) -> GuestRun:
        """Run a whole plan, or return an equal run from the cache.

        Args:
            plan: for the agent, from its first line to ``quit``.
            limit_ms: limit of the agent's time, in guest time.
            replicate: number of the replicate.
            config: of the machine.
            words: paths of what is executed, whose files the machine gets.

        Returns:
            The run, however it ended.

        Raises:
            WireError: the plan is too large.
            UserError: the cache is not writable, or the target has no such kernel.
        """
        named = self._named(plan, limit_ms=limit_ms, replicate=replicate, config=config, words=words)
        return self._run_or_cached(named)

    def named_run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> NamedRun:
        """Return the name and the inputs of a trial's run."""
        encode_request(request)  # raises what an agent would refuse, including the identifier
        plan = encode_plan_header() + encode_request(msgspec.structs.replace(request, id=TRIAL)) + QUIT
        replicate = block_of(request.id) if self.options.replicate is None else self.options.replicate
        points, _ = self._watched_in(config.kernel)
        words = {request.arguments[0], *dict(request.environment).get("LD_PRELOAD", "").split(":")} - {""}
        return self._named(
            plan,
            limit_ms=request.timeout_ms + SLACK_MS,
            replicate=replicate,
            config=config,
            points=points,
            words=None if request.root or request.load_generator else frozenset(words),
        )

    def _watched_in(self, level: str) -> tuple[bytes, str]:
        """Return what the plugin watches in the machines of a kernel, and why it can't count there; one of them is empty.

        A machine of that kernel prints the addresses of its functions, once for each kernel.
        """
        with self._reading:
            if level not in self._watched:
                try:
                    self._watched[level] = self._read_points(level), ""
                except (UnavailableError, TargetError) as error:
                    self._watched[level] = b"", error.message
            return self._watched[level]

    def _read_points(self, level: str) -> bytes:
        """Return what the plugin watches in the machines of a kernel.

        Raises:
            UnavailableError: it can't count there.
            TargetError: the machine that prints the addresses fails.
        """
        config = self._plain_config(level)
        image = self._boot_image(config)
        machine = image.source.machine
        require_counted(self._emulator, machine, qemu.kernel_command_line(machine))
        plugin_option(Path("counts"))  # raises where it can't be compiled
        request = TrialRequest(
            id=TRIAL,
            arguments=printed_functions(self.architecture),
            cwd=self.scratch(),
            timeout_ms=SLACK_MS,
            output_bytes=_FUNCTIONS_BYTES,
        )
        plan = encode_plan_header() + encode_request(request) + QUIT
        known = digest_of({"kernel": image.kernel_digest, "plan": plan, "init": sha256_of(self._init).encode()})
        run = self._runs.get(known)
        if run is None:
            run = self.make(self._named(plan, limit_ms=2 * SLACK_MS, replicate=0, config=config))
            if run.end is GuestEnd.FINISHED:
                self._runs.put(known, run)
        printed = b"".join(answer.stdout for answer in decode_run(run)[1])
        return points_of(self.architecture, printed, mark_of(self._agent))

    def stop(self) -> None:
        """End all machines; see `Target.stop`."""
        self.options.limits.stop.set()

    def close(self) -> None:
        """Remove its files except the cache, and end workers. No machine runs between trials."""
        if self._shared:
            self._shared.close()
        self._folder.close()

    def _named(
        self,
        plan: bytes,
        *,
        limit_ms: int,
        replicate: int,
        config: MachineConfig,
        points: bytes = b"",
        words: frozenset[str] | None = frozenset(),
    ) -> NamedRun:
        """Return the name and the inputs of a run.

        Args:
            plan: for the agent.
            limit_ms: as of `run_plan`.
            replicate: as of `run_plan`.
            config: of the machine.
            points: what the plugin watches; empty if the program is not counted.
            words: paths of what is executed and preloaded, whose files the machine gets; None for all files.
        """
        boot_image = self._boot_image(config)
        machine = boot_image.source.machine
        pool = self._pool(words) if machine.is_saved and not config.memory_bytes else None
        memory_bytes = machine.memory_bytes + sum(pool.sizes) if pool else config.memory_bytes or machine.memory_bytes
        machine = msgspec.structs.replace(machine, memory_bytes=memory_bytes, receives=bool(pool))
        order = guest.encode_order(
            plan,
            replicate=replicate,
            limit_ms=limit_ms,
            reports=(*((_ONLINE,) if machine.processors > 1 else ()), *files_that_show(machine.parameters)),
            files=tuple((f"/{name}.ko", boot_image.source.own_modules[name]) for name in config.own_modules),
            prepare=config.prepare,
            beside=config.beside,
            settle_ms=config.settle_ms * machine.ns_per_instruction,  # as many instructions on each clock
        )
        initrd, initrd_digest = self._initrd(boot_image, pool)
        received = self._received(boot_image, words, pool)
        assert received is not None  # `_pool` has room for it
        setup = Setup(
            self._emulator, machine, boot_image.source.kernel, initrd, order, received=received[0], points=points
        )
        inputs = run_inputs(setup, boot_image.kernel_digest, initrd_digest, received[1])
        return NamedRun(digest_of(inputs), setup, inputs)

    def _boot_image(self, config: MachineConfig) -> BootImage:
        boot_image = self._boot_images.get(config.kernel) if config.kernel else self._default_image
        if boot_image is None:
            raise UserError(
                f"This target has no kernel {config.kernel}.", f"It has {', '.join(filter(None, self._boot_images))}."
            )
        return boot_image

    def share_runs(self, source: RunSource) -> None:
        """Get runs from elsewhere too, until this target is closed."""
        self._shared = source
        self.at_once = source.at_once or self.at_once

    def make(self, named: NamedRun) -> GuestRun:
        """Make a run on this machine, however it ends."""
        return self._runner.make(named.setup, named.inputs)

    @property
    def used_runs(self) -> tuple[str, ...]:
        """The names of the runs that were needed since `share_runs`, sorted."""
        return tuple(sorted(self._shared.used)) if self._shared else ()

    def _run_or_cached(self, named: NamedRun) -> GuestRun:
        known = self._runs.get(named.name) if self._exact and not self.options.no_cache else None
        if known is not None and self._shared is None:
            return known
        run = self._shared.get(named, known) if self._shared else self.make(named)
        if known is None and self._exact and run.end is GuestEnd.FINISHED:  # other ends may depend on this host
            self._runs.put(named.name, run)
        return run

    def _pool(self, asked: frozenset[str] | None) -> Pool:
        """Return the smallest pool that has room for each program: all variants get their files in the same way.

        Args:
            asked: as of `_received`, of the trial.

        Raises:
            UserError: the files of all programs have no room.
        """
        words = [frozenset((_first(group), *self._libraries)) for group in self._groups]
        for pool in POOLS:
            if all(
                self._received(image, each, pool) for image in self._boot_images.values() for each in (asked, *words)
            ):
                return pool
        raise UserError(
            "The files of all programs are more than a machine receives.", "Compare fewer programs at once."
        )

    def _write_received(
        self, image: BootImage, words: frozenset[str] | None, pool: Pool | None
    ) -> tuple[Path, bytes] | None:
        """Write the files of a trial; return the file and its digest, or None if the pool has no room.

        Args:
            image: of the machine.
            words: the program and what is preloaded. The machine gets their files, and none of other programs; None: all files.
            pool: of the machine; None if it gets an archive.
        """
        entries = self._entries(image, words)
        data = encode_pool(pool, entries) if pool else archive(entries)
        return None if data is None else self._write(data)

    def _entries(self, image: BootImage, words: frozenset[str] | None) -> dict[str, Entry]:
        groups = (
            group
            for group in self._groups
            if words is None or _first(group) in {group.aliases.get(word, word) for word in words}
        )
        return placed(image.entries or {}, functools.reduce(CarriedFiles.joined, groups, CarriedFiles({})))

    def _write_initrd(self, image: BootImage, pool: Pool | None) -> tuple[Path, bytes]:
        return self._write(image.initrd(self._overlay(pool)))

    def _write(self, data: bytes) -> tuple[Path, bytes]:
        """Write a file of machines; return it and its digest."""
        digest = hashlib.sha256(data).digest()
        path = self._folder.path / digest.hex()
        write_whole(path, data)
        return path, digest

    def _overlay(self, pool: Pool | None = None) -> bytes:
        """Return the archive that is appended to an initrd, with all root file systems and the sizes of a pool."""
        others = {
            f"{place}/{name}".lstrip("/"): entry for place, root in self._roots.items() for name, entry in root.items()
        }
        others |= pool_files(pool, self._machine.memory_bytes) if pool else {}
        return guest.overlay(self._init.read_bytes(), self._agent.read_bytes(), others)
