# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a worker does: it makes one run, whose inputs a store has."""

from __future__ import annotations

import functools
import os
import socket
import sys

from swapstone.model import UserError
from swapstone.model.directories import cache_dir
from swapstone.targets.vm.content_store import ContentStore
from swapstone.targets.vm.machine_runner import MachineRunner
from swapstone.targets.vm.qemu import GuestRun, Limits
from swapstone.targets.vm.stored_trial import get_trial


def make_run(store: ContentStore, name: str, host_s: float, *, snapshots: bool = True) -> GuestRun:
    """Make a run of a store, however it ends.

    Args:
        store: has its inputs.
        name: of the run.
        host_s: limit of the machine, in seconds of this machine's time.
        snapshots: whether it may be restored from a snapshot.

    Raises:
        UserError: this machine can't make it, or the store is not usable; the message has the reason.
    """
    setup, inputs = get_trial(store, name, cache_dir() / "inputs")
    return _runner(host_s, snapshots).make(setup, inputs)


def work(
    url: str, name: str, host_s: float, snapshots: bool = True, avoid: str = ""
) -> tuple[str, GuestRun | UserError | None]:
    """Make a run in a worker. Arguments and result can be pickled, so that any executor carries them.

    Args:
        url: of the store.
        name: of the run.
        host_s: as of `make_run`.
        snapshots: as of `make_run`.
        avoid: the worker that must not make it; empty for none.

    Returns:
        The worker's name, and the run, why this worker makes none, or None if it is the one to avoid.
    """
    worker = worker_name()
    if avoid == worker:
        return worker, None
    try:
        return worker, make_run(_store(url), name, host_s, snapshots=snapshots)
    except UserError as error:
        return worker, error


def worker_name() -> str:
    """Return the name of this worker: the address of Dask's, or host and process."""
    if "distributed.worker" in sys.modules:
        try:
            return str(sys.modules["distributed.worker"].get_worker().address)
        except ValueError:  # this process has none
            pass
    return f"{socket.gethostname()}:{os.getpid()}"


_store = functools.lru_cache(maxsize=8)(ContentStore)


@functools.lru_cache(maxsize=8)
def _runner(host_s: float, snapshots: bool) -> MachineRunner:
    """Return the runner of these arguments: a process checks a snapshot once."""
    return MachineRunner(cache_dir() / "snapshots", Limits(host_s=host_s), snapshots=snapshots)
