# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who makes runs: this process, or the workers of an executor of `concurrent.futures`, Dask's or any other (docs/many-machines.md)."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import re
import socket
import sys
from concurrent.futures import Executor, Future
from typing import Any

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.run_sharing import EXECUTORS
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.cluster.content_store import ContentStore
from swapstone.parts.cluster.stored_trial import get_trial
from swapstone.parts.vm.machine.machine_runner import MachineRunner
from swapstone.parts.vm.machine.qemu import GuestRun, Limits

MOST_WORKERS = 4096
_CONNECT_S = 20
_THREADS = re.compile(r"threads:([1-9][0-9]{0,3})", re.ASCII)
_OBJECT = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:@([0-9]{1,6}))?", re.ASCII)
_DASK_HINT = (
    "Start a scheduler, and workers for it: dask scheduler; dask worker tcp://HOST:8786 --nthreads 1. Here and there, once: "
    "pip install 'swapstone[dask]'"
)
_CUSTOM_HINT = (
    "MODULE:FACTORY names a function without arguments in a module that Python can import. It returns an executor, for example "
    "dask_jobqueue's or mpi4py.futures.MPIPoolExecutor(). Add the module's folder to PYTHONPATH."
)

Answer = tuple[str, GuestRun | UserError | None]
"""What `work` returns."""


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


def work(url: str, name: str, host_s: float, snapshots: bool = True, avoid: str = "") -> Answer:
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


class WorkerPool:
    """An executor with what is known of its workers.

    Args:
        executor: makes runs.
        at_once: how many runs it makes at the same time, at least 1.
        client: Dask's, if the executor is of it.
    """

    def __init__(self, executor: Executor, at_once: int, client: Any = None) -> None:  # noqa: ANN401 - Dask has no types
        self.executor = executor
        self.at_once = max(1, min(at_once, MOST_WORKERS))
        self._client = client

    def submit(self, url: str, name: str, host_s: float, snapshots: bool, avoid: str = "") -> Future[Answer]:
        """Give a run to a worker, if possible to another one than `avoid`; the arguments are those of `work`.

        Raises:
            Exception: of the executor, which is shut down or broken.
        """
        executor = self.executor
        if avoid and self._client is not None:
            others = [each for each in _workers(self._client) if each != avoid]
            executor = self._client.get_executor(pure=False, workers=others or [avoid])
            avoid = ""
        return executor.submit(work, url, name, host_s, snapshots, avoid)

    def trouble(self) -> str:
        """Return why no worker can be reached any more; empty if that is not known."""
        status = "running" if self._client is None else str(self._client.status)
        return "" if status == "running" else f"the connection to the Dask scheduler is {status}"

    def close(self) -> None:
        """Cancel what waits."""
        with contextlib.suppress(Exception):
            self.executor.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)


_LOGGERS = frozenset({"asyncio", "distributed", "tornado"})
"""Loggers of Dask and what it uses. They would print tracebacks of a lost connection beside the error that names it."""


def _dask(address: str) -> WorkerPool:
    """Open the workers of a Dask scheduler. Their client's log in this process is off."""
    distributed: Any = importlib.import_module("distributed")  # an extra
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False, name="swapstone")
    if not (threads := sum(_workers(client).values())):
        client.close(timeout=1)
        raise ValueError("the scheduler has no worker")
    return WorkerPool(client.get_executor(pure=False), threads, client)


def _workers(client: Any) -> dict[str, int]:  # noqa: ANN401 - as above
    """Return the number of threads of each worker, by its address."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {name: int(each["nthreads"]) for name, each in workers.items()}


def _custom(module: str, name: str, count: int) -> WorkerPool:
    """Open the executor that a function of the user returns."""
    made = getattr(importlib.import_module(module), name)()
    if not isinstance(made, Executor):
        raise TypeError(f"it returned {type(made).__name__}, which is no concurrent.futures.Executor")
    return WorkerPool(made, int(count or getattr(made, "_max_workers", None) or os.cpu_count() or 1))


def is_custom(text: str) -> bool:
    """Return whether a text names a function of the user that returns an executor."""
    return not text.startswith(("threads:", "dask:")) and _OBJECT.fullmatch(text) is not None


def open_workers(text: str) -> tuple[WorkerPool | None, int]:
    """Open the workers that a text names.

    Args:
        text: as `EXECUTORS` has it; empty for none.

    Returns:
        The workers, None for this process; and how many runs are made at once, 0 for the default.

    Raises:
        UserError: the text has another form, or there are no such workers.
    """
    if not text:
        return None, 0
    found = _OBJECT.fullmatch(text) if is_custom(text) else None
    if threads := _THREADS.fullmatch(text):
        return None, int(threads[1])
    if found is None and not re.match("dask:.", text):
        raise UserError(
            f"{safe_excerpt(text)!r} is no executor.", f"Known: {EXECUTORS}. For example: --executor threads:4"
        )
    try:
        pool = _custom(found[1], found[2], int(found[3] or 0)) if found else _dask(text.removeprefix("dask:"))
    except Exception as error:
        reason = f"{type(error).__name__}: {safe_excerpt(str(error))}"
        hint = _CUSTOM_HINT if found else _DASK_HINT
        raise UserError(f"--executor {safe_excerpt(text)} gives no workers: {reason}.", hint) from error
    return pool, pool.at_once
