# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wall time without the agent's own pauses, and each counter of rusage under its own name."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from swapstone.core.model import system_file
from swapstone.core.wire import ProcessOutcome
from tests.unit.agent.harness import one, request

PAUSE_NS = 300_000_000

COUNTS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    struct rusage u;
    for (int i = 0; i < 400; i++) usleep(100);
    char *p = malloc(40 << 20);
    for (int i = 0; i < 40 << 20; i += 4096) p[i] = 1;
    getrusage(RUSAGE_SELF, &u);
    printf("%ld %ld %ld %ld\n", u.ru_nvcsw, u.ru_nivcsw, u.ru_minflt, u.ru_majflt);
    fflush(stdout);
    _exit(0);
}
"""


class Slow(threading.Thread):
    """Lets a reader of a named pipe wait for `PAUSE_NS` after it has opened the pipe."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.held_ns = 0
        self.given_up = threading.Event()
        os.mkfifo(path)

    def run(self) -> None:
        while not self.given_up.is_set():
            try:
                pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                assert error.errno == errno.ENXIO  # there is no reader yet
                time.sleep(0.001)
                continue
            start = time.monotonic_ns()
            time.sleep(PAUSE_NS / 1e9)
            self.held_ns = time.monotonic_ns() - start
            os.close(pipe)
            return


def test_wall_time_excludes_the_time_in_which_the_agent_held_the_process(agent: Path, tmp_path: Path) -> None:
    """The agent reads observations while the process is stopped at its exit. Here one of them takes long.

    Wall time and pause together fit into the time in which the agent ran, on a busy machine too.
    """
    slow = Slow(tmp_path / "slow")
    slow.start()
    start = time.monotonic_ns()
    try:
        answer = one(agent, request(tmp_path, "/bin/true", observe=(system_file(str(slow.path)),)))
    finally:
        took_ns = time.monotonic_ns() - start
        slow.given_up.set()
        slow.join()
    if not slow.held_ns:
        pytest.skip("this agent does not wait for a named pipe")
    assert answer.outcome is ProcessOutcome.EXITED
    assert slow.held_ns >= PAUSE_NS
    assert dict(answer.facts)["wall_ns"] + slow.held_ns <= took_ns
    assert answer.notes == ()  # the pause is no early end of its main thread either


def test_each_counter_of_a_process_has_its_own_name(agent: Path, tmp_path: Path) -> None:
    """The program prints its counters just before it exits; afterwards only few more are counted."""
    (tmp_path / "counts.c").write_text(COUNTS)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "counts", tmp_path / "counts.c"], check=True)
    answer = one(agent, request(tmp_path, tmp_path / "counts"))
    printed = [int(word) for word in answer.stdout.split()]
    names = ("nvcsw", "nivcsw", "minflt", "majflt")
    assert printed[0] >= 200 and printed[2] >= 10_000
    facts = dict(answer.facts)
    for name, least in zip(names, printed, strict=True):
        assert least <= facts[name] <= least + 150, (name, printed, facts)
