# SPDX-License-Identifier: MIT OR Apache-2.0
"""A virtual machine as a target, on the virtual clock or, with KVM, on the wall clock: docs/virtual-machines.md."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import ProgramFacts, facts_of, read_facts
from swapstone.core.model import ImageDifference, UnavailableError, UserError
from swapstone.core.model.cpio import Entry, archive, unpack
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_build import build_agent, sha256_of
from swapstone.core.targets.carried_files import CarriedFiles, check_place
from swapstone.core.targets.emulator_plugin import plugin_option
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
from swapstone.parts.vm.machine.boot_image import BootImage, Parts, VmImage, build_init
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator, find_emulator
from swapstone.parts.vm.machine.guest import GuestReport, block_of, find, placed, resolve
from swapstone.parts.vm.machine.machine_runner import MachineRunner
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Limits, Setup
from swapstone.parts.vm.machine.run_cache import NamedRun, RunCache, RunSource, digest_of, run_inputs
from swapstone.parts.vm.machine.run_output import TRIAL, check_run, decode_run
from swapstone.parts.vm.machine.snapshot import QUIT, SLACK_MS
from swapstone.parts.vm.machine.task_counts import (
    mark_of,
    place_of_agent,
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


def is_running(report: GuestReport, banner: str) -> bool:
    """Return whether the running kernel has the banner of a kernel's file."""
    text = banner.removeprefix("Linux version ")  # the banner of a bzImage does not contain these words
    return text.startswith(f"{report.release} ") and report.version in text


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
            self._boot_images = {level: BootImage(made, self._folder.path) for level, made in levels.items()}
        except BaseException:
            self._folder.close()
            raise
        self._default_image = next(iter(self._boot_images.values()))
        self._cache = options.cache or cache_dir()
        self._runs = RunCache(self._cache / "runs")
        self._programs: dict[str, Path] = {}
        self._folders: dict[str, Mapping[str, Entry]] = {}
        self._carried = CarriedFiles({})
        self._tree: Mapping[str, Entry] = self._default_image.entries or {}
        self._initrds: dict[BootImage, tuple[Path, bytes, Parts]] = {}
        self._runner = MachineRunner(self._cache / "snapshots", options.limits, snapshots=options.snapshots)
        self._shared: RunSource | None = None
        self._lock, self._reading = threading.Lock(), threading.Lock()
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
        memory_bytes = self._carried.memory_bytes
        return MachineConfig(
            kernel=kernel, memory_bytes=memory_bytes if memory_bytes > self._machine.memory_bytes else 0
        )

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
        """Return the entry of the carried files, so that a resumed record has the same ones."""
        carried = self._carried
        if not carried.files:
            return ()
        digest = hashlib.sha256(archive(placed({}, carried))).hexdigest()
        return (
            ("files of own programs", f"{len(carried.files)} files, {carried.size_bytes()} bytes, SHA-256 {digest}"),
        )

    def image_differences(self) -> tuple[ImageDifference, ...]:
        """Return the differences between the images; see `Target.image_differences`."""
        return self._differences

    @functools.cached_property
    def _agent(self) -> Path:
        return self._default_image.source.agent or build_agent(
            cache_dir() / "agents", native_compiler(self.architecture), *place_of_agent(self.architecture)
        )

    @functools.cached_property
    def _init(self) -> Path:
        return self._default_image.source.init or build_init(cache_dir() / "agents", native_compiler(self.architecture))

    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:  # noqa: ARG002 - the whole folder is copied
        """Add a program and the files in its folder to the initrd."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not an executable file.")
        entries, digest = guest.read_folder(path)
        facts = read_facts(path)
        image = self._default_image.entries
        if facts and image is not None and (missing := guest.missing_libraries(facts, entries, image)):
            raise UserError(
                f"{path.name} needs {', '.join(missing)}, and the machine's image does not contain it.",
                "Link it statically, or use an image with its C library.",
            )
        return self._added(path, digest, entries)

    def _added(self, path: Path, digest: str, entries: Mapping[str, Entry]) -> str:
        """Add the folder of a file to the initrd, and return the file's path there."""
        place = guest.guest_path(path, digest)
        self._folders[place.rpartition("/")[0]] = entries
        self._programs[place] = path
        self._initrds.clear()
        return place

    def put_files(self, carried: CarriedFiles) -> None:
        """Add files at their own paths to the initrd; see `Target.put_files`."""
        every = self._carried.joined(carried)
        image = self._default_image.entries or {}
        tree = {**image, **placed(image, every)}
        names = {path.rpartition("/")[2] for path in image}
        if missing := [name for name in carried.from_image if name.rpartition("/")[2] not in names]:
            raise UserError(
                f"The program needs {', '.join(map(safe, missing))}, and the machine's image does not contain it.",
                "Link it statically.",
            )
        self._carried, self._tree = every, tree
        self._initrds.clear()

    def put_library(self, path: Path, *, keep_path: bool) -> str:
        """Add a shared object to the initrd; see `Target.put_library`."""
        entry, needed = guest.read_library(path, self._default_image.entries)
        if keep_path:
            check_place(str(path))
            self.put_files(CarriedFiles({str(path): entry}, from_image=needed))
            return str(path)
        return self._added(path, hashlib.sha256(entry.content).hexdigest(), {path.name: entry})

    def put_root(self, folder: Path, name: str) -> str:
        """Add a root file system to the initrd; see `Target.put_root`."""
        place = f"{guest.ROOTS}/{name}"
        if place not in self._folders:
            self._folders[place] = guest.read_root(folder)
            self._initrds.clear()
        return place

    def real_path(self, path: str) -> str:
        """Return a path in the machine without links."""
        return f"/{resolve(self._tree, path)}"

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read the file of a program, or a file in the image."""
        own = self._programs.get(path)
        if own is None:
            entry = find(self._tree, path)
            return facts_of(entry.content, path) if entry else None
        facts = read_facts(own)
        return msgspec.structs.replace(facts, path=path) if facts else None

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
        return {**(image.entries or {}), **(unpack(self._overlay(image)) or {})}

    def run_plan(
        self, plan: bytes, *, limit_ms: int, replicate: int, config: MachineConfig = DEFAULT_MACHINE
    ) -> GuestRun:
        """Run a whole plan, or return an equal run from the cache.

        Args:
            plan: for the agent, from its first line to ``quit``.
            limit_ms: limit of the agent's time, in guest time.
            replicate: number of the replicate.
            config: of the machine.

        Returns:
            The run, however it ended.

        Raises:
            WireError: the plan is too large.
            UserError: the cache is not writable, or the target has no such kernel.
        """
        return self._run_or_cached(self._named(plan, limit_ms=limit_ms, replicate=replicate, config=config))

    def named_run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> NamedRun:
        """Return the name and the inputs of a trial's run."""
        encode_request(request)  # raises what an agent would refuse, including the identifier
        plan = encode_plan_header() + encode_request(msgspec.structs.replace(request, id=TRIAL)) + QUIT
        replicate = block_of(request.id) if self.options.replicate is None else self.options.replicate
        points, _ = self._watched_in(config.kernel)
        limit_ms = request.timeout_ms + SLACK_MS
        return self._named(plan, limit_ms=limit_ms, replicate=replicate, config=config, points=points)

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
        self, plan: bytes, *, limit_ms: int, replicate: int, config: MachineConfig, points: bytes = b""
    ) -> NamedRun:
        boot_image = self._boot_image(config)
        machine = boot_image.source.machine
        if config.memory_bytes:
            machine = msgspec.structs.replace(machine, memory_bytes=config.memory_bytes)
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
        initrd, digest, parts = self._initrd(boot_image)
        setup = Setup(self._emulator, machine, boot_image.source.kernel, initrd, order, points=points)
        inputs = run_inputs(setup, kernel=boot_image.kernel_digest, initrd=digest)
        return NamedRun(digest_of(inputs), setup, inputs, parts)

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

    def _initrd(self, boot_image: BootImage) -> tuple[Path, bytes, Parts]:
        """Return the initrd of a kernel with what is appended to it; see `BootImage.initrd`."""
        with self._lock:  # agent and first process are built once
            if boot_image not in self._initrds:
                self._initrds[boot_image] = boot_image.initrd(self._overlay(boot_image))
            return self._initrds[boot_image]

    def _overlay(self, boot_image: BootImage) -> bytes:
        """Return the archive that is appended to an initrd."""
        return guest.overlay(
            self._init.read_bytes(),
            self._agent.read_bytes(),
            {place: self._folders[place] for place in sorted(self._folders)},
            placed(boot_image.entries or {}, self._carried),
        )
