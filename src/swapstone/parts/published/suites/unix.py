# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `unix`: UnixBench's twelve tests, one copy and a copy for each processor, under the names of its programs.

`integer` and `floating_point` are other work than Dhrystone and Whetstone and have other names. docs/os-suite.md describes each.
"""

from __future__ import annotations

from swapstone.core.model import ALL_PROCESSORS, Cpus, Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING, WAITING

ONE, ALL = " (1 copy)", " (n copies)"
"""The end of the names of a test's two workloads."""


def _both(
    test: str,
    file: str,
    description: str,
    *,
    parameter: tuple[str, str] | None = None,
    waits: bool = False,
) -> tuple[Workload, Workload]:
    """Return a test as one copy, pinned to a processor, and as a copy for each processor.

    `parameter` is a pair (parameter, value); its value is passed to the program before the copies.
    """
    origin = Source(file=file)
    more = (parameter,) if parameter else ()
    prefix = f"{parameter[1]}:" if parameter else ""
    return (
        Workload(
            name=f"{test}{ONE}",
            origin=origin,
            arguments=(f"{prefix}one",),
            parameters=(*more, ("tasks", "1")),
            description=description,
            metrics=WAITING if waits else COMPUTING,
            waits=waits,
        ),
        Workload(
            name=f"{test}{ALL}",
            origin=origin,
            arguments=(f"{prefix}all",),
            parameters=(*more, ("tasks", "n")),
            description=f"{description}: a process for each processor, each of which does that",
            metrics=WAITING,
            cpus=Cpus.ALL,
            threads=ALL_PROCESSORS,
            waits=True,
        ),
    )


def _copy(test: str, size: int, blocks: str) -> tuple[Workload, ...]:
    description = f"copy a file with buffers of {size} bytes, {blocks}"
    return _both(test, "file_copy.c", description, parameter=("block_bytes", str(size)))


def _shell(count: int, what: str) -> tuple[Workload, ...]:
    description = f"{what} with the shell and the tools of the compared C library"
    parameter = ("scripts", str(count))
    return _both(f"shell{count}", "shell.c", description, parameter=parameter, waits=True)


SUITE = Suite(
    name="unix",
    description="UnixBench's twelve tests, one copy and a copy for each processor; the shell is of the compared C library",
    workloads=(
        *_both("integer", "integer.c", "compute with integers, records and texts, 60000 rounds"),
        *_both("floating_point", "floating_point.c", "compute with doubles and mathematical functions, 30000 rounds"),
        *_both("execl", "exec.c", "replace a process by its own program, 25 times", waits=True),
        *_copy("fstime", 1024, "2000 of them"),
        *_copy("fsbuffer", 256, "2000 of them, 2 times"),
        *_copy("fsdisk", 4096, "2000 of them"),
        *_both("pipe", "pipe.c", "write 512 bytes into one's own pipe and read them back, 4000 times"),
        *_both(
            "context1",
            "context_switch.c",
            "two processes hand a number to and fro through two pipes, 2000 times",
            waits=True,
        ),
        *_both(
            "spawn", "process_creation.c", "start a process that ends at once, and wait for it, 100 times", waits=True
        ),
        *_shell(1, "run a shell script"),
        *_shell(8, "run a shell script eight times at once"),
        *_both("syscall", "syscall.c", "five cheap system calls, 4000 times"),
    ),
)
