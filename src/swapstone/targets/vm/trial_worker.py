# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a worker does: it makes one run of a store. Its argument and its result are bytes, so that any executor can carry them."""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
from pathlib import Path

import msgspec

from swapstone.model import FrozenStruct, UserError, WireError
from swapstone.model.directories import cache_dir
from swapstone.model.safe_text import safe_excerpt
from swapstone.targets.vm.content_store import ContentStore, DamagedEntryError
from swapstone.targets.vm.machine_runner import MachineRunner
from swapstone.targets.vm.qemu import GuestEnd, GuestRun, Limits
from swapstone.targets.vm.stored_trial import get_run, get_trial, put_run


class Job(FrozenStruct, frozen=True, kw_only=True):
    """One run to make.

    Attributes:
        name: of the run.
        store: URL of the store that has its inputs.
        host_s: limit of the machine, in seconds of the worker's time.
        avoid: the worker that must not make it; empty for none.
        anew: whether to make it although the store has it; then it is not stored.
        snapshots: whether the machine may be restored from a snapshot.
    """

    name: str
    store: str
    host_s: float
    avoid: str = ""
    anew: bool = False
    snapshots: bool = True


class Reply(FrozenStruct, frozen=True, kw_only=True):
    """What a worker made of a job.

    Attributes:
        worker: its address, or host and process.
        run: None if there is none.
        refused: why this worker made none; empty if it did, or is the one to avoid.
        hint: what to do about it.
        damaged: path of the store's entry that is damaged; empty for none.
        note: of a damaged entry that the worker replaced; empty for none.
    """

    worker: str
    run: GuestRun | None = None
    refused: str = ""
    hint: str = ""
    damaged: str = ""
    note: str = ""


def decode_reply(data: bytes) -> Reply:
    """Decode what a worker returned.

    Raises:
        WireError: it is no reply.
    """
    try:
        return msgspec.json.decode(data, type=Reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"A worker's reply can't be read: {safe_excerpt(str(error), 100)}.") from error


def worker_name() -> str:
    """Return the name of this worker: the address of Dask's, or host and process."""
    if "distributed.worker" in sys.modules:
        try:
            return str(sys.modules["distributed.worker"].get_worker().address)
        except ValueError:  # this process has none
            pass
    return f"{socket.gethostname()}:{os.getpid()}"


def run_job(data: bytes, stop: threading.Event | None = None) -> bytes:
    """Make the run of a job, and store it if it finished.

    Args:
        data: a `Job` as JSON.
        stop: ends the machine when it is set.

    Returns:
        A `Reply` as JSON.
    """
    job = msgspec.json.decode(data, type=Job)
    worker = worker_name()
    if job.avoid == worker:
        return Reply(worker=worker).encoded()
    try:
        run, note = make_stored(job, cache_dir(), stop)
    except DamagedEntryError as error:
        reply = Reply(worker=worker, refused=error.message, hint=error.hint, damaged=error.entry)
    except UserError as error:
        reply = Reply(worker=worker, refused=error.message, hint=error.hint)
    else:
        reply = Reply(worker=worker, run=run, note=note)
    return reply.encoded()


def make_stored(job: Job, cache: Path, stop: threading.Event | None = None) -> tuple[GuestRun, str]:
    """Return a run of a store, which is made and stored unless it is there.

    Args:
        job: which.
        cache: folder for files and snapshots.
        stop: ends the machine when it is set.

    Returns:
        The run, however it ended, and a note about a damaged entry that was replaced; empty for none.

    Raises:
        UserError: this machine can't make it, or the store is not usable; the message has the reason.
    """
    store = _store(job.store)
    note = ""
    if not job.anew:
        try:
            known = get_run(store, job.name)
        except DamagedEntryError as error:
            note, known = f"{error.message} The run is made again.", None
        if known is not None:
            return known, ""
    setup, inputs = get_trial(store, job.name, cache / "inputs")
    with _lock:
        runner = _runner(cache, job.host_s, stop, job.snapshots)
    run = runner.make(setup, inputs)
    if run.end is GuestEnd.FINISHED and not job.anew:
        put_run(store, job.name, run)
    return run, note


@functools.lru_cache(maxsize=8)
def _store(url: str) -> ContentStore:
    return ContentStore(url)


_lock = threading.Lock()


@functools.lru_cache(maxsize=8)
def _runner(cache: Path, host_s: float, stop: threading.Event | None, snapshots: bool) -> MachineRunner:
    """Return the runner of these arguments: the threads of a process save a snapshot once."""
    return MachineRunner(
        cache / "snapshots", Limits(host_s=host_s, stop=stop or threading.Event()), snapshots=snapshots
    )
