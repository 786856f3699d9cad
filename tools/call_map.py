# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which test calls which function, also in the processes that a test starts.

`tools/mutate` puts this file and a `sitecustomize.py` that calls `start` into the copied tree. Each Python process there then appends a
line "TEST<tab>FILE<tab>FUNCTION" for the first call of each function by each test. It is also a plugin of pytest, which writes the
outcome and the duration of each test. Environment variables:

    CALL_MAP_CALLS    file to append to
    CALL_MAP_TESTS    JSON file with the tests: {NODE: [OUTCOME, SECONDS]}
    CALL_MAP_SOURCE   folder of the sources that count

PYTEST_DONT_REWRITE: this module is imported before pytest could rewrite its assertions, and has none.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
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
        if not code.co_filename.startswith(self._source):
            return
        function = code.co_qualname.partition(".<locals>")[0]
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if test and not function.startswith("<"):
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
    os.register_at_fork(after_in_child=tracer.reset)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    return tracer


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin a test."""
    del item
    _caches.clear()
    if tracer := start():
        tracer.reset()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the outcome and duration of a stage of a test."""
    outcome, seconds = _tests.get(report.nodeid, ("passed", 0.0))
    _tests[report.nodeid] = (outcome if report.passed else report.outcome, seconds + report.duration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests; with several workers, the controller does."""
    path = os.environ.get("CALL_MAP_TESTS")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(_tests))
