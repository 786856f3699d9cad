# SPDX-License-Identifier: MIT OR Apache-2.0
"""Saves a machine whose later runs are those of a machine that was booted: docs/virtual-machine-runs.md, "Saved machines"."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from swapstone.core.model import UserError
from swapstone.core.model.cached_files import write_whole
from swapstone.core.targets.agent_build import sha256_of
from swapstone.core.wire import encode_plan_header
from swapstone.parts.vm.machine import guest, snapshot
from swapstone.parts.vm.machine.qemu import GuestRun, Limits, Setup

SLACK_MS = 60_000
"""Added to a trial's time-out, in guest time: the agent waits up to 20 s until killed processes have ended."""

QUIT = b"quit\n"
"""The end of every plan."""

_TRIES = 3


def save_checked(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    """Save a snapshot that passes the comparison with a cold start; return the failed run if there is none.

    Raises:
        PauseMissedError, SnapshotDiffersError: the last try failed too.
    """
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                failed = _saved_once(setup, limits, state)
            except (snapshot.PauseMissedError, snapshot.SnapshotDiffersError):
                if not left:
                    raise
            else:
                return failed
    except OSError as error:
        raise not_written(state.parent, error) from error
    return None


def not_written(folder: Path, error: OSError) -> UserError:
    """Return the error for a folder to which a snapshot can't be written."""
    return UserError(
        f"A snapshot can't be written to {folder}: {error.strerror}.",
        "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
    )


def _saved_once(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    failed = snapshot.save(setup, limits, state)
    if failed:
        return failed
    order = guest.encode_order(encode_plan_header() + QUIT, replicate=0, limit_ms=SLACK_MS)
    try:
        failed = snapshot.compare(dataclasses.replace(setup, order=order), limits, state)
    except snapshot.SnapshotDiffersError:
        state.unlink()
        raise
    if failed:
        state.unlink()
        return failed
    write_whole(state.with_name(f"{state.name}.sha256"), sha256_of(state).encode())
    return None
