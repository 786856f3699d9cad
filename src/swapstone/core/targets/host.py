# SPDX-License-Identifier: MIT OR Apache-2.0
"""This machine as a target."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import platform
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import Experiment, FrozenStruct, UnavailableError, UserError, process_file
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.errors import remedy
from swapstone.core.model.observation import LATER_RUN, NO_CGROUP, UNCOUNTED
from swapstone.core.model.parts import provided
from swapstone.core.model.regular_file import text_of
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_build import agent_programs, describe_agent, find_agent, has_sha256, sha256_of
from swapstone.core.targets.agent_target import COUNTERS, SLACK_S, STOP_TIMEOUT_S, AgentTarget, start_agent
from swapstone.core.targets.hints import target_hint
from swapstone.core.targets.memory_cgroup import CHILDREN, TREE_CPU_US, MemoryCgroup, TreeCgroup, tree_places
from swapstone.core.targets.memory_phases import PhaseWatch, with_phases
from swapstone.core.targets.page_cache import SettledFile, settle
from swapstone.core.targets.target import (
    DEFAULT_MACHINE,
    NO_LIMIT_BYTES,
    LoadDriver,
    LoadDriverKind,
    MachineConfig,
    Target,
    TargetDescription,
    TargetError,
    require_default_machine,
)
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.core.wire import AgentAnswer, TrialRequest

_RETRY_S = 0.002
_ATTEMPT_S = 0.05
_TICK_US = 10_000

COUNTED_RUNS = 2
"""So many first runs of each command line are in cgroups: those of the warm-up, with a discarded one."""


@contextlib.contextmanager
def ready_listener(address: str, port: int) -> Iterator[None]:
    """Listen on 127.0.0.1 as soon as a server accepts connections on an address, and until the end of the context.

    A server that listens on every address, and so on 127.0.0.1 too, is noticed by the agent itself.

    Args:
        address: on which the server listens.
        port: of the server, and on 127.0.0.1.
    """
    stopped = threading.Event()

    def listen() -> None:
        while not _accepts(address, port):
            if stopped.wait(_RETRY_S):
                return
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(8)
            stopped.wait()

    if address == "127.0.0.1":
        yield
        return
    thread = threading.Thread(target=listen, name="ready", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _accepts(address: str, port: int) -> bool:
    with socket.socket() as attempt:
        attempt.settimeout(_ATTEMPT_S)
        return attempt.connect_ex((address, port)) == 0


_GOVERNORS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


def describe_host(root: Path = Path("/")) -> TargetDescription:
    """Describe this machine.

    Args:
        root: the folder that contains ``proc``, ``sys`` and ``etc``; another one for tests.

    Returns:
        What could be read; other fields are empty.
    """
    name = platform.uname()
    kernel = f"{name.system} {name.release} {name.version}"
    return describe_machine(root, kernel, name.machine, tuple(sorted(os.sched_getaffinity(0))))


def describe_machine(root: Path, kernel: str, architecture: str, cpus: tuple[int, ...]) -> TargetDescription:
    """Describe a machine by its files.

    Args:
        root: the folder that contains its ``proc``, ``sys`` and ``etc``.
        kernel: name, release and version.
        architecture: as ``uname -m`` prints it.
        cpus: numbers of the processors that trials may use.
    """
    cpu = _pairs(text_of(root / "proc/cpuinfo"), ":")
    vulnerabilities = root / "sys/devices/system/cpu/vulnerabilities"
    return TargetDescription(
        kernel=kernel,
        architecture=architecture,
        cpu=cpu.get("model name") or cpu.get("uarch") or cpu.get("Processor") or cpu.get("CPU part", ""),
        cpus=cpus,
        microcode=cpu.get("microcode", ""),
        governor=",".join(sorted({text_of(path) for path in root.glob(_GOVERNORS)} - {""})),
        mitigations="; ".join(f"{path.name}: {text_of(path)}" for path in sorted(vulnerabilities.glob("*"))),
        virtualization=_virtualization(root, cpu),
        memory_bytes=_memory_bytes(root / "proc/meminfo"),
        system=_pairs(text_of(root / "etc/os-release"), "=").get("PRETTY_NAME", "").strip('"'),
    )


def _pairs(text: str, separator: str) -> dict[str, str]:
    """Parse lines of ``key SEPARATOR value``; the first line of each key counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(separator)
        if mark:
            found.setdefault(key.strip(), value.strip())
    return found


def _virtualization(root: Path, cpu: dict[str, str]) -> str:
    kind = text_of(root / "sys/hypervisor/type")
    maker = " ".join(
        filter(None, (text_of(root / f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")))
    )
    flags = cpu.get("flags", "").split()
    if kind or "hypervisor" in flags:
        return kind or maker or "a hypervisor"
    return "none" if flags else ""


def _memory_bytes(path: Path) -> int:
    number, _, unit = _pairs(text_of(path), ":").get("MemTotal", "").partition(" ")
    return int(number) * 1024 if number.isdecimal() and len(number) < 16 and unit == "kB" else 0


_OF_THE_GENERATOR = frozenset({"driver_user_us", "driver_system_us", "driven_ns"})
"""Facts of the process that the agent started as the load generator."""

_SCRATCH_MODE = 0o700
_LONGEST_NAME = 255
_OUTSIDE = (b"$ORIGIN/..", b"${ORIGIN}/..")
_CGROUP = process_file("cgroup")
_STAT = process_file("stat")


def _command_of(request: TrialRequest) -> tuple[str, ...]:
    """Return the command line of a trial, of a server with its load generator's and without the port, which is another one in each run."""
    generator = request.load_generator
    words = (*request.arguments, *(generator.arguments if generator else ()))
    return tuple(word.replace(str(generator.port), "") for word in words) if generator else words


def had_children(stat: str) -> bool:
    """Return whether a process waited for a child, or ignores the end of its children.

    Args:
        stat: content of its /proc/PID/stat (proc(5)): field 11 is the minor faults of children that it waited for, which each child has; 33
            the signals that it ignores.
    """
    fields = stat.rpartition(")")[2].split()
    faults, ignored = (int(fields[number - 3]) if fields[number - 3 : number - 2] else 0 for number in (11, 33))
    return faults > 0 or bool(ignored >> (signal.SIGCHLD - 1) & 1)


class HostTarget(AgentTarget):
    """Runs trials on this machine through an agent process.

    A new agent is started after an error, and after a trial that changed what later trials would inherit from the agent. If none can be
    started, that is no result of a trial: the error is no `TargetError`, and ends the session.

    Args:
        agent: the agent's program; None to build it when it is needed.
        slack_s: time after a trial's time-out until the agent counts as hung.
        stop_timeout_s: limit for the agent to exit.
        driver: the machine of the load generators, which is closed with this target; None for this one.
    """

    name = "host"
    offers = AgentTarget.offers | {"runs_instruments", "limits_memory"}

    def __init__(
        self,
        agent: Path | None = None,
        slack_s: float = SLACK_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        driver: LoadDriver | None = None,
    ) -> None:
        super().__init__(slack_s, stop_timeout_s)
        self.driver = driver
        self._given = agent
        self._agent: Path | None = None
        self._agent_sha256 = ""
        self._runs: collections.Counter[tuple[str, ...]] = collections.Counter()
        """Runs of each command line."""
        self._several = False
        """Whether a run had several processes."""
        self._group: MemoryCgroup | None = None
        """In which the agent is started."""
        self._folder = TemporaryFolder("scratch")
        self._scratch = self._folder.path

    def describe(self) -> TargetDescription:
        """Return this machine's description."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        return describe_host()

    @functools.cached_property
    def _phases(self) -> TemporaryFolder:
        """In which programs find the FIFO for their phases: they may not empty it like the scratch folder."""
        return TemporaryFolder("phases")

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the digests of the agent's sources and of its program, its origin, and the facts of the load generators' machine."""
        agent = describe_agent(self._agent_path(), _compiler())
        return (("agent", agent), *sorted(self._installed.items()), *(self.driver.facts() if self.driver else ()))

    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:  # noqa: ARG002 - its files are those of this machine
        """Return the program's absolute path: nothing is copied."""
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not an executable file.")
        return str(path.absolute())

    def settle(self, path: str) -> SettledFile | None:
        """Write a file back, drop it from the page cache and read it again; see `Target.settle`."""
        return settle(path)

    def copied(self, path: str) -> str:
        """Copy an ELF file into a folder with links to the files beside it; see `Target.copied`.

        A script, and a program that looks for libraries outside of its folder from there, find other files by their path.
        """
        try:
            content = Path(path).read_bytes()
            if not content.startswith(b"\177ELF") or any(origin in content for origin in _OUTSIDE):
                return ""
            folder = self._copies.path
            name = str(len(list(folder.iterdir())))
            # All paths of an experiment have the same length, where that is possible.
            folder /= name.rjust(min(_LONGEST_NAME, len(os.path.dirname(path)) - len(str(folder)) - 1), "0")  # noqa: PTH120
            folder.mkdir()
            copy = folder / Path(path).name
            for beside in Path(path).parent.iterdir():
                if beside.name != copy.name:
                    (folder / beside.name).symlink_to(beside)
            copy.write_bytes(content)
            shutil.copymode(path, copy)
        except OSError as error:
            if remedy(error):
                raise
            return ""
        return str(copy)

    @functools.cached_property
    def _copies(self) -> TemporaryFolder:
        """In the cache, as built programs are, and with a name that is short enough for paths as long as theirs."""
        cache_dir().mkdir(parents=True, exist_ok=True)
        return TemporaryFolder("n", cache_dir())

    def scratch(self) -> str:
        """Return the folder that is emptied before each trial."""
        return str(self._scratch)

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial; see `Target.run`.

        Raises:
            AgentStartError: there is no agent, and none can be started.
            OSError: neither, because a resource of this machine is used up.
            UnavailableError: memory can't be limited on this machine.
        """
        require_default_machine(msgspec.structs.replace(config.without_load(), memory_bytes=0), self.name)
        return self._under_load(request, config, lambda each: self._run_alone(each, config.memory_bytes))

    def _run_alone(self, request: TrialRequest, memory_bytes: int) -> AgentAnswer:
        run: Callable[[TrialRequest], AgentAnswer] = self._run_counted if request.counted else self._run
        if memory_bytes:
            run = functools.partial(self._run_in_group, memory_bytes=memory_bytes)
        if request.load_generator is None or self.driver is None:
            return run(request)
        with ready_listener(self.driver.address, request.load_generator.port):
            answer = run(request)
        # The agent measured ssh in the load generator's place.
        facts = tuple((name, value) for name, value in answer.facts if name not in _OF_THE_GENERATOR)
        return msgspec.structs.replace(answer, facts=facts)

    def _run_counted(self, request: TrialRequest) -> AgentAnswer:
        """Run a trial, with its processes in cgroups of its own where this user may make them and they may count more than wait4(2).

        A cgroup disturbs: its memory is charged, and the kernel removes what is left of it during the next run. So only the first runs of
        each command line have some, and all runs after one with several processes.
        """
        observe = tuple(dict.fromkeys((*request.observe, _STAT)))
        self._runs[command := _command_of(request)] += 1
        counts = self._several or self._runs[command] <= COUNTED_RUNS
        with TreeCgroup(tree_places()[0] if counts else ()) as tree:
            answer = self._run(msgspec.structs.replace(request, observe=observe, cgroups=tree.entrances))
            counted = tree.facts()
        texts, facts = dict(answer.observed), dict((*answer.facts, *counted))
        if _STAT in texts:
            facts[CHILDREN] = int(had_children(texts[_STAT]) or facts.get("server_processes", 1) > 1)
        waited_us = facts.get("user_us", 0) + facts.get("system_us", 0)
        self._several = self._several or bool(facts.get(CHILDREN)) or facts.get(TREE_CPU_US, 0) - waited_us > _TICK_US
        if facts.get(CHILDREN) and not counted:
            facts[UNCOUNTED] = LATER_RUN if tree_places()[0] and not counts else NO_CGROUP
        return msgspec.structs.replace(
            answer,
            facts=tuple(facts.items()),
            observed=tuple(each for each in answer.observed if each[0] in request.observe),
            absent=tuple(each for each in answer.absent if each in request.observe),
        )

    def _run_in_group(self, request: TrialRequest, memory_bytes: int) -> AgentAnswer:
        """Run a trial with an agent of its own in a memory cgroup of its own."""
        self._stop()
        unlimited = memory_bytes >= NO_LIMIT_BYTES
        with (
            MemoryCgroup(0 if unlimited else memory_bytes) as group,
            PhaseWatch(
                self._phases.path / "marks",
                group.path,
                lambda: self._process.pid if self._process else None,
                samples=unlimited,
            ) as watch,
        ):
            self._group = group
            try:
                answer = self._run(
                    msgspec.structs.replace(
                        request,
                        observe=tuple(dict.fromkeys((*request.observe, _CGROUP))),
                        environment=with_phases(request, watch.path),
                    )
                )
            except TargetError as error:
                if group.oom_kills():
                    raise TargetError("OOM kill of the agent, which starts the program") from error
                raise
            finally:
                self._group = None
                self._stop()
            if not all(group.name in value for what, value in answer.observed if what == _CGROUP):
                raise TargetError("The program left the memory cgroup in which it was started.")
            report = group.report()
        return msgspec.structs.replace(answer, machine=report, memory=watch.result())

    def close(self) -> None:
        """End the agent and its trial and the connection to the load generators' machine, and remove the scratch folder."""
        self._stop()
        if self.driver is not None:
            self.driver.close()
        with contextlib.suppress(OSError):
            _empty(self._scratch)
        self._folder.close()
        for name in {"_phases", "_load", "_copies"} & self.__dict__.keys():
            self.__dict__[name].close()

    def load_folder(self) -> str:
        """Return a folder in the cache, which is on a disk more often than the folder for temporary files."""
        return str(self._load.path)

    @functools.cached_property
    def _load(self) -> TemporaryFolder:
        cache_dir().mkdir(parents=True, exist_ok=True)
        return TemporaryFolder("load", cache_dir())

    def _start_load_agent(self, number: int) -> subprocess.Popen[bytes]:  # noqa: ARG002 - they have no names here
        return self._start(None)

    def _clear_load(self) -> None:
        with contextlib.suppress(OSError):
            _empty(self._load.path)

    def _counters(self) -> dict[str, str]:
        found = {}
        for path in COUNTERS:
            with contextlib.suppress(OSError):
                found[path] = Path(path).read_text(errors="replace")
        return found

    def _clear(self) -> None:
        try:
            _empty(self._scratch)
        except OSError as error:
            if remedy(error):
                raise
            hint = f"Remove what is in {self._scratch}."
            raise TargetError(f"The scratch folder can't be emptied: {error}.", hint) from error

    def _start_agent(self) -> subprocess.Popen[bytes]:
        return self._start(self._group)

    def _start(self, group: MemoryCgroup | None) -> subprocess.Popen[bytes]:
        """Start an agent, in a cgroup if there is one."""
        agent = self._agent_path()
        return start_agent(
            group.command(agent, "-") if group else (str(agent), "-"),
            f"The agent {agent}",
            f"Execute it to find the cause: {shlex.quote(str(agent))} - </dev/null",
            {},
        )

    def _agent_path(self) -> Path:
        """Return the agent's program. It is found or compiled if there is none, or if its file has changed."""
        if self._agent is None or not has_sha256(self._agent, self._agent_sha256):
            self._agent = self._given or find_agent(os.uname().machine, _compiler())
            self._agent_sha256 = sha256_of(self._agent)
        return self._agent


def _compiler() -> str:
    return os.environ.get("CC") or "cc"


def _empty(folder: Path) -> None:
    """Remove the files in a folder, even if the trial removed the permission to do so."""
    # To set the mode that it has already would wait for the journal of the file system.
    if stat.S_IMODE(folder.stat().st_mode) != _SCRATCH_MODE:
        folder.chmod(_SCRATCH_MODE)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(Path(entry.path))
                Path(entry.path).rmdir()
            else:
                Path(entry.path).unlink()


def check_nice() -> None:
    """Check that trials can have the nice value 0, also where this process has a larger one.

    Linux gives each thread a nice value of its own, so that a thread can try it.

    Raises:
        UnavailableError: this process may not lower its nice value.
    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    refused: list[OSError] = []

    def lower() -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)
        except OSError as error:
            refused.append(error)

    if nice > 0:
        thread = threading.Thread(target=lower)
        thread.start()
        thread.join()
    if refused:
        raise UnavailableError(
            f"Trials on this machine run with the nice value 0. This process has {nice}, and may not lower it.",
            "Start it without nice, or as root."
            + target_hint("boots", " In a virtual machine the nice value changes no result: {}"),
        )


class HostSpec(FrozenStruct, frozen=True, kw_only=True):
    """This machine as a target.

    Attributes:
        driver: the machine of the load generators, as it follows ``host:``; empty for this one.
    """

    driver: str = ""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target, and the connection to the load generators' machine.

        Raises:
            UnavailableError: as `check_nice`.
            TargetError: the load generators' machine can't be reached.
        """
        check_nice()
        return HostTarget(driver=_driver_kinds()[0].connect(self.driver) if self.driver else None)


@functools.cache
def _driver_kinds() -> tuple[LoadDriverKind, ...]:
    return provided("load-driver", LoadDriverKind)


def _driver(detail: str) -> str:
    if detail and not _driver_kinds():
        raise UserError("The target host takes nothing after its name.", "Write: --target host")
    return _driver_kinds()[0].name_of(detail) if detail else ""


def _parse(detail: str, options: TargetOptions) -> HostSpec:  # noqa: ARG001 - see `TargetKind`
    _driver(detail)
    return HostSpec(driver=detail)


HOST = TargetKind(
    name="host",
    description="this machine, on its own clock",
    opens=HostTarget,
    parse=_parse,
    usage="host",
    more_usages=lambda: tuple((kind.usage, kind.description) for kind in _driver_kinds()),
    does=lambda detail: f"connect by ssh to another machine, and run load generators there: {detail}" if detail else "",
    driver=_driver,
    programs=lambda experiment: agent_programs(),  # noqa: ARG005 - they are the same for each
)
