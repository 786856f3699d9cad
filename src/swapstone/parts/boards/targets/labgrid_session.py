# SPDX-License-Identifier: MIT OR Apache-2.0
"""A place of a labgrid lab, held while it is used: the client of `swapstone.parts.boards.targets.labgrid_worker`."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from swapstone.core.artifacts.cache_folder import take_lock
from swapstone.core.model import FrozenStruct, UnavailableError, UserError, undone_on_error
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.regular_file import tail_of
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder

VERSION = ">=26,<27"
"""Of labgrid: its protocol between client and coordinator may change with the major version."""

BOOT_S = 900.0
"""Limit for a transition of a strategy, which may write a whole root file system to a card."""

RELEASE_S = 30.0
"""Limit for the release of a place."""

_WORKER = Path(__file__).with_name("labgrid_worker.py")  # run as a file: it needs no other module of Swapstone
_MOST_ANSWER_BYTES = 1 << 20
_TAIL_BYTES = 4096


class LabPlace(FrozenStruct, frozen=True, kw_only=True):
    """A place of a lab, as a user names it.

    Attributes:
        place: name of a RemotePlace in the environment, or of a target there that needs no coordinator.
        environment: absolute path of labgrid's environment.
        state: of the strategy, in which the board is measured.
    """

    place: str
    environment: str
    state: str = "shell"


class LabBoard(FrozenStruct, frozen=True, kw_only=True):
    """What labgrid reports of a board.

    Attributes:
        address: host or address of its ssh server.
        port: of it; 0 for ssh's choice.
        user: to log in; empty for ssh's choice.
        source: where the address comes from.
        config: path of an ssh configuration; empty for the user's.
        strategy: class of the strategy; empty if there is none.
        state: of the strategy; empty if there is none.
        drivers: classes of the drivers.
        resources: classes of the resources.
        coordinator: its address; empty if the environment needs none.
        image: path of the kernel's image in the environment; empty if it names none.
        root_image: path of the root file system's image in the environment; empty if it names none.
        place: name of the place.
        role: name of the target in the environment.
        acquired: whether this session acquired the place.
        owner: who has acquired it, as HOST/USER; empty without a coordinator.
        emulated: whether a QEMUDriver without KVM runs the board.
        kernels: paths of the kernels that `LabSession` was given.
        roots: paths of the root file systems that it was given.
    """

    address: str
    port: int
    user: str
    source: str
    config: str
    strategy: str
    state: str
    drivers: tuple[str, ...]
    resources: tuple[str, ...]
    coordinator: str
    image: str
    root_image: str
    place: str = ""
    role: str = ""
    acquired: bool = False
    owner: str = ""
    emulated: bool = False
    kernels: Mapping[str, str] = {}
    roots: Mapping[str, str] = {}


class LabSession:
    """A place that is held: acquired at the start, and released by `close`, at the end of this program, and after its death by SIGKILL.

    Args:
        place: which.
        kernels: names of images of the environment, whose paths `LabBoard.kernels` has. They must be there before the place is acquired.
        roots: the same of root file systems.

    Attributes:
        board: what labgrid reported last.

    Raises:
        UnavailableError: labgrid is not installed.
        UserError: the place can't be had, or its board does not boot; the hint has the next step.
    """

    def __init__(self, place: LabPlace, kernels: Sequence[str] = (), roots: Sequence[str] = ()) -> None:
        require_labgrid()
        self.place = place
        self._lock = _locked(place)
        self._busy = False
        self._temporary = TemporaryFolder("labgrid")
        self._log = self._temporary.path / "log"
        self._process: subprocess.Popen[bytes] | None = None
        with undone_on_error(self.close):
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    (sys.executable, "-P", str(_WORKER)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            request: dict[str, object] = {
                "place": place.place,
                "environment": place.environment,
                "state": place.state,
                "kernels": list(kernels),
                "roots": list(roots),
            }
            self.board = self._ask("open", request)

    def boot(self, kernel: str = "", root: str = "") -> None:
        """Switch the board off, and boot it.

        Args:
            kernel: path of the image that replaces the one of the environment; empty for the one that was booted last.
            root: the same of the root file system.

        Raises:
            UserError: it does not boot.
        """
        self.board = self._ask("boot", {"kernel": kernel, "root": root})

    def close(self) -> None:
        """Release the place. May be called twice.

        Raises:
            UserError: that did not end in time.
        """
        process, self._process = self._process, None
        ended = True
        if process is not None:
            if self._busy:
                process.terminate()  # in the middle of a boot, after Ctrl-C
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            ended = _ends(process)
            process.stdout.close()
        self._temporary.close()
        self._lock.close()
        if not ended:
            raise UserError(
                f"The place {self.place.place} was perhaps not released: labgrid did not end well within {RELEASE_S:g} s.",
                f"Release it: labgrid-client -p {self.place.place} release",
            )

    def _ask(self, command: str, request: Mapping[str, object]) -> LabBoard:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        self._busy = True
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode({"command": command, **request}) + b"\n")
            process.stdin.flush()
        line = _line(process.stdout, time.monotonic() + BOOT_S)
        if line is None:
            raise UserError(
                f"labgrid did not bring {self.place.place} into the state {self.place.state} within {BOOT_S:g} s.",
                f"Try it by hand: labgrid-client -c {self.place.environment} -s {self.place.state} console",
            )
        self._busy = False
        if not line.endswith(b"\n"):
            last = tail_of(self._log, _TAIL_BYTES).strip().splitlines()[-4:]  # of what labgrid and its drivers printed
            raise UserError(
                f"labgrid ended: {safe_excerpt(' / '.join(last), 400) or 'no message'}",
                f"Try the environment by hand: labgrid-client -c {self.place.environment} places",
            )
        return decode_answer(line)


def decode_answer(line: bytes) -> LabBoard:
    """Decode an answer of the process in which labgrid runs.

    Raises:
        UserError: it is the description of an error, or no answer.
    """
    try:
        found = msgspec.json.decode(line, type=dict[str, object])
        if "error" not in found:
            return msgspec.convert(found, LabBoard)
        problem = msgspec.convert(found, dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"labgrid's answer is invalid: {safe_excerpt(str(error), 200)}") from error
    raise UserError(safe(problem["error"]), safe(problem.get("hint", "")))


def require_labgrid() -> None:
    """Check that labgrid is installed.

    Raises:
        UnavailableError: it is not; the hint has the command.
    """
    if importlib.util.find_spec("labgrid") is None:
        raise UnavailableError(
            "The target labgrid needs the Python package labgrid, an extra of Swapstone.",
            f"Install it: {sys.executable} -m pip install 'labgrid{VERSION}' (of a package: pip install 'swapstone[labgrid]').",
        )


def _locked(place: LabPlace) -> IO[bytes]:
    """Take the lock of a place, because a coordinator regards all sessions of one user on one machine as one.

    Raises:
        UserError: another session of this user has it.
    """
    folder = cache_dir() / "labgrid"
    folder.mkdir(parents=True, exist_ok=True)
    named = "\0".join((os.environ.get("LG_COORDINATOR", ""), place.environment, place.place))
    path = folder / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.lock"
    handle = path.open("ab")
    if take_lock(handle, path, wait=False):
        return handle
    handle.close()
    raise UserError(
        f"The place {place.place} is used by another session of yours on this machine.", "Wait until it ends."
    )


def _line(stream: IO[bytes], until_s: float) -> bytes | None:
    """Return the next line; without its end if the stream ended, None if the time did."""
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not found.endswith(b"\n") and len(found) < _MOST_ANSWER_BYTES:
            if not selector.select(max(0.0, until_s - time.monotonic())):
                return None
            if not (data := os.read(stream.fileno(), 1 << 16)):
                break
            found += data
    return found


def _ends(process: subprocess.Popen[bytes]) -> bool:
    """Wait until the worker has released its place; return whether it did."""
    for end in (process.terminate, process.kill):
        try:
            return process.wait(RELEASE_S) == 0
        except subprocess.TimeoutExpired:
            end()
    process.wait()
    return False
