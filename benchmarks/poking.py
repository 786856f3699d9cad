"""Disturbing the emulator where it hurts: its main loop is kept busy while the machine runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

from swapstone.targets.vm import qemu, snapshot
from swapstone.targets.vm.qemu import LimitReached


@contextlib.contextmanager
def poked() -> Iterator[list[int]]:
    """Ask every machine that goes on from a snapshot for its status, again and again, as fast as QEMU answers.

    QEMU looks at the end of each turn of its main loop whether its machine is idle, and moves the clock on then. So the more turns, the
    more chances to do that at a wrong moment.

    Yields:
        How often each machine was asked; filled when the machines have ended.
    """
    counts: list[int] = []
    pokers: list[threading.Thread] = []

    class Poking(snapshot._Monitor):  # what it speaks to machines by
        def execute(self, command: str, fd: int | None = None, **values: object) -> Any:  # noqa: ANN401 - as its base
            answer = super().execute(command, fd, **values)
            if command == "cont":
                pokers.append(threading.Thread(target=self._poke))
                pokers[-1].start()
            return answer

        def _poke(self) -> None:
            count = 0
            with contextlib.suppress(snapshot._ConnectionClosedError, LimitReached, OSError):  # it ended
                # QEMU 7.2 may hang when it is asked while a guest powers off, as arm64 does: less often if it isn't after the last words.
                while not self._guest._output().endswith(qemu._END):
                    super().execute("query-status")
                    count += 1
            counts.append(count)

    with mock.patch.object(snapshot, "_Monitor", Poking):
        yield counts
    for poker in pokers:
        poker.join()
