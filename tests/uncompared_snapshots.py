# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leave out the cold start with which each saved machine is compared: for tests of commands, whose machines each boot for a few runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from swapstone.core.model import UserError
from swapstone.core.model.directories import mark_used
from swapstone.core.targets.agent_build import sha256_of
from swapstone.parts.vm.machine import snapshot
from swapstone.parts.vm.machine.qemu import GuestRun, Limits, Setup
from swapstone.parts.vm.machine.snapshot import MachineRunner
from tests.no_sync import COMPARED, UNCOMPARED

_is_whole = MachineRunner._is_whole


def leave_out_cold_starts(assign: Callable[[Any, str, Any], None] = setattr) -> None:
    """Save machines without the comparison in this process; tests/contract compares what the program does with a cold start.

    The program never accepts such a snapshot: its digest is not beside it, but in a folder of the tests.

    Args:
        assign: changes an attribute; a test that runs in a worker passes ``monkeypatch.setattr``.
    """
    if COMPARED not in os.environ:
        assign(snapshot, "_saved_once", _saved_once)
        assign(MachineRunner, "_is_whole", is_whole_or_ours)


@contextlib.contextmanager
def compared_elsewhere() -> Iterator[None]:
    """Save machines without the comparison, in a cache of the test, which compares a run from the snapshot with one from a boot itself."""
    compare = snapshot.compare
    if COMPARED not in os.environ:
        setattr(snapshot, "compare", lambda *_: None)  # noqa: B010 - an assignment has another type
    try:
        yield
    finally:
        setattr(snapshot, "compare", compare)  # noqa: B010 - as above


def _digest_of(state: Path) -> Path:
    return Path(os.environ[UNCOMPARED], state.name)


def _saved_once(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
    draft = state.with_name(f"{state.name}.{os.getpid()}.part")  # another process may be reading the snapshot
    try:
        failed = snapshot.save(setup, limits, draft)
        if failed is None:
            _digest_of(state).write_text(sha256_of(draft))
            draft.replace(state)
    finally:
        draft.unlink(missing_ok=True)
    return failed


def is_whole_or_ours(runner: MachineRunner, state: Path) -> bool:
    """Return whether the program accepts a snapshot, or a test has saved it."""
    if _is_whole(runner, state):
        return True
    try:
        ours = _digest_of(state).read_text() == sha256_of(state)
    except (UserError, OSError):
        return False
    mark_used(state)
    return ours
