# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that other machines make or have made: through a store, an executor, or both. Each must be what this machine would get."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import importlib
import logging
import os
import re
import secrets
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.run_sharing import EXECUTORS, RunSharing
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.target import Target, TargetError, UnequalRunsError
from swapstone.core.targets.target_kind import Notify, RunSharer
from swapstone.parts.cluster.content_store import (
    OBJECTS,
    RUNS,
    TRIALS,
    ContentStore,
    DamagedEntryError,
    get_run,
    get_trial,
    put_run,
    put_trial,
)
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Limits
from swapstone.parts.vm.machine.run_cache import NamedRun
from swapstone.parts.vm.machine.snapshot import MachineRunner
from swapstone.parts.vm.machine.vm_target import VmTarget

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


MOST_TRIES = 3
"""So often a run is given to a worker: a run that ends its worker each time is the run's fault."""

_OTHER_WORKER_TRIES = 10
_WAIT_S = 0.25


def check_opens(sharing: RunSharing) -> None:
    """Check that store and workers can be opened, but for an executor of the user's: its function may start a cluster.

    Raises:
        UserError: one can't.
    """
    _open_store(sharing)
    pool, _ = (None, 0) if is_custom(sharing.executor) else open_workers(sharing.executor)
    if pool is not None:
        pool.close()


def _open_store(sharing: RunSharing) -> ContentStore | None:
    if sharing.executor.startswith("dask:") and not sharing.store:
        raise UserError(
            "The workers of Dask read a run's inputs from a store, and none is named.",
            "Add a folder or a URL that all of them reach: --store file:///srv/swapstone",
        )
    url = sharing.store or (str(cache_dir() / "store") if is_custom(sharing.executor) else "")
    return ContentStore(url) if url else None


class FinishedRuns(RunSharing, frozen=True, kw_only=True):
    """The finished runs of a plan in a store, and no others.

    Attributes:
        planned: names of the runs, all of which the store has.
    """

    planned: tuple[str, ...]


class SharedRuns:
    """Gets runs from a store and from workers. Several threads may call it at once.

    Args:
        sharing: store, executor and share of runs that are made twice.
        make: makes a run on this machine.
        limits: of a machine; `stop` ends the wait for a worker.
        notify: called with a line for the user.
        use_known: whether a finished run of the store may be used.
        snapshots: whether workers may restore machines from snapshots.

    Raises:
        UserError: the store or the executor can't be opened.
    """

    def __init__(
        self,
        sharing: RunSharing,
        make: Callable[[NamedRun], GuestRun],
        limits: Limits,
        notify: Callable[[str], None],
        *,
        use_known: bool = True,
        snapshots: bool = True,
    ) -> None:
        self._make_here = make
        self._limits = limits
        self._notify = notify
        self._use_known = use_known
        self._snapshots = snapshots
        self._recheck = sharing.recheck
        self._recheck_key = secrets.token_bytes(16)
        self._planned = frozenset(sharing.planned if isinstance(sharing, FinishedRuns) else ())
        self.used: set[str] = set()
        """Names of the runs that were needed."""
        self.store = _open_store(sharing)
        self.pool, self.at_once = open_workers(sharing.executor)
        self._checked: dict[str, bool] = {}
        """The runs that were made twice and were equal, by name: whether two workers made them."""

    def is_rechecked(self, name: str) -> bool:
        """Return whether a run is one of those that are made twice.

        A function of its name and of a random key of this session. Names and share can be read by an attacker with write access to the
        store; without the key they do not determine the choice.
        """
        drawn = hashlib.blake2b(name.encode(), key=self._recheck_key, digest_size=8).digest()
        return int.from_bytes(drawn) < self._recheck * (1 << 64)

    def get(self, named: NamedRun, known: GuestRun | None) -> GuestRun:
        """Return a run.

        Args:
            named: its name and inputs.
            known: the run, if this machine has it; then it is only checked, if it is one of those that are made twice.

        Raises:
            UnequalRunsError: it was made twice, and the two differ.
            TargetError: it ended its worker each time.
            UserError: the store is not usable, or no worker can make it.
        """
        worker = ""
        self.used.add(named.name)
        if self._planned and named.name not in self._planned:
            raise UserError(
                f"The run {named.name} is none of the plan: this machine has another QEMU, compiler or Swapstone than the one that "
                "planned, or trials failed and need further ones.",
                "Collect on the machine that planned. To make further runs here: swapstone compare --resume last --store URL",
            )
        stored = self._from_store(named.name, known)
        run = known or stored
        if run is None:
            worker, run = self._make(named)
        if run.end is not GuestEnd.FINISHED:
            return run
        if self.store is not None and self._use_known and not self._planned and stored is None:
            put_trial(self.store, named)
            put_run(self.store, named.name, run)
        if self.is_rechecked(named.name):
            self._compare(named, run, worker)
        return run

    def close(self) -> None:
        """End the workers' runs, and report which runs were made twice."""
        if self.pool is not None:
            self.pool.close()
        if self._checked:
            number, elsewhere = len(self._checked), sum(self._checked.values())
            self._notify(f"recheck: {number} runs were made twice, {elsewhere} by two workers, and were equal")
            self._checked = {}
        elif self._recheck and self.used and not any(map(self.is_rechecked, self.used)):
            self._notify(
                f"note: recheck: none of the {len(self.used)} runs was drawn to be made twice; --recheck 100% draws all"
            )

    def _from_store(self, name: str, known: GuestRun | None) -> GuestRun | None:
        if self.store is None or not self._use_known:
            return None
        try:
            return get_run(self.store, name)
        except DamagedEntryError as error:
            self._notify(f"warning: {error.message} The run is {'written' if known else 'made'} again.")
            self.store.remove(RUNS, name)
            return None

    def _make(self, named: NamedRun, avoid: str = "") -> tuple[str, GuestRun]:
        """Make a run; return it behind the worker's name, which is empty for this process."""
        if self.pool is None or self.store is None:
            return "", self._make_here(named)
        for _ in range(MOST_TRIES):
            put_trial(self.store, named)
            try:
                worker, made = self._answer(self.pool, self.store.url, named.name, avoid)
            except UserError:
                raise
            except Exception as error:  # whatever the executor raises for a worker that died
                self._check_alive(self.pool, error)
                self._notify(
                    f"note: a worker was lost ({type(error).__name__}); its run {named.name[:12]} is made again"
                )
                failure: Exception = TargetError(
                    f"The run {named.name} ended {MOST_TRIES} workers, the last one so: {type(error).__name__}: {safe_excerpt(str(error))}",
                    "Look at the worker's own output.",
                )
                continue
            if isinstance(made, GuestRun):
                return worker, made
            if isinstance(made, DamagedEntryError):
                self._notify(f"warning: the store's entry {safe_excerpt(made.entry)} is damaged; it is written again")
                kind, name = made.entry.partition("/")[0], made.entry.rpartition("/")[2]
                self.store.remove(OBJECTS if kind == OBJECTS else TRIALS, name)
            refused = f"The worker {safe_excerpt(worker, 100)} refuses. {safe_excerpt(made.message, 600)}"
            failure = UserError(refused, safe_excerpt(made.hint, 400))
        raise failure

    def _answer(self, pool: WorkerPool, url: str, name: str, avoid: str) -> tuple[str, GuestRun | UserError]:
        """Return the answer of a worker: of another one than `avoid`, if one of several tries reaches one."""
        for other in (*[avoid] * _OTHER_WORKER_TRIES, ""):
            future = pool.submit(url, name, self._limits.host_s, self._snapshots, other)
            while not concurrent.futures.wait((future,), _WAIT_S).done:
                self._check_alive(pool, None)
                if self._limits.stop.is_set():
                    future.cancel()
                    return "", GuestRun(end=GuestEnd.STOPPED, reason="it was stopped")
            worker, made = future.result()
            if made is not None:
                break
        assert made is not None
        return worker, made

    def _check_alive(self, pool: WorkerPool, error: Exception | None) -> None:
        if not self._limits.stop.is_set() and (trouble := pool.trouble()):
            raise UserError(
                f"The executor is gone: {trouble}.",
                "What was measured is kept. Start the scheduler and its workers again, then continue with the same --executor and "
                "--store: swapstone compare --resume last",
            ) from error

    def _compare(self, named: NamedRun, run: GuestRun, worker: str) -> None:
        """Make a run once more, and compare the two.

        Raises:
            UnequalRunsError: they differ.
        """
        if named.name in self._checked:
            return
        other, second = self._make(named, worker)
        if second.end is GuestEnd.STOPPED:
            return
        if (second.end, second.output, second.counts) != (run.end, run.output, run.counts):
            one = f"worker {safe_excerpt(worker, 100)}" if worker else "the store, the cache or this process"
            two = f"worker {safe_excerpt(other, 100)}" if other else "this process"
            raise UnequalRunsError(
                f"the run {named.name} was made twice and differs: by {one}, and by {two}",
                "One of the machines computes wrongly, or an entry of the store is forged: swapstone docs many-machines",
            )
        self._checked[named.name] = bool(worker and other and worker != other)


def share_runs(target: Target, sharing: RunSharing, notify: Notify) -> None:
    """Let virtual machines get runs from a store and from workers too.

    Raises:
        UserError: the store or the executor can't be opened.
    """
    assert isinstance(target, VmTarget)
    options = target.options
    target.share_runs(
        SharedRuns(
            sharing, target.make, options.limits, notify, use_known=not options.no_cache, snapshots=options.snapshots
        )
    )


SHARER = RunSharer(share_runs, check_opens)
