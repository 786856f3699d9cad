# SPDX-License-Identifier: MIT OR Apache-2.0
"""SIGINT and SIGTERM: during imports they end the process at once, later they raise `KeyboardInterrupt`.

A `KeyboardInterrupt` inside an import can be lost, or printed as a traceback: Python catches exceptions in callbacks and finalizers.
Until a command starts there is nothing to save, so the process ends in the handler. Imports only what every start needs.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

MESSAGE = "Interrupted: the command did not finish."
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_at_once() -> None:
    """From now on, SIGINT and SIGTERM print one line and end the process with 130.

    The launcher blocks SIGINT until here, since the interpreter's start can't handle it; a signal that came before is delivered now.
    """
    _handle(_end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def raise_interrupts() -> None:
    """From now on, SIGINT and SIGTERM raise `KeyboardInterrupt`."""
    _handle(signal.default_int_handler)


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """End the process at once on a signal inside the block, as `end_at_once` does."""
    earlier = {number: signal.getsignal(number) for number in _SIGNALS}
    _handle(_end)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _handle(handler: Callable[[int, FrameType | None], NoReturn]) -> None:
    """Set a handler for each signal that is not ignored, as a shell does for a command in the background."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(_signum: int, _frame: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):  # standard error is closed or full
        os.write(2, b"Interrupted during the start: nothing was done.\n")
    os._exit(130)
