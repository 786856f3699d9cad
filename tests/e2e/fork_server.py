# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server for tests of the command line: it imports the program once and runs each command in a fork.

`tests.e2e.cli` starts it with the descriptor of a socket. A request is JSON (arguments, environment, folder, and the numbers of descriptors
that are closed) with two descriptors: standard output and standard error. The server answers with the process number, then with the exit
status.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

LONGEST_REQUEST_BYTES = 1 << 18


def serve(channel: socket.socket) -> None:
    """Answer requests until the socket is closed."""
    from swapstone.__main__ import main

    _prepare()
    while True:
        request, files, _, _ = socket.recv_fds(channel, LONGEST_REQUEST_BYTES, 2)
        if not request:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            _become(json.loads(request), *files)
            try:
                main()
            except SystemExit as end:
                _end(end.code)
            os.abort()  # the program always exits by itself
        for file in files:
            os.close(file)
        channel.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _prepare() -> None:
    """Leave out what tests wait for, and import what forks would."""
    top = str(Path(__file__).resolve().parents[2])
    sys.path.append(top)
    importlib.import_module("tests.no_sync").leave_out_fsync()
    importlib.import_module("tests.uncompared_snapshots").leave_out_cold_starts()
    importlib.import_module("tests.preloaded").import_all()
    sys.path.remove(top)


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    """Set descriptors, environment, folder and arguments as for a new process."""
    for number, file in enumerate((out, err), start=1):
        os.dup2(file, number)
        os.close(file)
    for number in asked.get("closed", ()):  # as the interpreter does when it starts with closed descriptors
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    assert isinstance(asked["environment"], dict)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(str(asked["folder"]))
    assert isinstance(asked["arguments"], list)
    sys.argv = ["swapstone", *asked["arguments"]]


def _end(status: object) -> NoReturn:
    """Wait for threads and flush, as the interpreter does. Skip its finalization, which takes longer than most commands."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    assert isinstance(status, int)
    os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # finalization would print warnings of DuckDB's bindings about frozen objects
