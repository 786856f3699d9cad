# SPDX-License-Identifier: MIT OR Apache-2.0
"""Saves a machine whose later runs are those of a machine that was booted: docs/virtual-machine-runs.md, "Saved machines"."""

from __future__ import annotations

import contextlib
import dataclasses
import os
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
        SnapshotError: the last try failed too.
    """
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES - 1):
            with contextlib.suppress(snapshot.SnapshotError):
                return _saved_once(setup, limits, state)
        return _saved_once(setup, limits, state)
    except OSError as error:
        raise not_written(state.parent, error) from error


def not_written(folder: Path, error: OSError) -> UserError:
    """Return the error for a folder to which a snapshot can't be written."""
    return UserError(
        f"A snapshot can't be written to {folder}: {error.strerror}.",
        "Free some space there, or set XDG_CACHE_HOME to a folder that you can write.",
    )


def _saved_once(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    draft = state.with_name(f"{state.name}.{os.getpid()}.part")
    order = guest.encode_order(encode_plan_header() + QUIT, replicate=0, limit_ms=SLACK_MS)
    try:
        failed = snapshot.save(setup, limits, draft)
        failed = failed or snapshot.compare(dataclasses.replace(setup, order=order), limits, draft)
        if failed is None:
            draft.replace(state)
    finally:
        draft.unlink(missing_ok=True)
    if failed is None:
        write_whole(state.with_name(f"{state.name}.sha256"), sha256_of(state).encode())
    return failed
