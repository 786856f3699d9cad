# SPDX-License-Identifier: MIT OR Apache-2.0
"""A static program that sets processors, priority and environment, and then executes what perf records.

perf keeps the mappings of a program that executed another one. It computes the place of a library's unwind tables from the lowest
address at which the process ever had the library mapped. So if `taskset` and `env` come before the program, stacks end in the first
function of their common libraries. A static program has none.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from pathlib import Path

from swapstone.core.model.directories import cache_dir
from swapstone.core.wire import TrialRequest

_COMPILE_S = 60
_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
/* launch PID_FILE PROCESSORS NICE NUMBER_OF_VARIABLES NAME=VALUE... PROGRAM ARGUMENT... */
static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 127;
}
int main(int count, char **arguments) {
    cpu_set_t set;
    int variables = count > 5 ? atoi(arguments[4]) : -1;
    if (variables < 0 || variables > count - 6) return 125;
    if (*arguments[1]) {
        FILE *file = fopen(arguments[1], "w");
        if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) return failed(arguments[1]);
    }
    CPU_ZERO(&set);
    for (char *each = strtok(arguments[2], ","); each; each = strtok(NULL, ",")) CPU_SET(atoi(each), &set);
    if (CPU_COUNT(&set) && sched_setaffinity(0, sizeof set, &set) != 0) return failed("sched_setaffinity");
    if (atoi(arguments[3])) setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + atoi(arguments[3]));
    char **program = arguments + 5 + variables;
    char **environment = calloc((size_t)variables + 1, sizeof *environment);
    if (!environment) return failed("calloc");
    memcpy(environment, arguments + 5, (size_t)variables * sizeof *environment);
    execve(*program, program, environment);
    return failed(*program);
}
"""


def launched(request: TrialRequest, pid_file: Path | None = None) -> tuple[str, ...] | None:
    """Return the command that starts a program by the static launcher; None where that can't be compiled, or the program has no path.

    Args:
        request: arguments, environment, processors and priority.
        pid_file: gets the process's number, which the program keeps; None for none.
    """
    if "/" not in request.arguments[0] or any(cpu >= _MOST_PROCESSORS for cpu in request.cpus):
        return None
    if (launcher := _launcher()) is None:
        return None
    variables = [f"{name}={value}" for name, value in request.environment]
    numbers = (",".join(map(str, request.cpus)), str(request.nice or 0), str(len(variables)))
    return (str(launcher), str(pid_file or ""), *numbers, *variables, *request.arguments)


_MOST_PROCESSORS = 1024  # CPU_SETSIZE


@functools.cache
def _launcher() -> Path | None:
    """Return the launcher, compiled now or before; None if it can't be."""
    path = cache_dir() / "instruments" / f"launch-{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}"
    if path.is_file():
        return path
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        compile_c(_SOURCE, part, "-static")
        part.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path


def compile_c(source: str, made: Path, *options: str) -> None:
    """Compile a C source to a program, or with options to something else.

    Raises:
        OSError, subprocess.SubprocessError: there is no compiler, or it fails.
    """
    command = ("cc", "-O2", "-o", str(made), "-x", "c", "-", *options)
    subprocess.run(command, input=source.encode(), check=True, capture_output=True, timeout=_COMPILE_S)
