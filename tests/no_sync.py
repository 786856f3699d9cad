# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leave out what tests wait for most, and can't observe: the writing of files to the disk."""

from __future__ import annotations

import os
from typing import Any

COMPARED = "TESTS_COMPARE_COLD_STARTS"
"""A variable: if it is set, `tests.uncompared_snapshots` leaves nothing out."""

UNCOMPARED = "TESTS_UNCOMPARED_SNAPSHOTS"
"""A variable: the folder in which tests keep the digests of the snapshots that they saved."""


def leave_out_fsync() -> None:
    """Let ``os.fsync`` check its argument alone. What it does shows after a loss of power; a record waits for it at each of its runs.

    Tests of the order of writes and syncs replace ``os.fsync`` by one that counts, and those in tests/faults run with the real one.
    """
    setattr(os, "fsync", _checked)  # noqa: B010 - an assignment has another type


def _checked(descriptor: Any) -> None:
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())
