# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of a target: a place where trials run."""

from __future__ import annotations

import abc
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from swapstone.core.factors import ProgramFacts, read_facts
from swapstone.core.model import Experiment, FrozenStruct, ImageDifference, UnavailableError, UserError
from swapstone.core.model.closing import Closing
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.carried_files import CarriedFiles
from swapstone.core.targets.hints import target_hint
from swapstone.core.targets.page_cache import SettledFile
from swapstone.core.wire import AgentAnswer, TrialRequest


class RemoteProgram(FrozenStruct, frozen=True, kw_only=True):
    """A load generator on the other machine.

    Attributes:
        path: absolute path there.
        sha256: of its file, in hexadecimal.
    """

    path: str
    sha256: str


class LoadDriver(Protocol):
    """A connection to the machine of the load generators.

    Attributes:
        address: of this machine, on which servers listen.
    """

    address: str

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (what, text) of what was observed of the machine and of the load generators there."""
        ...

    def find(self, name: str) -> RemoteProgram:
        """Return a program of that machine.

        Args:
            name: to be found in PATH there, or an absolute path there.

        Raises:
            UnavailableError: it is not there.
            UserError: the answer is not valid.
        """
        ...

    def copy(self, path: Path) -> RemoteProgram:
        """Copy a program of this machine to that one and return it.

        Raises:
            UnavailableError: that machine has another architecture.
            UserError: it can't be copied, or arrived with another content.
        """
        ...

    def command(self, program: RemoteProgram, words: tuple[str, ...], limit_s: int) -> tuple[str, ...]:
        """Return the command of this machine that executes a load generator there, with its output and status.

        Args:
            program: there.
            words: its arguments. None has a zero byte.
            limit_s: that machine kills it after this time, even if the connection hangs.

        Raises:
            UserError: the words are too long for a command line.
        """
        ...

    def close(self) -> None:
        """End the connection; nothing that it started is left. May be called twice."""
        ...


class LoadDriverKind(NamedTuple):
    """A way to reach such a machine, which a part provides as the kind ``load-driver``.

    Attributes:
        usage: what the user types as the target.
        description: what it is for, in one line.
        name_of: checks what follows ``host:`` in a target, and returns the machine's name. Raises `UserError` for another form.
        connect: connects to the machine of such a text. Raises `UserError` if it can't be reached.
    """

    usage: str
    description: str
    name_of: Callable[[str], str]
    connect: Callable[[str], LoadDriver]


class TargetError(UserError):
    """The target failed during a trial, which has no answer. The target can run the next trial.

    Args:
        message: as of `UserError`.
        hint: as of `UserError`.
        console: the last lines of a machine's console; empty for a target without one.
    """

    def __init__(self, message: str, hint: str = "", console: str = "") -> None:
        super().__init__(message, hint)
        self.console = console


class AgentStartError(UserError):
    """The agent can't be started, so there is nothing that could run a trial. The session ends; no run has failed."""


class MachineConfigError(UserError):
    """The machine could not be set up as `MachineConfig` requires, or its load ended early. The trial has no answer."""


class UnequalRunsError(MachineConfigError):
    """A run on the virtual clock was made twice, and the two differ. The trial is refused."""


class MachineConfig(FrozenStruct, frozen=True, kw_only=True):
    """The machine that a trial runs in, and what runs on it besides the trial.

    Attributes:
        kernel: a level of the factor ``kernel``; empty for the target's default.
        root: a level of the factor ``rootfs`` that the machine boots, on a target that reboots; empty for the one that it has.
        memory_bytes: of a machine that boots, whole MiB; else the limit of the trial's memory cgroup, where the target limits it;
            0 for the target's default.
        swap: a level of the factor ``swap``, on a target that sets swap devices; with it comes a limit of the trial's memory.
            Empty to leave the machine's swap alone.
        own_modules: names of kernel modules of this project, files that the machine has as ``/NAME.ko``.
        prepare: shell commands that run one after another before the trial.
        beside: shell commands that run during the trial.
        settle_ms: how long those run before the trial begins; on the virtual clock, at 1 ns for an instruction. At N ns they run N times
            as long, so that a load has executed as many instructions, e.g. has filled as much memory.
        real_time: whether the trial or what runs beside it has threads of a real-time priority. On a slow machine they may leave other
            programs no time until the trial ends.
    """

    kernel: str = ""
    root: str = ""
    memory_bytes: int = 0
    swap: str = ""
    own_modules: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    settle_ms: int = 0
    real_time: bool = False

    def without_load(self) -> MachineConfig:
        """Return the machine without what runs beside the trial, and without the trial's kind: what remains must be changed."""
        return msgspec.structs.replace(self, beside=(), settle_ms=0, real_time=False)


DEFAULT_MACHINE = MachineConfig()

REBOOTED = "rebooted by"
"""Name of what the answer of a target that reboots has of its machine: it counts no loads around a trial, and runs none."""

NO_LIMIT_BYTES = 1 << 62
"""As `MachineConfig.memory_bytes`: a memory cgroup without a limit, which reports the highest use."""


def require_default_machine(config: MachineConfig, name: str) -> None:
    """Refuse a machine configuration on a target that can't change its machine.

    Raises:
        UnavailableError: it is not `DEFAULT_MACHINE`.
    """
    if config != DEFAULT_MACHINE:
        raise UnavailableError(
            f"The target {name} can't change its kernel, swap or load.", target_hint("boots", "Measure on {}.")
        )


class TargetDescription(FrozenStruct, frozen=True, kw_only=True):
    """Hardware and system of a target. An unknown text is empty, an unknown number is 0.

    Attributes:
        kernel: name, release and version.
        architecture: as ``uname -m`` prints it.
        cpu: the processor's model.
        cpus: numbers of the processors that trials may use.
        microcode: its version.
        governor: of the processors' frequency; several, separated by commas, if they differ.
        mitigations: of the processor's vulnerabilities, each ``vulnerability: state``, separated by ``; ``.
        virtualization: the hypervisor or the machine's maker; ``none`` on bare metal.
        memory_bytes: all of it.
        system: the operating system's name and version.
    """

    kernel: str = ""
    architecture: str = ""
    cpu: str = ""
    cpus: tuple[int, ...] = ()
    microcode: str = ""
    governor: str = ""
    mitigations: str = ""
    virtualization: str = ""
    memory_bytes: int = 0
    system: str = ""

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (name, value) in the order in which reports print them, without unknown ones."""
        pairs = (
            ("system", self.system),
            ("kernel", self.kernel),
            ("architecture", self.architecture),
            ("cpu", self.cpu),
            ("cpus", ",".join(map(str, self.cpus))),
            ("microcode", self.microcode),
            ("governor", self.governor),
            ("virtualization", self.virtualization),
            ("memory_bytes", str(self.memory_bytes or "")),
            ("mitigations", self.mitigations),
        )
        return tuple((name, value) for name, value in pairs if value)


Offer: TypeAlias = Literal[
    "runs_programs",
    "shares_files",
    "carries_files",
    "takes_libraries",
    "takes_loaders",
    "probes_architecture",
    "boots",
    "reboots",
    "sets_swap",
    "limits_memory",
    "runs_loads",
    "bare",
    "runs_instruments",
    "has_load_generators",
    "shares_runs",
]
"""What a target can do:

- ``runs_programs``: programs are built and `Target.put` there; without it, `Target.path_of` names them.
- ``shares_files``: this machine's files have the same paths on the target.
- ``carries_files``: `Target.put_files` gives it files of this machine at their own paths, if it does not share them.
- ``takes_libraries``: `Target.put_library` gives it shared objects of this machine, if it does not share files.
- ``takes_loaders``: `Target.install` gives it the C library of a dynamic program, if it does not share files.
- ``probes_architecture``: the architecture that programs are built for is known only when it is open.
- ``boots``: it boots a machine for each trial, and so accepts another configuration than `DEFAULT_MACHINE`.
- ``reboots``: its one machine is booted anew for a `MachineConfig` with a kernel or a root, which takes long: see `Target.begin`.
- ``sets_swap``: it accepts `MachineConfig.swap`; see `Target.try_levels`.
- ``limits_memory``: it accepts `MachineConfig.memory_bytes` though it boots no machine.
- ``runs_loads``: it accepts `MachineConfig.beside` and `MachineConfig.settle_ms` though it boots no machine.
- ``bare``: the servers of its trials run without an operating system: it runs the workloads that are `swapstone.core.model.Workload.bare`,
  and no others.
- ``runs_instruments``: perf, strace and the like on this machine reach its processes.
- ``has_load_generators``: the programs that load a server can run there.
- ``shares_runs``: its runs on the virtual clock are functions of their inputs, so that other machines can make them.
"""


class Target(Closing):
    """A place where trials run, one after another.

    One thread uses a target, as a context manager or with `close`. The calls are: `describe`, `put` for each program, `scratch`, then
    `run` for each trial. All paths that a target returns are paths on the target.

    Guarantees of every target:

    - A program that fails is an answer, not an exception: it crashed, hung, printed too much, left processes, filled the disk, or could
      not be started. `AgentAnswer.outcome` names the case.
    - `run` raises `TargetError` if the target itself failed: the agent died, wrote an invalid answer, or did not answer within the
      trial's time-out and a slack. No process of that trial runs afterwards, and the next `run` starts a new agent.
    - `run` raises `AgentStartError` if no agent can be started, and `OSError` if a resource of this machine is used up, such as file
      descriptors. The session ends then, and can be resumed.
    - `run` raises `WireError` for a request that no agent could carry out. The target is not affected.
    - After `close`, or after the death of the program that opened the target, no process of the target is left.
    - A trial inherits nothing from the caller: environment, working directory and signals are those of its request.

    Attributes:
        name: as the user typed it, e.g. ``host``.
        offers: what it can do, and needs are compared with; see `Offer`.
        driver: the other machine on which load generators run; None where they run beside the servers.
        suites: those of a request that names none; empty for the suites in which its factors make a difference.
        at_once: number of trials that it can run at the same time; as many threads may call `run`.
    """

    name: str
    offers: frozenset[Offer] = frozenset({"runs_programs", "shares_files", "has_load_generators"})
    driver: LoadDriver | None = None
    suites: tuple[str, ...] = ()
    at_once: int = 1

    @property
    def architecture(self) -> str:
        """The architecture of its machines, as ``uname -m`` prints it."""
        return os.uname().machine

    @abc.abstractmethod
    def describe(self) -> TargetDescription:
        """Return the target's description, which is read once.

        Raises:
            UserError: it can't be reached.
        """

    @classmethod
    def check_experiment(cls, experiment: Experiment, need_system: Sequence[str]) -> None:
        """Refuse what targets of this class can't measure, beyond what follows from their capabilities.

        Args:
            experiment: what is measured.
            need_system: names of its workloads that need an operating system.

        Raises:
            UnavailableError: a workload, factor or load can't be measured; or the baseline can't, or every other level.
        """
        del experiment, need_system

    @classmethod
    def left_out_levels(cls, _experiment: Experiment) -> Iterator[str]:
        """Yield a sentence for each level that targets of this class leave out of an experiment that they accept."""
        yield from ()

    def try_levels(self, factor: str, levels: Sequence[str]) -> None:
        """Check that a target can set the levels of a factor that it sets itself, by doing so.

        Args:
            factor: its name.
            levels: in the order of the experiment.

        Raises:
            UnavailableError: it can't; the message has the reason.
        """

    @abc.abstractmethod
    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (tool, version) of the agent and other tools that the target uses, for the manifest."""

    @abc.abstractmethod
    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:
        """Copy a program to the target, if its files are not shared.

        Args:
            path: an executable file of this machine. Paths of equal length must have equal length on the target, so that the stack of
                a process doesn't move with its variant's name.
            beside: files of the same folder that the program loads or starts. They are in its folder on the target, too.

        Returns:
            Its absolute path on the target.

        Raises:
            UserError: it is no executable file, or there is no space for it.
        """

    def put_files(self, carried: CarriedFiles) -> None:
        """Copy files to the target, at their own paths.

        Args:
            carried: the files; those of earlier calls stay.

        Raises:
            UserError: it does not take files, has no room for one of them, or lacks what its image should contain.
        """
        raise UserError(f"The target {self.name} takes no files but programs: {', '.join(map(safe, carried.files))}.")

    def put_library(self, path: Path, *, keep_path: bool) -> str:  # noqa: ARG002 - targets that don't share files need it
        """Copy a shared object that is preloaded to the target, if its files are not shared.

        Args:
            path: of this machine.
            keep_path: whether it needs the same path on the target. Otherwise its path there does not depend on its path here.

        Returns:
            Its absolute path on the target.

        Raises:
            UserError: it takes no shared objects, has no room for it, or lacks a library that it needs.
        """
        if "shares_files" not in self.offers:
            raise UnavailableError(
                f"An object can't be preloaded on the target {self.name} ({safe(path.name)}).",
                "Add --hold linking=static: an allocator that is linked in works there.",
            )
        return str(path)

    def install(self, files: Mapping[str, Path], what: str) -> str:
        """Copy files to the target into one folder, if its files are not shared: programs of packages, or a C library.

        Args:
            files: files of this machine by their names in the folder, at least one: programs, loader and shared objects. All are in one
                folder here, too, if its files are shared.
            what: they are, for the manifest.

        Returns:
            The folder's absolute path on the target. All such paths are equally long on a target that copies.

        Raises:
            UserError: it takes none, or there is no room for them.
        """
        if "shares_files" not in self.offers:
            raise UnavailableError(f"The target {self.name} takes no {safe(what)}.")
        return str(next(iter(files.values())).parent)

    def load_folder(self) -> str:
        """Return the folder on the target in which the programs of `MachineConfig.beside` may write.

        Raises:
            UnavailableError: it runs none.
        """
        raise UnavailableError(
            f"The target {self.name} runs no load beside a trial.", target_hint("boots", "Measure on {}.")
        )

    def put_root(self, folder: Path, name: str) -> str:
        """Copy a root file system to the target, if its files are not shared.

        Args:
            folder: of this machine.
            name: of letters and digits; roots of equal content have equal names.

        Returns:
            The folder's absolute path on the target.

        Raises:
            UserError: it takes no root file system, or there is no room for it.
        """
        if "shares_files" not in self.offers:
            raise UnavailableError(f"The target {self.name} takes no root file system ({name[:12]}).")
        return str(folder)

    def settle(self, path: str) -> SettledFile | None:  # noqa: ARG002 - targets that run programs in place need it
        """Bring a program's pages in the page cache into the same state as those of other programs, without changing its content.

        Args:
            path: on the target.

        Returns:
            What was read; None on a target where all programs are written alike or boot with their machine.
        """
        return None

    def copied(self, path: str) -> str:  # noqa: ARG002
        """Return the path of a copy of a program, which a null comparison runs; empty if it is not, or can't be, copied.

        Args:
            path: on the target.
        """
        return ""

    def real_path(self, path: str) -> str:
        """Return a path on the target without links."""
        return os.path.realpath(path)

    def path_of(self, variant: str, workload: str) -> str:
        """Name a program on a target that needs no build.

        Args:
            variant: the variant's label.
            workload: the workload's name.

        Raises:
            UserError: this target needs built programs.
        """
        raise UserError(
            f"The target {self.name} runs built programs: {workload} of {variant} must be copied to it first."
        )

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read the file of a program or shared object on the target.

        Args:
            path: on the target.

        Returns:
            What the file contains; None if it does not exist, can't be read, or is no ELF file.
        """
        return read_facts(path)

    def open_file(self, path: str) -> BinaryIO:
        """Open a file that a trial wrote, for reading.

        Args:
            path: on the target, absolute.

        Raises:
            UserError: it is missing, can't be read, or is no regular file: a link, FIFO, socket, device or folder. The message is the
                end of a sentence whose subject is the file, such as "is missing".
        """
        if "shares_files" not in self.offers:
            raise UnavailableError(f"is on the target {self.name}, whose files can't be read")
        return _open_regular(path)

    @abc.abstractmethod
    def scratch(self) -> str:
        """Return the folder on the target that every trial finds empty."""

    def begin(self, start: str) -> None:
        """Name the start of the machine that the next trials belong to. It is called on a target that ``reboots``.

        Args:
            start: equal for trials on one start of the machine.
        """

    @abc.abstractmethod
    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial and wait for its end, at most the request's time-out and a slack.

        Args:
            request: what to run; its paths are paths on the target.
            config: the machine; must be `DEFAULT_MACHINE` unless the target boots machines.

        Returns:
            The agent's answer, with the request's identifier.

        Raises:
            TargetError: the target failed.
            MachineConfigError: the machine could not be set up.
            WireError: no agent could carry out the request.
        """

    def image_differences(self) -> tuple[ImageDifference, ...]:
        """Return what differs between its first machine and each other machine, for the manifest; empty with one machine."""
        return ()

    def stop(self) -> None:
        """End the trials of all threads; their `run` raises `TargetError`. Called before `close`."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all processes of the target and remove its files. May be called twice."""


_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
)


def _open_regular(path: str) -> BinaryIO:
    """Open a regular file. Its type is examined before the open, which could block or have an effect, and again after it."""
    try:
        _require_regular(os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116 # a text from the user, not normalised
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_regular(os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError("is missing") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name has a zero byte"
        raise UserError(f"can't be read: {reason}") from error


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for of_kind, name in _KINDS if of_kind(mode)), "a device")
        raise UserError(f"is {kind}, no regular file")


Capabilities: TypeAlias = Target | type[Target]
"""A target, or the class of one that is not open yet: its name and capabilities can be read of both."""
