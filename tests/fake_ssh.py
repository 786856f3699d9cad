# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program in ssh's place that runs the commands on this machine, so that it is a board."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_SCRIPT = """#!/bin/sh
echo $$ >>{folder}/pids
printf '%s\\n' "$@" >>{folder}/called
[ ! -e {folder}/down ] || {{ echo 'connect to host board port 22: Connection refused' >&2; exit 255; }}
while [ "$1" != -- ]; do shift; done
shift 2
SWAPSTONE_BOARD_LOCKS={folder} XDG_CACHE_HOME={folder}/cache; export SWAPSTONE_BOARD_LOCKS XDG_CACHE_HOME
{rest}
"""
HONEST = 'exec /bin/sh -c "$*"'


class FakeSsh:
    """The program, in a folder of a test.

    Args:
        folder: empty; locks, the board's folder and the program are in it.
        rest: shell commands that end the program.
    """

    def __init__(self, folder: Path, rest: str = HONEST) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "ssh").write_text(_SCRIPT.format(folder=folder, rest=rest))
        (self.bin / "ssh").chmod(0o755)

    @property
    def path(self) -> str:
        """Return a value of PATH in which it comes first."""
        return f"{self.bin}:{os.environ['PATH']}"

    @property
    def board(self) -> Path:
        """Return the board's folder."""
        return self.folder / "cache" / "swapstone-board"

    def called(self) -> str:
        """Return all arguments of all calls, one a line."""
        return (self.folder / "called").read_text()

    def cut(self) -> None:
        """End all sessions at once, as a lost connection does."""
        pids = [int(line) for line in (self.folder / "pids").read_text().split()]
        (self.folder / "pids").write_text("")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Let it come first in PATH of this process."""
        before = os.environ["PATH"]
        os.environ["PATH"] = self.path
        try:
            yield
        finally:
            os.environ["PATH"] = before
