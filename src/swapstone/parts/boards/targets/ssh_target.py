# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board as a target: another machine, which ssh reaches. See docs/boards.md."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import ProgramFacts, read_facts
from swapstone.core.model import Experiment, FrozenStruct, Observation, ObservationKind, UserError, undone_on_error
from swapstone.core.model.observation import EMULATED
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.agent_build import describe_agent, find_agent
from swapstone.core.targets.agent_target import (
    COUNTERS,
    SLACK_S,
    STOP_TIMEOUT_S,
    AgentTarget,
    digest_of_files,
    start_agent,
)
from swapstone.core.targets.host import describe_machine
from swapstone.core.targets.page_cache import SettledFile
from swapstone.core.targets.target import (
    DEFAULT_MACHINE,
    AgentStartError,
    MachineConfig,
    Target,
    TargetDescription,
    TargetError,
    require_default_machine,
)
from swapstone.core.targets.target_kind import Notify, TargetKind
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.model.ssh_address import parse_ssh_address
from swapstone.parts.boards.targets.board import (
    FOLDER_DIGITS,
    Board,
    BoardFolder,
    check_machine,
    cpus_of,
    former_governors,
    machine_of,
    mirror,
    sensor_facts,
    uname_of,
)
from swapstone.parts.boards.targets.board_scripts import RT_RUNTIME, SENSORS, is_board_path, is_governor
from swapstone.parts.boards.targets.board_swap import BoardSwap
from swapstone.parts.boards.targets.ssh_connection import ConnectionEndedError
from swapstone.parts.build.artifacts.toolchain import native_compiler
from swapstone.parts.vm.factors.swap import SWAP

RECONNECT_S = 300.0
"""A board that is not reachable for so long ends the session. A reboot takes about a minute."""

ATTEMPTS = 3
"""A trial during which the connection ends so often fails."""

_LONGEST_WAIT_S = 10.0
_MOST_SENSORS = 40  # of the agent's 64 observations
_EXAMPLE = "--target ssh:pi@board.example"
_FORM = "names no board: it has the form ssh:[USER@]HOST[:PORT][,folder=/PATH][,governor=NAME]"


class SshTarget(AgentTarget):
    """Runs trials on a board through an agent there, whose pipes are those of an ssh session.

    Args:
        place: the board.
        architecture: that programs are built for, as in recipes; empty for that of the board's own programs.
        slack_s: as of `AgentTarget`.
        stop_timeout_s: as of `AgentTarget`.

    Raises:
        UserError: the board can't be reached, or can't run trials.
    """

    name = "ssh"
    emulated: bool = False
    """Whether the board is known to be an emulator on another machine. Each answer then has the fact ``board_emulated``."""

    offers = frozenset(
        {"runs_programs", "runs_loads", "takes_libraries", "takes_loaders", "probes_architecture", "sets_swap"}
    )

    def __init__(
        self,
        place: BoardFolder,
        architecture: str = "",
        slack_s: float = SLACK_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        super().__init__(slack_s, stop_timeout_s)
        self._boots = 0
        """How often the board was found with another boot identifier."""
        self._silent_s = 0.0
        """How long the ssh server may not answer, besides the usual limit."""
        self._expected: TargetDescription | None = None
        """What the board must be after a reconnection; None for what it was when the target was opened."""
        self._here: dict[str, Path] = {}
        """Files of this machine by their paths there."""
        self.board = Board(place)
        self._swap = BoardSwap(self.board)
        with undone_on_error(self.board.close):
            self._boot = self.board.answer.boot
            if architecture:
                check_machine(self.board.answer, architecture)
            self._architecture = architecture or machine_of(self.board.answer)

    @property
    def architecture(self) -> str:
        """The architecture that programs are built for."""
        return self._architecture

    def try_levels(self, factor: str, levels: Sequence[str]) -> None:
        """Set each level once; the board's own swap is restored at the end of the session. See `Target.try_levels`."""
        if factor == SWAP.name:
            self._swap.check(levels)

    def describe(self) -> TargetDescription:
        """Return the board's description, as it was when the target was opened."""
        return self._description

    @functools.cached_property
    def _description(self) -> TargetDescription:
        return self._describe_now()

    def _describe_now(self) -> TargetDescription:
        answer = self.board.answer
        name, release, version, machine = uname_of(answer)
        with TemporaryFolder("facts") as folder:
            mirror(answer.files, folder)
            found = describe_machine(folder, f"{name} {release} {version}", machine, cpus_of(answer))
        model = answer.file("/proc/device-tree/model")
        shown = {
            field: safe(getattr(found, field))[:2000]
            for field in ("cpu", "microcode", "governor", "mitigations", "virtualization", "system")
        }
        shown["virtualization"] = shown["virtualization"] or safe(model)[:200]
        if self.emulated:
            shown["virtualization"] = EMULATED
        return msgspec.structs.replace(found, **shown)

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the digests of the agent's sources and of its program, its origin, and the board."""
        agent = describe_agent(self._agent, native_compiler(self._architecture))
        former = former_governors(self.board.answer)
        governors = (
            (("governor of the board", f"{self.board.place.governor}, before the session {former}"),) if former else ()
        )
        return (
            ("agent", agent),
            ("board", f"{self.board.place.name}, folder {self.board.folder}"),
            *governors,
            *self._swap.tools(),
            *sorted(self._installed.items()),
        )

    @functools.cached_property
    def _agent(self) -> Path:
        return find_agent(self._architecture, native_compiler(self._architecture))

    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:
        """Copy a program and the files beside it to the board, unless they are there.

        The folder of a program with such files has the digest of all their names and contents.
        """
        if not os.access(path, os.X_OK) or not path.is_file():
            raise UserError(f"{path} is not an executable file.")
        return self._copied({each.name: each for each in (*beside, path)}, path.name) if beside else self._put(path)

    def put_library(self, path: Path, *, keep_path: bool) -> str:
        """Copy a shared object; see `Target.put_library`."""
        if keep_path:
            raise UserError(
                f"{safe(str(path))} can't have its path on the board {self.board.place.name}.",
                "Compare allocators that Swapstone builds: swapstone list levels",
            )
        return self._put(path)

    def install(self, files: Mapping[str, Path], what: str) -> str:
        """Copy files into one folder, and keep their digest for `tools`; see `Target.install`."""
        self._installed[what] = f"SHA-256 {digest_of_files(files)}"
        return self._copied(files, next(iter(files))).rpartition("/")[0]

    def _copied(self, files: Mapping[str, Path], name: str) -> str:
        """Copy files into one folder, and return the path of one of them there."""
        return self._in_folder(files, digest_of_files(files)[:FOLDER_DIGITS])[name]

    def _in_folder(self, files: Mapping[str, Path], folder: str) -> dict[str, str]:
        return {each: self._put(path, each, folder) for each, path in files.items()}

    def copied(self, path: str) -> str:
        """Copy a program, and the files beside it, into another folder there, whose name is as long; see `Target.copied`."""
        folder, _, name = path.rpartition("/")
        beside = {
            each.rpartition("/")[2]: here for each, here in self._here.items() if each.rpartition("/")[0] == folder
        }
        other = 2 * hashlib.sha256(folder.encode()).hexdigest()
        return self._in_folder(beside, other[: len(folder.rpartition("/")[2])]).get(name, "")

    def load_folder(self) -> str:
        """Return the folder beside the scratch folder."""
        return self.board.load_folder

    def _start_load_agent(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(f"-load{number}")

    def _clear_load(self) -> None:
        with contextlib.suppress(UserError):  # the connection may have ended; the next one empties it
            self.board.ask(f"rm -rf {self.load_folder()}; mkdir -p {self.load_folder()}")

    def _counters(self) -> dict[str, str]:
        found = self.board.ask(f"show {' '.join(COUNTERS)}")
        return {path: found.file(path) for path in COUNTERS}

    def _put(self, path: Path, name: str = "", folder: str = "") -> str:
        there = self.board.put(path, name=name, folder=folder)
        self._here[there] = path
        return there

    def real_path(self, path: str) -> str:
        """Return the path: Swapstone makes no links there."""
        return path

    def settle(self, path: str) -> SettledFile | None:
        """Write a file that was copied there once more; see `Board.write_anew`. The board's own files are those of all variants."""
        content = self.board.placed.get(path)
        if content is None:
            return None
        return SettledFile(hashlib.sha256(content).hexdigest(), len(content), self.board.write_anew(path))

    def inspect(self, path: str) -> ProgramFacts | None:
        """Read the file here that was copied there; None for other files of the board."""
        here = self._here.get(path)
        facts = read_facts(here) if here else None
        return msgspec.structs.replace(facts, path=path) if facts else None

    def scratch(self) -> str:
        """Return the folder that is emptied before each trial."""
        return self.board.scratch

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Run one trial; see `Target.run`. If the connection ends, it is made again, and the trial too.

        Facts of the answer are ``reconnects``, ``board_boots``, ``board_emulated``,
        and those of `swapstone.parts.boards.targets.board.sensor_facts`.

        Raises:
            AgentStartError: the board can't be reached any more, or came back as another machine.
        """
        require_default_machine(msgspec.structs.replace(config.without_load(), swap=""), self.name)
        if config.real_time:
            self._tolerate(request.timeout_ms / 1000)
        reconnects, boots = 0, self._boots
        while True:
            try:
                answer = self._under_load(request, config, functools.partial(self._observed, config.swap))
                break
            except (TargetError, ConnectionEndedError) as error:
                if isinstance(error, TargetError) and self._is_connected():
                    raise
                reconnects += 1
                self._reconnect(error)
                if reconnects == ATTEMPTS:
                    rebooted = self._boots - boots
                    times = "once" if rebooted == 1 else f"{rebooted} times"
                    raise TargetError(
                        f"The connection to {self.board.place.name} ended {reconnects} times during this trial"
                        + (f", and the board rebooted {times}." if rebooted else "."),
                        self._next_step(real_time=config.real_time),
                    ) from error
        more = {"reconnects": reconnects, "board_boots": self._boots, "board_emulated": int(self.emulated)}
        facts = (*answer.facts, *((name, value) for name, value in more.items() if value))
        return msgspec.structs.replace(answer, facts=facts)

    def _tolerate(self, silent_s: float) -> None:
        """Connect anew before the first trial during which the ssh server may get no processor time for so long.

        Raises:
            AgentStartError: as of `_reconnect`.
        """
        if silent_s <= self._silent_s:
            return
        self._silent_s = silent_s
        self._stop()
        self.board.connection.tolerate(silent_s)
        try:
            self.board.connect()
        except UserError as error:
            self._reconnect(error)

    def _next_step(self, *, real_time: bool) -> str:
        observe = f"Observe it: ssh {self.board.place.words} dmesg"
        if not real_time:
            return observe
        kept = self.board.answer.file(RT_RUNTIME).strip()
        return (
            "Threads of a real-time priority may leave the ssh server no time. The kernel keeps some for other programs if "
            f"{RT_RUNTIME} is less than sched_rt_period_us; it is {safe_excerpt(kept, 20) or 'unknown'}. Compare a lower priority "
            f"(priority=other,fifo01), or measure on a board with more processors. {observe}"
        )

    def _observed(self, swap: str, request: TrialRequest) -> AgentAnswer:
        """Run a trial, with the sensors' values before it, and at the end of its process; with a swap device, in an agent of its own."""
        return self._swap.run(swap, request, self._sensed, self._stop) if swap else self._sensed(request)

    def _sensed(self, request: TrialRequest) -> AgentAnswer:
        before = self.board.ask("ready; sample")
        if "not-cleared" in before.parts:
            raise TargetError(
                f"The scratch folder on {self.board.place.name} can't be emptied.", f"Look at {self.scratch()} there."
            )
        paths = sorted(path for path in before.files if any(fnmatch.fnmatchcase(path, each) for each in SENSORS))
        added = tuple(Observation(kind=ObservationKind.FILE, name=path) for path in paths[:_MOST_SENSORS])
        added = tuple(each for each in added if each not in request.observe)
        answer = self._run(msgspec.structs.replace(request, observe=(*request.observe, *added)))
        after = {what.name: value.encode(errors="replace") for what, value in answer.observed if what in added}
        facts = {**sensor_facts(before.files, "before"), **sensor_facts(after, "after")}
        return msgspec.structs.replace(
            answer,
            facts=(*answer.facts, *facts.items()),
            observed=tuple(pair for pair in answer.observed if pair[0] not in added),
            absent=tuple(what for what in answer.absent if what not in added),
        )

    def _clear(self) -> None:
        """Do nothing: `_observed` has emptied the scratch folder."""

    def _is_connected(self) -> bool:
        try:
            self.board.ask(":")
        except UserError:
            return False
        return True

    def _reconnect(self, cause: UserError) -> None:
        """Connect again, as soon as the board is reachable.

        Raises:
            AgentStartError: it is not for `RECONNECT_S`, or is another machine now.
        """
        self._stop()
        before = self._expected or self._description
        try:
            self._connect_within(RECONNECT_S)
        except UserError as error:
            raise AgentStartError(
                f"The connection to {self.board.place.name} ended, and can't be made again: {error.message}",
                f"Wait until this works: ssh {self.board.place.words} true.",
            ) from cause
        if self.board.answer.boot != self._boot:
            self._boot = self.board.answer.boot
            self._boots += 1
        now = self._describe_now()
        if (now.kernel, now.architecture, now.cpus) != (before.kernel, before.architecture, before.cpus):
            raise AgentStartError(
                f"{self.board.place.name} came back as another machine: {now.kernel}, before {before.kernel}.",
                "Boot it as before.",
            ) from cause

    def _connect_within(self, limit_s: float, retried: type[UserError] = UserError) -> None:
        """Connect, again and again until it succeeds; see `retry`."""

        def connect() -> None:
            self._before_connecting()
            self.board.connect()

        retry(limit_s, retried, connect)

    def _expect_boot(self) -> None:
        """Expect the board as it is now: its boot and its kernel."""
        self._boot = self.board.answer.boot
        self._expected = self._describe_now()

    def _before_connecting(self) -> None:
        """Do what the board needs before it can be reached again; a board of the user needs nothing."""

    def _start_agent(self) -> subprocess.Popen[bytes]:
        return self._start(group=self._swap.group)

    def _start(self, which: str = "", group: str = "") -> subprocess.Popen[bytes]:
        """Start an agent there."""
        command = self.board.agent_command(self.board.put(self._agent), which, group)
        return start_agent(command, "ssh", f"Run it by hand: {shlex.join(command[:1])} -V")

    def close(self) -> None:
        """End the agent, the connection and the lock, and remove the scratch folder. The copied files stay for the next session."""
        self._stop()
        self.board.close()


def retry(limit_s: float, retried: type[UserError], act: Callable[[], None]) -> None:
    """Act, again and again until it succeeds.

    Args:
        limit_s: limit for all attempts together.
        retried: the errors after which another attempt is made.
        act: raises one of them, or another error, if it does not succeed.

    Raises:
        UserError: it does not within this time; the error is that of the last attempt.
    """
    deadline, wait_s = time.monotonic() + limit_s, 0.5
    while True:
        try:
            return act()
        except retried:
            if time.monotonic() + wait_s > deadline:
                raise
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def recipe_architecture(name: str) -> str:
    """Return the name in recipes of an architecture of the image catalog."""
    return {"arm64": "aarch64", "armhf": "arm"}.get(name, name)


class SshSpec(FrozenStruct, frozen=True, kw_only=True):
    """A board as a target.

    Attributes:
        place: the board.
        architecture: as of `SshTarget`.
    """

    place: BoardFolder
    architecture: str = ""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:  # noqa: ARG002 - boots no machine
        """Connect to the board."""
        return SshTarget(self.place, self.architecture)


def options_of(detail: str) -> dict[str, str]:
    """Return the options of a target, ``,NAME=VALUE`` after its first comma. One that is there twice has no name."""
    pairs = [option.partition("=")[::2] for option in detail.split(",")[1:]]
    named = dict(pairs)
    return named if len(named) == len(pairs) else {"": detail}


def parse_board(detail: str) -> BoardFolder:
    """Parse what follows ``ssh:`` in a target.

    Raises:
        UserError: it has another form.
    """
    found, named = parse_ssh_address(detail.partition(",")[0], _FORM, _EXAMPLE), options_of(detail)
    valid = {"folder": is_board_path, "governor": is_governor}
    if not all(name in valid and valid[name](value) for name, value in named.items()):
        raise UserError(
            f"{safe(f'ssh:{detail}')[:200]!r} {_FORM}.",
            f"For example: {_EXAMPLE},folder=/data/swapstone or {_EXAMPLE},governor=performance",
        )
    return BoardFolder(host=found.host, user=found.user, port=found.port, **named)


SSH = TargetKind(
    name="ssh",
    description="another machine, such as a board, on its own clock",
    opens=SshTarget,
    parse=lambda detail, options: SshSpec(
        place=parse_board(detail), architecture=recipe_architecture(options.architecture)
    ),
    usage="ssh:[USER@]HOST[:PORT]",
    usages=(
        ("ssh:USER@HOST", "another machine, such as a board, on its own clock; it needs sshd and a writable folder"),
        ("ssh:HOST,folder=/PATH", "the same, with another folder for the programs there"),
        (
            "ssh:HOST,governor=performance",
            "the same, with a frequency governor that is set for the session and restored",
        ),
    ),
    has_architectures=True,
    does=lambda detail: f"connect by ssh to {detail}, and run the programs of trials there",
)
