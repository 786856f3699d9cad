# SPDX-License-Identifier: MIT OR Apache-2.0
"""A limit of the processor time for the patterns of a record: they come from outside."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

PATTERN_CPU_S = 2.0
"""Processor time for the patterns of one run. Output has at most 128 KiB; an untrusted pattern may take exponential time."""


class SlowPatternError(Exception):
    """A pattern of the record takes too long."""


@contextlib.contextmanager
def limited_patterns() -> Iterator[None]:
    """Limit the processor time of a search for patterns: Python's `re` handles signals while it searches. No limit outside the main thread.

    Raises:
        SlowPatternError: the limit is exceeded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(_number: int, _frame: object) -> None:
        raise SlowPatternError(f"a pattern of the record takes more than {PATTERN_CPU_S:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, expire)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATTERN_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
