# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scheduling policy of an emulator."""

from __future__ import annotations

import contextlib
import os


def save_switches(pid: int) -> None:
    """Set a process's scheduling policy to SCHED_BATCH, which its threads inherit: a thread that wakes does not interrupt another one.

    QEMU's main loop wakes at each timer of the guest, and would wait for the lock of the thread that executes the guest. The policy needs
    no rights (sched(7)). Where it is denied, the machine only takes more processor time (docs/virtual-machine-runs.md).
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
