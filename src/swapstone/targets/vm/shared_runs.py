# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that other machines make or have made: through a store, an executor, or both. Each must be what this machine would get."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import secrets
import threading
from collections.abc import Callable

import msgspec

from swapstone.model import FrozenStruct, UserError
from swapstone.model.directories import cache_dir
from swapstone.model.safe_text import safe_excerpt
from swapstone.targets.target import TargetError, UnequalRunsError
from swapstone.targets.vm.content_store import OBJECTS, RUNS, TRIALS, ContentStore, DamagedEntryError
from swapstone.targets.vm.qemu import GuestEnd, GuestRun, Limits
from swapstone.targets.vm.stored_trial import NamedRun, get_run, put_run, put_trial
from swapstone.targets.vm.trial_worker import Job, Reply, decode_reply
from swapstone.targets.vm.worker_pools import WorkerPool, is_custom, open_pool

MOST_TRIES = 3
"""So often a run is given to a worker: a run that ends its worker each time is the run's fault."""

_OTHER_WORKER_TRIES = 10
_WAIT_S = 0.25


class RunSharing(FrozenStruct, frozen=True, kw_only=True):
    """Where the runs of an experiment come from, besides this machine.

    Attributes:
        store: URL of a store; empty for none. With an executor, for one in the cache folder.
        executor: as `swapstone.targets.vm.worker_pools.USAGE`; empty to make runs in this process.
        recheck: share of the runs that are made twice, 0 to 1.
        planned: names of the only runs that may be used, all of which the store has; empty for no such limit.
    """

    store: str = ""
    executor: str = ""
    recheck: float = 0.0
    planned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.store or self.executor or self.recheck)


def check_opens(sharing: RunSharing) -> None:
    """Check that store and workers can be opened, but for an executor of the user's: its function may start a cluster.

    Raises:
        UserError: one can't.
    """
    _open_store(sharing)
    if sharing.executor and not is_custom(sharing.executor):
        open_pool(sharing.executor).close()


def _open_store(sharing: RunSharing) -> ContentStore | None:
    if sharing.executor.startswith("dask:") and not sharing.store:
        raise UserError(
            "The workers of Dask read a run's inputs from a store, and none is named.",
            "Add a folder or a URL that all of them reach: --store file:///srv/swapstone",
        )
    url = sharing.store or (str(cache_dir() / "store") if sharing.executor else "")
    return ContentStore(url) if url else None


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
        self._planned = frozenset(sharing.planned)
        self.used: set[str] = set()
        """Names of the runs that were needed."""
        self.store = _open_store(sharing)
        self.pool: WorkerPool | None = open_pool(sharing.executor) if sharing.executor else None
        self._lock = threading.Lock()
        self._checked: dict[str, bool] = {}
        """The runs that were made twice and were equal, by name: whether two workers made them."""

    @property
    def at_once(self) -> int:
        """How many runs the workers make at the same time; 0 without an executor."""
        return self.pool.at_once if self.pool else 0

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
        run = known or self._from_store(named.name)
        if run is None:
            run, worker = self._make(named)
        if run.end is not GuestEnd.FINISHED:
            return run
        self._keep(named, run)
        if self.is_rechecked(named.name):
            self._compare(named, run, worker)
        return run

    def _keep(self, named: NamedRun, run: GuestRun) -> None:
        """Store a finished run with its inputs, unless the store has it or must not be used."""
        if self.store is None or not self._use_known or self._planned:
            return
        try:
            there = self.store.size(RUNS, named.name) is not None
        except DamagedEntryError as error:
            self._notify(f"warning: {error.message}")
            self.store.remove(RUNS, named.name)
            there = False
        if not there:
            put_trial(self.store, named)
            put_run(self.store, named.name, run)

    def put_inputs(self, named: NamedRun) -> None:
        """Write the inputs of a run into the store.

        Raises:
            UserError: the store can't be written.
        """
        assert self.store is not None
        put_trial(self.store, named)

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

    def _from_store(self, name: str) -> GuestRun | None:
        if self.store is None or not self._use_known:
            return None
        try:
            return get_run(self.store, name)
        except DamagedEntryError as error:
            self._notify(f"warning: {error.message} The run is made again.")
            self.store.remove(RUNS, name)
            return None

    def _make(self, named: NamedRun, *, avoid: str = "", anew: bool = False) -> tuple[GuestRun, str]:
        """Make a run; return it with the worker's name, which is empty for this process."""
        if self.pool is None or self.store is None:
            return self._make_here(named), ""
        anew = anew or not self._use_known
        job = Job(
            name=named.name,
            store=self.store.url,
            host_s=self._limits.host_s,
            avoid=avoid,
            anew=anew,
            snapshots=self._snapshots,
        )
        reasons: list[str] = []
        for _ in range(MOST_TRIES):
            put_trial(self.store, named)
            reply = self._reply(self.pool, job, reasons)
            if reply is None:
                continue
            if reply.note:
                self._notify(f"warning: {safe_excerpt(reply.note, 400)}")
            if reply.run is not None or self._limits.stop.is_set():
                stopped = GuestRun(end=GuestEnd.STOPPED, reason="it was stopped")
                return reply.run or stopped, reply.worker
            if reply.damaged:
                self._repair(named, reply.damaged)
            refused, hint = safe_excerpt(reply.refused, 600), safe_excerpt(reply.hint, 400)
            reasons.append(f"{safe_excerpt(reply.worker, 100)}: {refused}")
            last = UserError(f"The worker {safe_excerpt(reply.worker, 100)} refuses. {refused}", hint)
        if reasons and not reasons[-1].startswith("lost"):
            raise last
        raise TargetError(
            f"The run {named.name} ended {MOST_TRIES} workers, the last one so: {reasons[-1].removeprefix('lost: ')}",
            "Look at the worker's own output.",
        )

    def _reply(self, pool: WorkerPool, job: Job, reasons: list[str]) -> Reply | None:
        """Return a worker's reply; None if the worker is lost, with the reason added to `reasons`."""
        for _ in range(_OTHER_WORKER_TRIES):
            try:
                reply = decode_reply(self._wait(pool, pool.submit(job.encoded(), job.avoid)))
            except UserError:
                raise
            except Exception as error:  # whatever the executor raises for a worker that died
                self._check_alive(pool, error)
                reasons.append(f"lost: {type(error).__name__}: {safe_excerpt(str(error))}")
                self._notify(f"note: a worker was lost ({type(error).__name__}); its run {job.name[:12]} is made again")
                return None
            if reply.run is not None or reply.refused or not job.avoid:
                return reply
        return self._reply(pool, msgspec.structs.replace(job, avoid=""), reasons)  # there is only one worker

    def _wait(self, pool: WorkerPool, future: concurrent.futures.Future[bytes]) -> bytes:
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(_WAIT_S)
            if future.done():
                return future.result()
            if self._limits.stop.is_set():
                future.cancel()
                return Reply(worker="").encoded()
            self._check_alive(pool, None)

    def _check_alive(self, pool: WorkerPool, error: Exception | None) -> None:
        if self._limits.stop.is_set():
            return
        if trouble := pool.trouble():
            raise UserError(
                f"The executor is gone: {trouble}.",
                "What was measured is kept. Start the scheduler and its workers again, then continue with the same --executor and "
                "--store: swapstone compare --resume last",
            ) from error

    def _repair(self, named: NamedRun, entry: str) -> None:
        """Write the inputs of a run anew, after a worker found one of them damaged."""
        assert self.store is not None
        self._notify(f"warning: the store's entry {safe_excerpt(entry)} is damaged; it is written again")
        kind, _, rest = entry.partition("/")
        name = rest.rpartition("/")[2]
        if kind == OBJECTS:
            self.store.forget(name)
        elif kind == TRIALS:
            self.store.remove(TRIALS, named.name)

    def _compare(self, named: NamedRun, run: GuestRun, worker: str) -> None:
        """Make a run once more, and compare the two.

        Raises:
            UnequalRunsError: they differ.
        """
        with self._lock:
            if named.name in self._checked:
                return
        second, other = self._make(named, avoid=worker, anew=True)
        if second.end is GuestEnd.STOPPED:
            return
        if (second.end, second.output) != (run.end, run.output):
            first = f"worker {safe_excerpt(worker, 100)}" if worker else "the store, the cache or this process"
            raise UnequalRunsError(
                f"the run {named.name} was made twice and differs: by {first}, and by "
                f"{f'worker {safe_excerpt(other, 100)}' if other else 'this process'}",
                "One of the machines computes wrongly, or an entry of the store is forged: swapstone docs many-machines",
            )
        with self._lock:
            self._checked[named.name] = bool(worker and other and worker != other)
