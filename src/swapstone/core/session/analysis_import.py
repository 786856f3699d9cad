# SPDX-License-Identifier: MIT OR Apache-2.0
"""Imports what analyses runs when it is first needed: trials begin without it."""

from __future__ import annotations

import functools
import importlib
import signal
import threading


@functools.cache
def load_analysis() -> None:
    """Import the analysis, and numpy with it. SIGINT and SIGTERM are delivered afterwards.

    After an exception inside its import, numpy may refuse another one: "cannot load module more than once per process".
    """
    caught: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()  # handlers run there alone
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if in_main}
    replaced = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in replaced:
            signal.signal(number, lambda caught_number, _: caught.append(caught_number))
        importlib.import_module("swapstone.core.session.analysis")
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
    for late in caught:
        signal.raise_signal(late)
