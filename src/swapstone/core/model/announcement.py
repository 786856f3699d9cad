# SPDX-License-Identifier: MIT OR Apache-2.0
"""Acts that take long before an experiment is known, such as fetching an image: who displays progress receives a line for each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

RECEIVER: ContextVar[Callable[[str], None]] = ContextVar("RECEIVER", default=lambda _: None)
"""Receives the lines of the acts that this thread carries out."""

_LONG_S = 2.0


@contextlib.contextmanager
def announced(act: str) -> Iterator[None]:
    """Announce an act that begins, and how long it took if that was more than two seconds.

    Args:
        act: e.g. ``unpacking ./root.tar``.
    """
    RECEIVER.get()(act)
    began_s = time.monotonic()
    yield
    if (took_s := time.monotonic() - began_s) > _LONG_S:
        RECEIVER.get()(f"{act}: done in {took_s:.0f} s")
