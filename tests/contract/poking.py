# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stress the emulator's main loop while a machine runs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from unittest import mock

from swapstone.parts.vm.machine import qemu, snapshot
from swapstone.parts.vm.machine.qemu import Guest, GuestRun, Limits, Setup


@contextlib.contextmanager
def poked() -> Iterator[list[int]]:
    """Query the status of every machine that resumes from a snapshot or boots, as fast as QEMU answers.

    At the end of each turn of its main loop, QEMU advances the clock if the machine is idle. Frequent turns increase the chance of doing so
    at a wrong moment.

    Yields:
        Number of queries of each machine; filled when the machines have ended.
    """
    counts: list[int] = []

    class Poking(snapshot._Monitor):  # the connection to a machine's monitor
        def wait_for(self, event: str) -> None:
            """Poke until the machine's last output, if its end is waited for."""
            if event == snapshot.END:
                counts.append(0)
                # QEMU 7.2 may hang if it is queried while an arm64 guest powers off: less often if queries stop after its last output.
                while not self._guest._output().endswith(qemu._END):
                    self.execute("query-status")
                    counts[-1] += 1
            super().wait_for(event)

    def boot(setup: Setup, limits: Limits) -> GuestRun:
        ours, its = socket.socketpair()
        watching = ("-S", "-action", "watchdog=none", *snapshot._qmp(its))
        with ours, Guest(setup, limits, watching, [its.fileno()]) as guest:
            its.close()
            with contextlib.suppress(snapshot._ConnectionClosedError):
                monitor = Poking(guest, ours)
                monitor.execute("cont")
                monitor.wait_for(snapshot.END)
            return guest.wait()

    with mock.patch.object(snapshot, "_Monitor", Poking), mock.patch.object(qemu, "boot", boot):
        yield counts
