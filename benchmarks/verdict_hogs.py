# SPDX-License-Identifier: MIT OR Apache-2.0
"""Load on the machine while verdicts are made: processes in a group of their own, which ends with the benchmark.

python -m benchmarks.verdict_hogs CONDITION FOLDER      run one until it is killed, or its parent ends
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

IDLE = "idle"
MEMORY_BYTES = 256 << 20
FILE_BYTES = 40 << 20
FILES = 5  # 200 MB at the most


@contextlib.contextmanager
def beside(
    command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a command for the time of the context in a process group of its own, and end the group."""
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def load(condition: str, folder: Path) -> Iterator[None]:
    """Load the machine for the time of the context.

    Args:
        condition: ``idle`` or a name in `HOGS`.
        folder: for files; they are deleted at the end.
    """
    if condition == IDLE:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-I", __file__, condition, str(folder), str(os.getpid())]
    try:
        with beside(command):
            yield
    finally:
        for path in folder.glob("hog-*"):
            path.unlink(missing_ok=True)


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def _bursts(_folder: Path, alive: Callable[[], bool]) -> None:
    """Spin for 0.2 to 1 s at random times."""
    times = random.SystemRandom()
    while alive():
        time.sleep(times.uniform(0.1, 1.5))
        _spin(times.uniform(0.2, 1.0))


def _memory(_folder: Path, alive: Callable[[], bool]) -> None:
    """Write to every page of 256 MB and release them, without a pause."""
    while alive():
        block = bytearray(MEMORY_BYTES)
        block[::4096] = bytes([1]) * len(range(0, MEMORY_BYTES, 4096))
        del block


def _io(folder: Path, alive: Callable[[], bool]) -> None:
    """Write and sync files in turn, 200 MB at the most."""
    block, number = os.urandom(1 << 20), 0
    while alive():
        with (folder / f"hog-{number % FILES}").open("wb") as file:
            for _ in range(FILE_BYTES // len(block)):
                file.write(block)
                file.flush()
                if not alive():
                    return
            os.fsync(file.fileno())
        number += 1


HOGS: dict[str, Callable[[Path, Callable[[], bool]], None]] = {
    "bursts": _bursts,
    "memory": _memory,
    "io": _io,
}

CONDITIONS = (IDLE, *HOGS)


def main(condition: str, folder: str, parent: str) -> int:
    """Load the machine until the parent process, which may have ended already, ends."""
    HOGS[condition](Path(folder), lambda: os.getppid() == int(parent))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
