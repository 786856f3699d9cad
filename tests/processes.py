# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a process runs, by its number."""

from __future__ import annotations

import time
from pathlib import Path


def is_running(pid: int | str) -> bool:
    """Return whether a process exists that has not ended: a zombie that nothing has reaped yet does not run.

    A file below /proc is missing (ENOENT) if the process is gone before the file is opened, and has no content (ESRCH) if it is after that.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int | str, within_s: float = 60) -> bool:
    """Wait until a process has ended; return whether it has in that time."""
    until = time.monotonic() + within_s
    while is_running(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
