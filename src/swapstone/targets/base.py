"""The contract of every target: where trials run."""

from __future__ import annotations

import abc
from pathlib import Path
from types import TracebackType
from typing import Self

from swapstone.factors import ProgramFacts, read_facts
from swapstone.model import FrozenStruct, ImageDifference, UnavailableError, UserError
from swapstone.wire import AgentAnswer, TrialRequest


class TargetError(UserError):
    """The target itself broke: the trial has no answer. The target is as good as new for the next one."""


class MachineConfigError(UserError):
    """The machine could not be made as asked, or did not stay so: the trial has no answer, and the target is whole."""


class MachineConfig(FrozenStruct, frozen=True, kw_only=True):
    """What a machine is, and what it does besides the trial; by default what it is and does of itself.

    Attributes:
        kernel: a level of the factor kernel; empty for the target's own.
        memory_bytes: of the machine, whole MiB; 0 for the target's own.
        prepare: shell commands before the trial, one after another.
        beside: shell commands that run meanwhile.
        settle_ms: how long those run before it begins.
    """

    kernel: str = ""
    memory_bytes: int = 0
    prepare: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    settle_ms: int = 0


DEFAULT_MACHINE = MachineConfig()


def require_default_machine(setting: MachineConfig, name: str) -> None:
    """Refuse a setting on a target that can't change its machine.

    Raises:
        UnavailableError: it is another one than `DEFAULT_MACHINE`.
    """
    if setting != DEFAULT_MACHINE:
        raise UnavailableError(f"The target {name} can't change its kernel, swap or load.", "Measure on --target vm.")


class TargetDescription(FrozenStruct, frozen=True, kw_only=True):
    """What a target is. A text is empty, and a number 0, where the target can't tell.

    Attributes:
        kernel: name, release and version.
        architecture: as ``uname -m`` says.
        cpu: the processor's model.
        cpus: numbers of the processors that trials may use.
        microcode: its version.
        governor: of the processors' frequency; several, parted by commas, where they differ.
        mitigations: of the processor's flaws, each ``flaw: state``, parted by ``; ``.
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
        """Return pairs (name, value) in the order in which reports print them; what is not known is left out."""
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


class Target(abc.ABC):
    """A place where trials run, one after another.

    A target is used by one thread, as a context manager or with `close`. The order is: make it, `describe` it, `put` programs,
    then for each trial `scratch` and `run`. Paths that it returns are paths on the target.

    What every target promises:

    - A program that misbehaves is an answer, never an error: it crashed, hung, flooded its output, left processes, filled the disk,
      or could not be started. `AgentAnswer.how` says which.
    - `TargetError` is raised when the target itself broke (the agent died, spoke nonsense, was silent for longer than the trial's
      time-out and some slack). Afterwards nothing of that trial runs any more, and the next `run` starts afresh.
    - `WireError` is raised for a request that no agent could carry out; the target is unharmed.
    - After `close`, or when the program that holds the target dies, no process of it is left and its scratch folder is not used.
    - Nothing is inherited from the caller: environment, working directory and signals of a trial are those of its request.

    Attributes:
        name: as the user wrote it, e.g. ``host``.
        needs_build: whether programs must be built and `put`; if not, `path_of` names them.
        shares_files: whether files of this machine are there under the same paths.
        boots: whether it makes a machine for each trial, and takes another setting than `DEFAULT_MACHINE`.
        runs_instruments: whether perf, strace and the like on this machine reach its processes.
        has_load_generators: whether the programs that load a server can run there.
        at_once: how many trials it runs side by side without harm; with more than 1, `run` may be called by as many threads.
    """

    name: str
    needs_build: bool = True
    shares_files: bool = True
    boots: bool = False
    runs_instruments: bool = False
    has_load_generators: bool = True
    at_once: int = 1

    @abc.abstractmethod
    def describe(self) -> TargetDescription:
        """Return what the target is, read once.

        Raises:
            UserError: it can't be reached.
        """

    @abc.abstractmethod
    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (tool, version) of what the target itself uses, for the manifest; the agent among them."""

    @abc.abstractmethod
    def put(self, path: Path) -> str:
        """Bring a program to the target.

        Args:
            path: an executable file here. Programs whose paths are equally long have equally long paths there too, so that the
                stack of a process doesn't move with its variant's name.

        Returns:
            Its absolute path on the target.

        Raises:
            UserError: it is no executable file, or there is no room for it.
        """

    def path_of(self, variant: str, workload: str) -> str:
        """Name a program on a target that needs no build.

        Args:
            variant: the variant's label.
            workload: the workload's name.

        Raises:
            UserError: this target needs built programs.
        """
        raise UserError(f"The target {self.name} runs built programs: {workload} of {variant} must be put there.")

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read what the file of a program or shared object on the target says of how it was made.

        Args:
            path: on the target.

        Returns:
            What it says; None when it isn't there, can't be read, or is no ELF file.
        """
        return read_facts(Path(path))

    @abc.abstractmethod
    def scratch(self) -> str:
        """Return the folder on the target that is each trial's own: empty before every `run`."""

    @abc.abstractmethod
    def run(self, request: TrialRequest, setting: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial and wait for its end: at most the request's time-out and a slack that the target states.

        Args:
            request: what to run; its paths are paths on the target.
            setting: what machine it runs in; another one than `DEFAULT_MACHINE` only where `boots`.

        Returns:
            What the agent saw. Its id is the request's.

        Raises:
            TargetError: the target broke.
            MachineConfigError: the machine could not be made as asked.
            WireError: the request can't be carried out as it stands.
        """

    def image_differences(self) -> tuple[ImageDifference, ...]:
        """Return what differs between its first machine and each other one, for the manifest; by default it has one machine."""
        return ()

    def stop(self) -> None:  # noqa: B027 - a target that runs one trial at a time has nothing to stop
        """End all trials that other threads are running; their `run` raises a `TargetError`. Used before `close`."""

    @abc.abstractmethod
    def close(self) -> None:
        """End everything that the target runs and remove what it wrote. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
