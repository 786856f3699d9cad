# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run commands of Swapstone and functions in forks of this process, with a fault at one of their operations."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from tests.faults.injection import Fault, Injection, Operation

TIMEOUT_S = 600

Action = Callable[[], int]
"""What a child does; it returns an exit status."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """A child that ended.

    Attributes:
        status: its exit status; negative after a signal.
        out, err: what it printed.
        operations: those that it began, if they were counted.
    """

    status: int
    out: str
    err: str
    operations: tuple[Operation, ...] = ()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where children run.

    Attributes:
        folder: their working directory. Operations below it count.
        environment: all variables.
    """

    folder: Path
    environment: Mapping[str, str]


def command(*arguments: str) -> Action:
    """Return an action that runs a command line."""

    def run() -> int:
        from swapstone.__main__ import main

        sys.argv = ["swapstone", *arguments]
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    return run


def reported(function: Callable[[], object]) -> Action:
    """Return an action that runs a function; an error is printed as the command line prints it."""

    def run() -> int:
        from swapstone.cli.main import report_error

        try:
            function()
        except Exception as error:
            return report_error(error)
        return 0

    return run


def run_child(place: Place, action: Action, fault: Fault | None = None, *, count: bool = False) -> Ended:
    """Fork, and run an action in the child.

    Args:
        place: where.
        action: what the child does.
        fault: what fails.
        count: whether to return the operations.
    """
    with contextlib.ExitStack() as files:
        out, err, log = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        child = os.fork()
        if child == 0:
            _become(place, out.fileno(), err.fileno())
            injection = Injection((place.folder,), fault) if fault or count else None
            _end(action, injection, log.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err, log):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    operations = tuple(Operation(*pair) for pair in json.loads(texts[2] or "[]"))
    return Ended(os.waitstatus_to_exitcode(status), texts[0], texts[1], operations)


def _become(place: Place, out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(place.environment)
    os.chdir(place.folder)
    tempfile.tempdir = None  # TMPDIR is another one
    signal.alarm(TIMEOUT_S)


def _end(action: Action, injection: Injection | None, log: int) -> NoReturn:
    status = 1
    try:
        if injection is not None:
            injection.install()
        status = action()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        if injection is not None:
            with open(log, "wb", closefd=False) as file:
                file.write(json.dumps([(one.kind, one.path) for one in injection.operations]).encode())
        os._exit(status)
