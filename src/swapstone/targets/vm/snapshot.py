"""A machine that was started once, saved, and goes on as often as it is wanted.

It is stopped before it reads its order, anywhere in a stretch in which its first process is busy (native/guest/init.c). What it does
afterwards is what it would have done without having been saved, to the byte, so a snapshot is no part of what a run is a function of.
QEMU can't save a machine whose clock is exact in any event, so one that was saved has to prove itself (docs/virtual-machines.md,
"Snapshots").
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from swapstone.targets.vm.qemu import Guest, GuestEnd, GuestRun, Limits, Setup, Stopped, boot

_LOOK_S = 0.05
_POLL_S = 0.002
_NO_LIMIT = 1 << 50  # bytes a second: QEMU's own limit is made for networks


class _GoneError(Exception):
    """The emulator speaks no more."""


class TooLateError(Exception):
    """The emulator was too slow to stop a machine in time: this host is very busy. It can be tried again."""


class UnlikeError(Exception):
    """A saved machine does not go on as one does that was not saved."""


class _Monitor:
    """What is said to a running QEMU: its QMP, over a pair of sockets."""

    def __init__(self, guest: Guest, connection: socket.socket) -> None:
        self._guest = guest
        self._socket = connection
        self._socket.settimeout(_LOOK_S)
        self._rest = b""
        self._events: list[str] = []
        self._next()  # its greeting
        self.ask("qmp_capabilities")

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                self._guest.check()
                continue
            except ConnectionError as error:
                raise _GoneError from error
            if not data:
                raise _GoneError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, command: str, fd: int | None = None, **values: object) -> Any:  # noqa: ANN401 - whatever QEMU returns
        """Have a command carried out.

        Raises:
            Stopped: QEMU refuses it, or the guest went beyond a limit.
        """
        words = json.dumps({"execute": command, "arguments": values}).encode() + b"\n"
        try:
            if fd is None:
                self._socket.sendall(words)
            else:
                socket.send_fds(self._socket, [words], [fd])
        except ConnectionError as error:
            raise _GoneError from error
        while True:
            message = self._next()
            if "event" in message:
                self._events.append(message["event"])
            elif "error" in message:
                raise Stopped(GuestEnd.EMULATOR, f"QEMU refuses {command}: {message['error'].get('desc', '')}")
            else:
                return message["return"]

    def wait_for(self, event: str) -> None:
        """Wait until something has happened."""
        while event not in self._events:
            message = self._next()
            self._events.append(message.get("event", ""))
        self._events.clear()

    def wait_while(self, command: str, states: frozenset[str]) -> str:
        """Ask for a status until it is another; return it."""
        while (status := str(self.ask(command).get("status", ""))) in states:
            self._guest.check()
            time.sleep(_POLL_S)
        return status


def save(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Start a machine, and save it where it stops itself.

    Args:
        setup: what to start; its order is not read.
        limits: what ends it.
        state: the file to write; another name is written first, so that it is whole or not there.

    Returns:
        None, or what came of the machine instead.

    Raises:
        TooLateError: it went on before it was stopped.
    """
    draft = state.with_name(f"{state.name}.{os.getpid()}.part")
    ours, its = socket.socketpair()
    watching = ("-action", "watchdog=pause", *_qmp(its))
    try:
        with ours, draft.open("wb") as handle, Guest(setup, limits, watching, [its.fileno()], saving=True) as guest:
            its.close()
            try:
                monitor = _Monitor(guest, ours)
                monitor.wait_for("STOP")
                if guest.has_spoken():
                    raise TooLateError
                _save_into(monitor, handle.fileno())
            except Stopped as stopped:
                return guest.ended(stopped)
            except _GoneError:
                run = guest.wait()
                if run.how is GuestEnd.FINISHED:
                    raise TooLateError from None
                return run
        draft.replace(state)
    finally:
        its.close()
        draft.unlink(missing_ok=True)
    return None


def _save_into(monitor: _Monitor, fd: int) -> None:
    monitor.ask("getfd", fd, fdname="state")
    monitor.ask("migrate-set-parameters", **{"max-bandwidth": _NO_LIMIT})
    monitor.ask("migrate", uri="fd:state")
    status = monitor.wait_while("query-migrate", frozenset({"", "setup", "active", "device", "none"}))
    if status != "completed":
        raise Stopped(GuestEnd.EMULATOR, f"QEMU could not save it: {status}")
    with contextlib.suppress(_GoneError):
        monitor.ask("quit")


def restore(setup: Setup, limits: Limits, state: Path) -> GuestRun:
    """Let a saved machine go on with an order, and wait for its end.

    Args:
        setup: as when it was saved, but for the order.
        limits: what ends it.
        state: what `save` wrote.
    """
    ours, its = socket.socketpair()
    fd = os.open(state, os.O_RDONLY)
    watching = ("-action", "watchdog=none", "-S", "-incoming", f"fd:{fd}", *_qmp(its))
    try:
        with ours, Guest(setup, limits, watching, [its.fileno(), fd]) as guest:
            its.close()
            try:
                monitor = _Monitor(guest, ours)
                monitor.wait_while("query-status", frozenset({"inmigrate"}))
                monitor.ask("cont")
            except Stopped as stopped:
                return guest.ended(stopped)
            except _GoneError:
                pass  # it ended already: what came of it says how
            return guest.wait()
    finally:
        os.close(fd)
        its.close()


def prove(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Compare a saved machine with one that starts from nothing: both carry out one order.

    Args:
        setup: as when it was saved, with an order in which the guest says its clock.
        limits: of each of the two.
        state: what `save` wrote.

    Returns:
        None, or what came of the machine that starts from nothing, if that fails.

    Raises:
        UnlikeError: they did not say the same bytes.
    """
    cold = boot(setup, limits)
    if cold.how is not GuestEnd.FINISHED:
        return cold
    saved = restore(setup, limits, state)  # its console lacks what the machine said when it started
    if (saved.how, saved.said) != (cold.how, cold.said):
        raise UnlikeError
    return None


def _qmp(connection: socket.socket) -> tuple[str, ...]:
    return ("-chardev", f"socket,id=monitor,fd={connection.fileno()}", "-mon", "chardev=monitor,mode=control")
