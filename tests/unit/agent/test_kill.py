# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which signals the agent sends when it kills: never to itself, and never to all processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.targets.agent_build import agent_sources

# Instead of sending signals, the calls of the port print them: a mistake would kill this machine's processes.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "kill.h"
int port_getpid(void) { return 300; }
int port_getpgrp(void) { return 299; }
int port_kill(int pid, int signal) { printf("kill %d %d\\n", pid, signal); return 0; }
int port_killpg(int group, int signal) { printf("killpg %d %d\\n", group, signal); return 0; }
int main(int count, char **arguments) {
    (void)count;
    kill_with_group(atoi(arguments[1]), atoi(arguments[2]));
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    source = next(path for path in agent_sources() if path.name == "kill.c")
    (folder / "main.c").write_text(MAIN)
    made = folder / "kill"
    subprocess.run(["cc", "-I", source.parent, folder / "main.c", source, "-o", made], check=True)
    return made


@pytest.mark.parametrize(
    ("pid", "group", "sent"),
    [
        (400, 400, "killpg 400 9\nkill 400 9\n"),
        (400, 299, "kill 400 9\n"),  # a child that has not called setsid yet
        (400, 0, "kill 400 9\n"),
        (400, 1, "kill 400 9\n"),  # kill(-1, ...) means every process
        (400, -1, "kill 400 9\n"),
        (0, 2, "killpg 2 9\n"),
        (2, 0, "kill 2 9\n"),
        (0, 400, "killpg 400 9\n"),
        (-1, -1, ""),  # no process was started
        (0, 0, ""),
        (1, 1, ""),
        (300, 299, ""),
    ],
)
def test_only_processes_of_trials_are_killed(program: Path, pid: int, group: int, sent: str) -> None:
    result = subprocess.run([program, str(pid), str(group)], capture_output=True, text=True, check=True)
    assert result.stdout == sent


def test_no_other_file_of_the_agent_kills_by_group() -> None:
    callers = {path.name for path in agent_sources() if "port_killpg(" in path.read_text()}
    assert callers == {"kill.c", "port.h", "linux.c"}
