# SPDX-License-Identifier: MIT OR Apache-2.0
"""Snapshots of booted machines, from which trials continue.

A machine is paused before it reads its order, while its first process runs a busy loop (native/guest/init.c). It continues as if it had
not been saved, to the byte, so a snapshot is no input of a run. QEMU can save only machines whose clock may be wrong, so each snapshot
is compared with a cold start (docs/virtual-machine-runs.md, "Saved machines").

`MachineRunner` makes runs on this machine: it boots QEMU, or restores a snapshot where one can be saved.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from swapstone.core.artifacts.cache_folder import take_lock
from swapstone.core.model import UserError
from swapstone.core.model.directories import mark_used, write_whole
from swapstone.core.targets.agent_build import is_whole, sha256_of
from swapstone.core.wire import encode_plan_header
from swapstone.parts.vm.machine import guest, qemu
from swapstone.parts.vm.machine.migration_stream import without_zeros
from swapstone.parts.vm.machine.qemu import Guest, GuestEnd, GuestRun, LimitReached, Limits, Setup, boot
from swapstone.parts.vm.machine.run_cache import digest_of

_LOOK_S = 0.05
_POLL_S = 0.002
_LONGEST_MESSAGE = 16 << 20
_NO_LIMIT = 1 << 50  # bytes a second: QEMU's own limit is made for networks


END = "end of the connection"
"""No event: waiting for it ends when QEMU closes the monitor."""


class _ConnectionClosedError(Exception):
    """The emulator closed the connection."""


class SnapshotError(Exception):
    """The machine was not paused in time, because this host is busy, or a cold start gives another output. Another try may succeed."""


def decode_message(line: bytes) -> dict[str, Any]:
    """Decode a message of QEMU's monitor (QMP).

    Raises:
        LimitReached: it is no JSON object.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise LimitReached(GuestEnd.EMULATOR, f"QEMU's monitor writes {line[:60]!r}, which is no message") from None


def _field(value: object, name: str) -> str:
    return str(value.get(name, "")) if isinstance(value, dict) else ""


class _Monitor:
    """A QMP connection to a running QEMU, over a socket pair."""

    def __init__(self, guest: Guest, connection: socket.socket) -> None:
        self._guest = guest
        self._socket = connection
        self._socket.settimeout(_LOOK_S)
        self._rest = b""
        self._events: list[str] = []
        self._next()  # its greeting
        self.execute("qmp_capabilities")

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                self._guest.check()
                continue
            except ConnectionError as error:
                raise _ConnectionClosedError from error
            if not data:
                raise _ConnectionClosedError
            self._rest += data
            if len(self._rest) > _LONGEST_MESSAGE:
                raise LimitReached(GuestEnd.EMULATOR, "QEMU's monitor writes a line without an end")
        line, _, self._rest = self._rest.partition(b"\n")
        return decode_message(line)

    def execute(self, command: str, fd: int | None = None, **values: object) -> Any:  # noqa: ANN401 - whatever QEMU returns
        """Execute a command.

        Raises:
            LimitReached: QEMU rejects it, or the guest exceeds a limit.
        """
        data = msgspec.json.encode({"execute": command, "arguments": values}) + b"\n"
        try:
            if fd is None:
                self._socket.sendall(data)
            else:
                socket.send_fds(self._socket, [data], [fd])
        except ConnectionError as error:
            raise _ConnectionClosedError from error
        while True:
            message = self._next()
            if "event" in message:
                self._events.append(str(message["event"]))
            elif "error" in message:
                raise LimitReached(GuestEnd.EMULATOR, f"QEMU rejects {command}: {_field(message['error'], 'desc')}")
            else:
                return message.get("return")

    def wait_for(self, event: str) -> None:
        """Wait for an event."""
        while event not in self._events:
            self._events.append(str(self._next().get("event", "")))
        self._events.clear()

    def wait_while(self, command: str, states: frozenset[str]) -> str:
        """Query a status until it is none of `states`; return it."""
        while (status := _field(self.execute(command), "status")) in states:
            self._guest.check()
            time.sleep(_POLL_S)
        return status


def save(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Boot a machine and save it where it pauses.

    Args:
        setup: inputs; the order is not read.
        limits: of the run.
        state: the file to write.

    Returns:
        None, or the run if the machine ended.

    Raises:
        SnapshotError: it continued before it was paused.
    """
    ours, its = socket.socketpair()
    watching = ("-action", "watchdog=pause", *_qmp(its))
    with (
        its,
        ours,
        state.open("wb") as handle,
        Guest(setup, limits, watching, [its.fileno()], saving=True) as guest,
    ):
        its.close()
        try:
            monitor = _Monitor(guest, ours)
            monitor.wait_for("STOP")
            if guest.output_bytes():
                raise SnapshotError
            _save_into(monitor, handle.fileno())
        except LimitReached as stopped:
            return guest.ended(stopped)
        except _ConnectionClosedError:
            run = guest.wait()
            if run.end is GuestEnd.FINISHED:
                raise SnapshotError from None
            return run
    with contextlib.suppress(LookupError, ValueError):  # what another QEMU writes stays as it is
        state.write_bytes(b"".join(without_zeros(state.read_bytes())))
    return None


def _save_into(monitor: _Monitor, fd: int) -> None:
    monitor.execute("getfd", fd, fdname="state")
    monitor.execute("migrate-set-parameters", **{"max-bandwidth": _NO_LIMIT})
    monitor.execute("migrate", uri="fd:state")
    status = monitor.wait_while("query-migrate", frozenset({"", "setup", "active", "device", "none"}))
    if status != "completed":
        raise LimitReached(GuestEnd.EMULATOR, f"QEMU could not save it: {status}")
    with contextlib.suppress(_ConnectionClosedError):
        monitor.execute("quit")


def restore(setup: Setup, limits: Limits, state: Path) -> GuestRun:
    """Restore a machine with an order, and wait for its end.

    Args:
        setup: as for `save`, except for the order.
        limits: of the run.
        state: the file that `save` wrote.
    """
    ours, its = socket.socketpair()
    with its, ours, state.open("rb") as handle:
        fds = [its.fileno(), handle.fileno()]
        watching = ("-action", "watchdog=none", "-S", "-incoming", f"fd:{handle.fileno()}", *_qmp(its))
        with Guest(setup, limits, watching, fds) as guest:
            its.close()
            try:
                monitor = _Monitor(guest, ours)
                monitor.wait_while("query-status", frozenset({"inmigrate"}))
                monitor.execute("cont")
                monitor.wait_for(END)
            except LimitReached as stopped:
                return guest.ended(stopped)
            except _ConnectionClosedError:
                pass  # it has ended: the result has its exit status
            return guest.wait()


def compare(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Compare a restored machine with a cold start: both run the same order.

    Args:
        setup: as for `save`, with an order in which the guest reports its clock.
        limits: of each run.
        state: the file that `save` wrote.

    Returns:
        None, or the run of the cold start if it failed.

    Raises:
        SnapshotError: their outputs differ.
    """
    cold = boot(setup, limits)
    if cold.end is not GuestEnd.FINISHED:
        return cold
    saved = restore(setup, limits, state)  # its console lacks the messages of the boot
    if (saved.end, saved.output) != (cold.end, cold.output):
        raise SnapshotError
    return None


def _qmp(connection: socket.socket) -> tuple[str, ...]:
    return ("-chardev", f"socket,id=monitor,fd={connection.fileno()}", "-mon", "chardev=monitor,mode=control")


SLACK_MS = 60_000
"""Added to a trial's time-out, in guest time: the agent waits up to 20 s until killed processes have ended."""

QUIT = b"quit\n"
"""The end of every plan."""

_TRIES = 3


def save_checked(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Save a snapshot that passes the comparison with a cold start; return the failed run if there is none.

    Raises:
        SnapshotError: the last try failed too.
    """
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES - 1):
            with contextlib.suppress(SnapshotError):
                return _saved_once(setup, limits, state)
        return _saved_once(setup, limits, state)
    except OSError as error:
        raise not_written(state.parent, error) from error


def not_written(folder: Path, error: OSError) -> UserError:
    """Return the error for a folder to which a snapshot can't be written."""
    return UserError(
        f"A snapshot can't be written to {folder}: {error.strerror}.",
        "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
    )


def _saved_once(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    draft = state.with_name(f"{state.name}.{os.getpid()}.part")
    order = guest.encode_order(encode_plan_header() + QUIT, replicate=0, limit_ms=SLACK_MS)
    try:
        failed = save(setup, limits, draft)
        failed = failed or compare(dataclasses.replace(setup, order=order), limits, draft)
        if failed is None:
            draft.chmod(0o444)
            draft.replace(state)
    finally:
        draft.unlink(missing_ok=True)
    if failed is None:
        write_whole(state.with_name(f"{state.name}.sha256"), sha256_of(state).encode())
    return failed


_RUN_LOOK_S = 0.1
_OF_A_TRIAL = frozenset({"order", "counts"})
"""Inputs of a run that its snapshot does not have."""


class MachineRunner:
    """Makes runs; several threads may call it at once.

    Args:
        folder: of the snapshots.
        limits: of each machine.
        snapshots: whether machines are restored from a snapshot, where one can be saved.
    """

    def __init__(self, folder: Path, limits: Limits, *, snapshots: bool) -> None:
        self._folder = folder
        self._limits = limits
        self._snapshots = snapshots
        self._saved: set[Path] = set()
        self._unsaved: set[Path] = set()
        self._saving: collections.defaultdict[Path, threading.Lock] = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def make(self, setup: Setup, inputs: Mapping[str, bytes]) -> GuestRun:
        """Make a run, however it ends.

        Args:
            setup: emulator, machine, files and order.
            inputs: of the same run, by `swapstone.parts.vm.machine.run_cache.run_inputs`.

        Raises:
            UserError: a snapshot can't be written.
        """
        machine, limits = setup.machine, self._limits
        if not (self._snapshots and machine.is_saved):
            return qemu.boot(setup, limits)
        later = {*_OF_A_TRIAL, *(("received",) if machine.receives else ())}
        state = self._folder / digest_of({name: value for name, value in inputs.items() if name not in later})
        with self._lock:
            saving = self._saving[state]
        with saving:  # several trials may need the same snapshot: one of them saves it
            if state not in self._unsaved and not self._is_whole(state) and (failed := self._save(setup, state)):
                return failed
            if state in self._unsaved:
                return qemu.boot(setup, limits)
        return restore(setup, limits, state)

    def _save(self, setup: Setup, state: Path) -> GuestRun | None:
        """Save a snapshot, unless another process of this machine does it meanwhile; return the run if it failed."""
        try:
            locks = state.parent.with_name("snapshot-locks")
            locks.mkdir(parents=True, exist_ok=True)
            lock = os.open(locks / state.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise not_written(state.parent, error) from error
        try:
            while not take_lock(lock, locks / state.name, wait=False):
                if self._limits.stop.wait(_RUN_LOOK_S):
                    return GuestRun(end=GuestEnd.STOPPED, reason="it was stopped")
            if self._is_whole(state):
                return None
            failed = save_checked(dataclasses.replace(setup, plugin=(), points=b""), self._limits, state)
        except SnapshotError:  # the run is the same without a snapshot
            self._unsaved.add(state)
            return None
        finally:
            os.close(lock)
        if failed is None:
            self._saved.add(state)
        return failed

    def _is_whole(self, state: Path) -> bool:
        """Return whether a snapshot exists and matches its digest; checked once."""
        if state in self._saved:
            return state.exists()
        if whole := is_whole(state):
            mark_used(state)
            self._saved.add(state)
        return whole
