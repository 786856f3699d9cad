# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cgroups for one trial on this machine, version 1 or 2 (cgroups(7)): one that limits memory, or those that count a run's process tree.

Its name is that of a temporary folder (`swapstone.core.model.temporary_folder`), and the process that made it holds a lock on it. Groups
that killed processes left are removed when the first group of a process is made, with what still runs in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import UnavailableError
from swapstone.core.model.closing import Closing
from swapstone.core.model.regular_file import text_of
from swapstone.core.model.temporary_folder import is_left_over, name_of_this_process
from swapstone.core.targets.hints import target_hint

PURPOSE, TREE_PURPOSE = "memory", "run"
"""In the names of groups."""

OOM_KILLS, PEAK_BYTES = "cgroup_oom_kills", "cgroup_peak_bytes"
"""Names of `MemoryCgroup.report`."""

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMOVE_S, _REMOVE_POLL_S = 5.0, 0.02
"""Processes that were killed leave a group only when they have ended."""

_MOST_GROUPS = 50_000
"""So many groups are searched for left ones."""

CGROUP_HINT = (
    "As root it needs a memory controller; as another user a group of your own: "
    "systemd-run --user --scope -p Delegate=yes COMMAND."
)


def _hint() -> str:
    return CGROUP_HINT + target_hint("boots", " In a virtual machine it needs neither: {}")


class _Files(msgspec.Struct, frozen=True):
    """The files of a memory controller.

    Attributes:
        limit, swap: of the limits; `swap` may be missing in a group.
        swap_is_sum: whether the limit `swap` counts memory and swap together; else it counts swap alone.
        unlimited: text for no limit.
        events: has a line ``oom_kill N``.
        peak: highest use; may be missing in a group.
    """

    limit: str
    swap: str
    swap_is_sum: bool
    unlimited: str
    events: str
    peak: str


_VERSION_1 = _Files(
    limit="memory.limit_in_bytes",
    swap="memory.memsw.limit_in_bytes",
    swap_is_sum=True,
    unlimited="-1",
    events="memory.oom_control",
    peak="memory.max_usage_in_bytes",
)
_VERSION_2 = _Files(
    limit="memory.max",
    swap="memory.swap.max",
    swap_is_sum=False,
    unlimited="max",
    events="memory.events",
    peak="memory.peak",
)


class Place(msgspec.Struct, frozen=True):
    """A group in which groups with a memory limit can be made.

    Attributes:
        path: its folder.
        top: where the controller is mounted.
        version: of cgroups, 1 or 2.
    """

    path: Path
    top: Path
    version: int

    @property
    def files(self) -> _Files:
        """The names of the controller's files."""
        return _VERSION_1 if self.version == 1 else _VERSION_2


class _Group(Closing):
    """A new cgroup with a lock on it, as a context manager. Leaving it kills what runs in the group, and removes it.

    Raises:
        OSError: it can't be made.
    """

    def __init__(self, place: Path, purpose: str = PURPOSE) -> None:
        self.path = place / f"{name_of_this_process(purpose)}{secrets.token_hex(4)}"
        self.path.mkdir()
        self._lock = os.open(self.path, _FLAGS)
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Kill what runs in the group, and remove it. May be called twice."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


class MemoryCgroup(_Group):
    """A memory cgroup, as a context manager. Leaving it kills what runs in the group, and removes it.

    Args:
        limit_bytes: of its memory, without swap; 0 for none.
        place: where to make it; None for the first place of this machine that works.

    Raises:
        UnavailableError: this machine has no memory controller that this user may use; the message gives the reason.
    """

    def __init__(self, limit_bytes: int = 0, place: Place | None = None) -> None:
        self._place = place or usable_place()
        super().__init__(self._place.path)
        try:
            self._limit(limit_bytes)
        except OSError as error:
            self.close()
            raise UnavailableError(f"{self.path} takes no memory limit: {error.strerror}.", _hint()) from error

    def _limit(self, limit_bytes: int) -> None:
        files = self._place.files
        text = str(limit_bytes) if limit_bytes else files.unlimited
        (self.path / files.limit).write_text(text)
        if (swap := self.path / files.swap).exists():
            swap.write_text(text if files.swap_is_sum else "0")
        elif self._place.version == 1:
            (self.path / "memory.swappiness").write_text("0")

    @property
    def name(self) -> str:
        """The name of its folder, which /proc/PID/cgroup of its processes contains."""
        return self.path.name

    def command(self, program: Path, *arguments: str) -> list[str]:
        """Return the command that runs a program in the group: a shell enters it, and executes the program."""
        return [
            "/bin/sh",
            "-c",
            'echo $$ >"$0/cgroup.procs" && exec "$@"',
            str(self.path),
            str(program),
            *arguments,
        ]

    def oom_kills(self) -> int:
        """Return how many of its processes the kernel has killed because the limit was reached."""
        found = re.search(r"^oom_kill ([0-9]{1,9})$", text_of(self.path / self._place.files.events), re.MULTILINE)
        return int(found[1]) if found else 0

    def report(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (name, number): the kills, and the highest use in bytes where the kernel has it."""
        peak = text_of(self.path / self._place.files.peak)
        return (
            (OOM_KILLS, str(self.oom_kills())),
            *(((PEAK_BYTES, peak),) if re.fullmatch("[0-9]{1,18}", peak) else ()),
        )


CHILDREN, TREE_CPU_US, TREE_MEMORY_BYTES = "children", "tree_cpu_us", "tree_memory_bytes"
"""Facts of a run: whether its program had children, and what `TreeCgroup` counted."""

_KEEPS_ALL = {"", "max", "max 100000"}
_LIMITS = ("cpu.max", "cpuset.cpus", "memory.max", "memory.high", "pids.max")


class TreeCgroup(Closing):
    """The cgroups of one run's processes, as a context manager. Leaving it kills what runs in them, and removes them.

    They count every process that the program starts, also those that are not waited for: CPU time (``cpuacct.usage`` or ``usage_usec`` of
    ``cpu.stat``), and the highest memory that was charged at one time (``memory.max_usage_in_bytes`` or ``memory.peak``). Charged are
    anonymous and shared memory, memory of the kernel, and pages of files that no other cgroup had read before. The kernel charges in
    steps of up to 64 pages for each processor.

    Args:
        places: where to make them: of version 2 one, of version 1 the groups of ``memory`` and of ``cpuacct``. If one can't be made, there
            is none, and nothing is counted.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._groups: list[_Group] = []
        try:
            self._groups += (_Group(place.path, TREE_PURPOSE) for place in places)
        except OSError:
            self.close()
            self._places = ()

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files to which a process writes 0 to enter. The file `tasks` moves one thread, without waiting for all processes to pause."""
        pairs = zip(self._groups, self._places, strict=True)
        return tuple(str(group.path / ("tasks" if place.version == 1 else "cgroup.procs")) for group, place in pairs)

    def facts(self) -> tuple[tuple[str, int], ...]:
        """Return pairs (name, number) of what was counted; what can't be read is left out."""
        found: dict[str, int] = {}
        for path, place in zip((group.path for group in self._groups), self._places, strict=True):
            if usage := re.search(r"^usage_usec ([0-9]{1,18})$", text_of(path / "cpu.stat"), re.MULTILINE):
                found[TREE_CPU_US] = int(usage[1])
            if re.fullmatch("[0-9]{1,18}", nanoseconds := text_of(path / "cpuacct.usage")):
                found[TREE_CPU_US] = int(nanoseconds) // 1000
            if re.fullmatch("[0-9]{1,18}", peak := text_of(path / place.files.peak)):
                found[TREE_MEMORY_BYTES] = int(peak)
        return tuple(found.items())

    def close(self) -> None:
        """Kill what runs in them, and remove them. May be called twice."""
        while self._groups:
            self._groups.pop().close()


@functools.cache
def tree_places() -> tuple[tuple[Place, ...], str]:
    """Return where the groups of `TreeCgroup` can be made, or why they can't, after those that killed processes left are removed.

    The new group is in the one of this process, so that the program keeps its limits. Of version 2, where a group that has processes can't
    contain another one with a memory controller, it may be beside it if the groups that are left have no limits.
    """
    mounts, own = text_of(Path("/proc/self/mountinfo")), text_of(Path("/proc/self/cgroup"))
    try:
        memory = usable_place()
    except UnavailableError as error:
        return (), error.message
    candidates = [place for place in find_places(mounts, own) if place.top == memory.top]
    left = candidates[: candidates.index(memory)]
    processors = find_places(mounts, own, "cpuacct")[:1] if memory.version == 1 else ()
    for place in processors:
        remove_left_groups(place.top)
    places = (memory, *processors)
    limits = [each.path / name for each in left for name in _LIMITS if text_of(each.path / name) not in _KEEPS_ALL]
    if memory.version == 1 and not processors:
        trouble = "No cpuacct controller is mounted."
    elif limits or (left and memory.version == 1):
        trouble = f"A program in a new group of {memory.path} would leave {left[0].path} and its limits."
    elif processors and (reason := _trouble(processors[0], "cpuacct.usage")):
        trouble = f"No group counts CPU time: {reason}."
    else:
        trouble = "" if _can_be_entered(places) else f"No process can move into a new group in {memory.path}."
    return () if trouble else places, trouble


def _can_be_entered(places: Sequence[Place]) -> bool:
    """Return whether a process may move into groups in these places: it needs write access to what contains both groups, too."""
    with TreeCgroup(places) as tree:
        script = 'for file; do echo 0 >"$file" || exit 1; done'
        command = ["/bin/sh", "-c", script, "sh", *tree.entrances]
        return bool(tree.entrances) and subprocess.run(command, capture_output=True, check=False).returncode == 0


@functools.cache
def usable_place() -> Place:
    """Return the first place of this machine in which a group can be made, after the groups that killed processes left are removed.

    Raises:
        UnavailableError: there is none; the message gives the reason for each place.
    """
    places = find_places(text_of(Path("/proc/self/mountinfo")), text_of(Path("/proc/self/cgroup")))
    troubles = []
    for place in places:
        remove_left_groups(place.top)
        if trouble := _trouble(place):
            troubles.append(trouble)
        else:
            return place
    reason = "; ".join(dict.fromkeys(troubles)) or "no memory controller is mounted"
    raise UnavailableError(f"The memory of a program can't be limited on this machine: {reason}.", _hint())


def find_places(mounts: str, own: str, controller: str = "memory") -> tuple[Place, ...]:
    """Return the groups that may contain a new one, the nearest to this process first.

    Args:
        mounts: content of /proc/self/mountinfo (proc(5)).
        own: content of /proc/self/cgroup.
        controller: of version 1.
    """
    found = []
    for line in mounts.splitlines():
        first, _, last = line.partition(" - ")
        fields, (kind, _, options) = first.split(" "), (*last.split(" "), "", "", "")[:3]
        if len(fields) < 5 or not (kind == "cgroup2" or (kind == "cgroup" and controller in options.split(","))):
            continue
        root, top = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text) for text in fields[3:5])
        version = 2 if kind == "cgroup2" else 1
        path = _own_path(own, version, controller).removeprefix(root if root != "/" else "")
        here = Path(os.path.normpath(f"{top}/{path}"))
        inside = [each for each in [here, *here.parents] if each == Path(top) or Path(top) in each.parents]
        found += [Place(each, Path(top), version) for each in inside or [Path(top)]]
    return tuple(sorted(found, key=lambda place: place.version))


def _own_path(own: str, version: int, controller: str) -> str:
    for line in own.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" and not controllers) if version == 2 else controller in controllers.split(","):
            return path
    return "/"


def remove_left_groups(top: Path) -> None:
    """Remove the groups of processes that are gone, and kill what runs in them.

    Args:
        top: of the hierarchy that is searched.
    """
    for path in _left_groups(top):
        with contextlib.suppress(OSError):
            lock = os.open(path, _FLAGS)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of another PID namespace: its process may live
                _remove(path)
            finally:
                os.close(lock)


def _left_groups(top: Path) -> Sequence[Path]:
    """Return the groups of processes that are gone, below a folder, without those inside them."""
    found = []
    for here, names, _ in itertools.islice(os.walk(top), _MOST_GROUPS):
        found += [Path(here) / name for name in names if is_left_over(name)]
        names[:] = [name for name in names if not is_left_over(name)]
    return found


def _trouble(place: Place, file: str = "") -> str:
    """Return why no group can be made in a place; empty if one can."""
    if place.version == 2 and "memory" not in text_of(place.path / "cgroup.subtree_control").split():
        control = place.path / "cgroup.subtree_control"
        has_it = "memory" in text_of(place.path / "cgroup.controllers").split()
        return f"{place.path} gives no memory controller to its groups{f' (echo +memory >{control})' if has_it else ''}"
    try:
        with _Group(place.path) as group:
            if file:
                (group.path / file).read_text()
            else:
                (group.path / place.files.limit).write_text(place.files.unlimited)
            if not os.access(group.path / "cgroup.procs", os.W_OK):
                return f"{group.path} takes no processes"
    except OSError as error:
        return f"{place.path}: {error.strerror}"
    return ""


def _remove(path: Path) -> None:
    """Kill what runs in a group and in groups below it, and remove them, if that is possible in `_REMOVE_S`."""
    until = time.monotonic() + _REMOVE_S
    while True:
        for below in list(path.glob("*/")):
            _remove(below)
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > until:
                return
        else:
            return
        with contextlib.suppress(OSError):  # since Linux 5.14, version 2: also what forks meanwhile
            (path / "cgroup.kill").write_text("1")
        for word in text_of(path / "cgroup.procs").split():
            if re.fullmatch("[1-9][0-9]{0,9}", word):
                with contextlib.suppress(OSError):
                    os.kill(int(word), signal.SIGKILL)
        time.sleep(_REMOVE_POLL_S)
