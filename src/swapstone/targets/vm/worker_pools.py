# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executors of Python's `concurrent.futures` that make runs: threads and processes here, Dask's, or any other (docs/many-machines.md)."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import multiprocessing
import os
import queue
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

from swapstone.model import UnavailableError, UserError
from swapstone.model.safe_text import safe, safe_excerpt
from swapstone.targets.vm.trial_worker import run_job

Result = TypeVar("Result")

USAGE = "threads:N, processes:N, dask:tcp://HOST:PORT, or MODULE:FACTORY[@N]"
MOST_WORKERS = 4096
DASK_INSTALL = "pip install 'swapstone[dask]'"
_CONNECT_S = 20
_LOOK_S = 0.05
_OBJECT = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:@([0-9]{1,6}))?", re.ASCII)


class WorkerPool:
    """An executor with what is known of its workers.

    Args:
        executor: makes runs.
        at_once: how many runs it makes at the same time, at least 1.
        run: called in the worker with a job; returns its reply.
    """

    def __init__(self, executor: Executor, at_once: int, run: Callable[[bytes], bytes] = run_job) -> None:
        self.executor = executor
        self.at_once = at_once
        self._run = run

    def submit(self, job: bytes, avoid: str = "") -> Future[bytes]:
        """Give a job to a worker, if possible to another one than `avoid`.

        Raises:
            Exception: of the executor, which is shut down or broken.
        """
        del avoid
        return self.executor.submit(self._run, job)

    def trouble(self) -> str:
        """Return why no worker can be reached any more; empty if that is not known."""
        return ""

    def close(self) -> None:
        """Cancel what waits, and end what runs where that is possible."""
        self.executor.shutdown(wait=False, cancel_futures=True)


class _Threads(WorkerPool):
    """Threads of this process, each with a machine of its own."""

    def __init__(self, count: int) -> None:
        self._stop = threading.Event()
        super().__init__(
            ThreadPoolExecutor(count, thread_name_prefix="worker"), count, functools.partial(run_job, stop=self._stop)
        )

    def close(self) -> None:
        self._stop.set()
        super().close()


class SeparateProcesses(Executor):
    """Processes that fail alone: each is a pool of its own, and a new one takes the place of one that died.

    A `ProcessPoolExecutor` with several processes fails as a whole when one of them dies.

    Args:
        count: of the processes. They start when they are first needed.
    """

    def __init__(self, count: int) -> None:
        self._idle: queue.SimpleQueue[ProcessPoolExecutor] = queue.SimpleQueue()
        self._all: set[ProcessPoolExecutor] = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(count):
            self._idle.put(self._new())
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="process")

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:  # noqa: ANN401 - as Executor has it
        """Run a function in the process that has been idle for longest.

        The future fails with `BrokenExecutor` if the process dies.
        """
        return self._threads.submit(self._in_process, 0, fn, args, kwargs)

    def submit_elsewhere(self, avoid: int, fn: Callable[..., Result], /, *args: object) -> Future[Result]:
        """Run a function in another process than the one with this number, if there is another."""
        return self._threads.submit(self._in_process, avoid, fn, args, {})

    def _in_process(
        self, avoid: int, fn: Callable[..., Result], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Result:
        pool = self._idle.get()
        while avoid and len(self._all) > 1 and not self._closed and avoid in (getattr(pool, "_processes", None) or {}):
            self._idle.put(pool)  # all others are busy
            time.sleep(_LOOK_S)
            pool = self._idle.get()
        try:
            return pool.submit(fn, *args, **kwargs).result()
        except BrokenExecutor:
            with self._lock:
                self._all.discard(pool)
            pool.shutdown(wait=False)
            pool = self._new()
            raise
        finally:
            self._idle.put(pool)

    def _new(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._closed:
                raise BrokenExecutor("it is shut down")
            made = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker)
            self._all.add(made)
        return made

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes with what they run, unless `wait` is true."""
        if wait:
            self._threads.shutdown(wait=True, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            pools = list(self._all)
        for pool in pools:
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                with contextlib.suppress(Exception):
                    process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Processes(WorkerPool):
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self._processes = SeparateProcesses(count)
        super().__init__(self._processes, count)

    def submit(self, job: bytes, avoid: str = "") -> Future[bytes]:
        number = avoid.rpartition(":")[2]
        return self._processes.submit_elsewhere(int(number) if number.isdigit() else 0, self._run, job)


def _begin_worker() -> None:
    """Leave signals of the terminal to the first process, and end with it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def end_with_it() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=end_with_it, daemon=True).start()


_LOGGERS = frozenset({"asyncio", "distributed", "tornado"})
"""Loggers of Dask and what it uses. They would print tracebacks of a lost connection beside the error that names it."""


_TCP = re.compile(r"(?:tcp|tls)://(?P<host>\[[^\]/]+\]|[^:/\[\]]+):(?P<port>[0-9]{1,5})/?", re.ASCII)
_LISTENER_S, _HIGHEST_PORT = 5.0, 65_535


def _wait_for_listener(address: str) -> None:
    """Wait until a program accepts connections at an address of TCP. Dask's client prints tracebacks at exit if none does.

    Raises:
        OSError: none does within `_LISTENER_S`.
    """
    match = _TCP.fullmatch(address)
    if match is None or int(match["port"]) > _HIGHEST_PORT:
        return  # Dask's own message names what is wrong with it
    until = time.monotonic() + _LISTENER_S
    while True:
        try:
            socket.create_connection((match["host"].strip("[]"), int(match["port"])), _CONNECT_S).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.2)


class _Dask(WorkerPool):
    """The workers of a Dask scheduler. Their client's log in this process is off.

    Args:
        address: of the scheduler.

    Raises:
        UnavailableError: Dask is not installed.
        UserError: there is no scheduler, or it has no worker.
    """

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")  # an extra
        except ImportError as error:
            raise UnavailableError(
                f"--executor dask: needs Dask, which is not installed: {safe_excerpt(str(error))}.",
                f"Run: {DASK_INSTALL}",
            ) from error
        for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._address = address
        try:
            _wait_for_listener(address)
            self._client: Any = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False, name="swapstone")
        except Exception as error:
            raise UserError(
                f"There is no Dask scheduler at {safe_excerpt(address)}: {safe_excerpt(str(error) or type(error).__name__)}.",
                "Start one, and workers for it: dask scheduler; dask worker tcp://HOST:8786 --nthreads 1",
            ) from error
        threads = sum(self._workers().values())
        if not threads:
            self._client.close(timeout=1)
            raise UserError(
                f"The Dask scheduler at {safe_excerpt(address)} has no worker.",
                f"Start some: dask worker {safe(address)} --nthreads 1 --nworkers 4",
            )
        super().__init__(self._client.get_executor(pure=False), min(threads, MOST_WORKERS))

    def _workers(self) -> dict[str, int]:
        return {
            name: int(each["nthreads"]) for name, each in self._client.scheduler_info(n_workers=-1)["workers"].items()
        }

    def submit(self, job: bytes, avoid: str = "") -> Future[bytes]:
        others = [name for name in self._workers() if name != avoid] if avoid else []
        if not others:
            return super().submit(job)
        return self._client.get_executor(pure=False, workers=others).submit(self._run, job)  # type: ignore[no-any-return]

    def trouble(self) -> str:
        status = str(self._client.status)
        return (
            ""
            if status == "running"
            else f"the connection to the Dask scheduler at {safe_excerpt(self._address)} is {status}"
        )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            super().close()
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)


def is_custom(text: str) -> bool:
    """Return whether a text names a function of the user that returns an executor."""
    return text.partition(":")[0] not in {"threads", "processes", "dask"} and _OBJECT.fullmatch(text) is not None


def open_pool(text: str) -> WorkerPool:
    """Open the workers that a text names.

    Args:
        text: as `USAGE` has it.

    Raises:
        UserError: the text has another form, or there are no such workers.
    """
    kind, _, detail = text.partition(":")
    if kind in {"threads", "processes"}:
        count = int(detail) if re.fullmatch(r"[0-9]{1,6}", detail, re.ASCII) else 0
        if not 1 <= count <= MOST_WORKERS:
            raise UserError(
                f"--executor {safe_excerpt(text)} needs a number of workers.", f"For example: --executor {kind}:4"
            )
        return _Threads(count) if kind == "threads" else _Processes(count)
    if kind == "dask" and detail:
        return _Dask(detail)
    found = _OBJECT.fullmatch(text)
    if not found or kind == "dask":
        raise UserError(
            f"{safe_excerpt(text)!r} is no executor.",
            f"Known: {USAGE}. For example: --executor dask:tcp://scheduler:8786",
        )
    return _custom(text, found[1], found[2], int(found[3] or 0))


def _custom(text: str, module: str, name: str, count: int) -> WorkerPool:
    """Open the executor that a function of the user returns."""
    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise UserError(
            f"--executor {safe_excerpt(text)} made no executor: {type(error).__name__}: {safe_excerpt(str(error))}.",
            "MODULE:FACTORY names a function without arguments in a module that Python can import. Add its folder to PYTHONPATH.",
        ) from error
    if not isinstance(made, Executor):
        raise UserError(
            f"{safe_excerpt(text)} returned {type(made).__name__}, which is no concurrent.futures.Executor.",
            "Return an executor, for example dask_jobqueue's or mpi4py.futures.MPIPoolExecutor().",
        )
    workers = count or getattr(made, "_max_workers", None) or os.cpu_count() or 1
    return WorkerPool(made, max(1, min(int(workers), MOST_WORKERS)))
