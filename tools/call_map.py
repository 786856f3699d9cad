# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which test calls which function, also in the processes that a test starts.

`tools/mutate` puts this file and a `sitecustomize.py` that calls `start` into the copied tree. Each Python process there then appends a
line "TEST<tab>FILE<tab>FUNCTION" for the first call of each function by each test. It is also a plugin of pytest, which writes the
outcome and the duration of each test. A function in Python that receives each call makes a process several times slower, but a killed
process has written its lines. In the process of the tests itself the profiler in C does the same work.

Environment variables:

    CALL_MAP_CALLS    file to append to
    CALL_MAP_TESTS    JSON file with the tests: {NODE: [OUTCOME, SECONDS]}
    CALL_MAP_SOURCE   folder of the sources that count

PYTEST_DONT_REWRITE: this module is imported before pytest could rewrite its assertions, and has none.
"""

from __future__ import annotations

import contextlib
import cProfile
import functools
import json
import os
import sys
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest


class Tracer:
    """Appends a line for each function that the current test calls for the first time."""

    def __init__(self, calls: str, source: str) -> None:
        self._file = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._source = source.rstrip("/") + "/"
        self._seen: set[CodeType] = set()

    def reset(self) -> None:
        """Begin another test, or another process."""
        self._seen = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Receive an event of `sys.setprofile`."""
        if event != "call":
            return
        code = frame.f_code
        if code in self._seen:
            return
        self._seen.add(code)
        if test := os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]:
            self.write(test, (code,))

    def write(self, test: str, codes: Iterable[CodeType]) -> None:
        """Append a line for each function of the sources."""
        for code in codes:
            function = code.co_qualname.partition(".<locals>")[0]
            if code.co_filename.startswith(self._source) and not function.startswith("<"):
                file = code.co_filename.removeprefix(self._source)
                with contextlib.suppress(OSError):  # a test may limit the size of files
                    os.write(self._file, f"{test}\t{file}\t{function}\n".encode())


@functools.cache
def start() -> Tracer | None:
    """Trace this process and its forks, if the environment variables are set."""
    calls, source = os.environ.get("CALL_MAP_CALLS"), os.environ.get("CALL_MAP_SOURCE")
    if not calls or not source:
        return None
    tracer = Tracer(calls, source)
    os.register_at_fork(after_in_child=lambda: _start_in_fork(tracer))
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    return tracer


_profilers: list[cProfile.Profile] = []
"""Of the test that runs."""


def _start_in_fork(tracer: Tracer) -> None:
    tracer.reset()
    if _profilers:
        _profilers.pop().disable()
        sys.setprofile(tracer)


class Caches:
    """The caches of functions. A cached result would hide a call from all tests but the first."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._found: list[functools._lru_cache_wrapper[Any]] = []

    def clear(self) -> None:
        """Clear the caches of all imported modules of swapstone."""
        for name in [name for name in sys.modules if name.startswith("swapstone.") and name not in self._modules]:
            self._modules.add(name)
            for value in list(vars(sys.modules[name]).values()):
                values = [value, *vars(value).values()] if isinstance(value, type) else [value]
                self._found += [each for each in values if isinstance(each, functools._lru_cache_wrapper)]
        for each in self._found:
            each.cache_clear()


_caches = Caches()
_tests: dict[str, tuple[str, float]] = {}


def pytest_configure() -> None:
    """Trace no import of a test."""
    sys.setprofile(None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test. A fork of this process goes on with the function in Python."""
    _caches.clear()
    tracer = start()
    if tracer is None:
        return (yield)
    tracer.reset()
    profiler, process = cProfile.Profile(subcalls=False, builtins=False), os.getpid()
    _profilers[:] = [profiler]
    profiler.enable()
    try:
        return (yield)
    finally:
        if os.getpid() == process:
            profiler.disable()
            tracer.write(item.nodeid, {entry.code for entry in profiler.getstats() if isinstance(entry.code, CodeType)})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the outcome and duration of a stage of a test."""
    outcome, seconds = _tests.get(report.nodeid, ("passed", 0.0))
    _tests[report.nodeid] = (outcome if report.passed else report.outcome, seconds + report.duration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests; with several workers, the controller does."""
    path = os.environ.get("CALL_MAP_TESTS")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(_tests))
