# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `throughput`: the cost of kernel services, for one task and for eight tasks at once, after the rows of UnixBench.

docs/workloads-system.md describes each, and its differences to UnixBench.
"""

from __future__ import annotations

from swapstone.core.model import Cpus, Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING, WAITING

TASKS = 8
"""Number of tasks at once: the number of processors of the published comparison's machine."""

SEVERAL = f" ({TASKS} tasks)"
"""The end of the name of a workload with several tasks. `Workload.parameters` has their number."""


def _both(
    name: str,
    description: str,
    *,
    parameter: tuple[str, str] | None = None,
    waits: bool = False,
    parts: tuple[str, ...] = (),
) -> tuple[Workload, ...]:
    """Return a workload as one task, and as `TASKS` tasks at once, which compete for the processors.

    `parameter` is a pair (parameter, value); its value is passed to the program before the number of tasks.
    """
    origin = Source(file=f"{name.partition('(')[0]}.c")
    more = (parameter,) if parameter else ()
    prefix = f"{parameter[1]}:" if parameter else ""
    return (
        Workload(
            name=name,
            origin=origin,
            arguments=(f"{prefix}1",),
            parameters=(*more, ("tasks", "1")),
            description=description,
            metrics=WAITING if waits else COMPUTING,
            waits=waits,
            parts=parts,
        ),
        Workload(
            name=f"{name}{SEVERAL}",
            origin=origin,
            arguments=(f"{prefix}{TASKS}",),
            parameters=(*more, ("tasks", str(TASKS))),
            description=f"{description}: {TASKS} processes, each of which does that",
            metrics=WAITING,
            cpus=Cpus.ALL,
            threads=TASKS,
            waits=True,
            parts=parts,
        ),
    )


def _copy(size: int, blocks: str) -> tuple[Workload, ...]:
    description = f"copy a file with buffers of {size} bytes, {blocks}"
    return _both(f"file_copy({size})", description, parameter=("block_bytes", str(size)))


def _scripts(count: int, what: str) -> tuple[Workload, ...]:
    # A host has a shell and its tools; the image of a virtual machine needs them as a part. The workload runs on both.
    return _both(f"shell_scripts({count})", what, parameter=("scripts", str(count)), waits=True, parts=("busybox",))


SUITE = Suite(
    name="throughput",
    description="what the kernel's services cost, alone and with eight tasks at once: calls, pipes, files, processes",
    workloads=(
        *_both("integer", "compute with integers, records and texts, 60000 rounds"),
        *_both("floating_point", "compute with doubles and mathematical functions, 30000 rounds"),
        *_both("exec", "replace a process by its own program, 25 times", waits=True),
        *_copy(1024, "2000 of them"),
        *_copy(256, "2000 of them, 2 times"),
        *_copy(4096, "1000 of them"),
        *_both("pipe", "write 512 bytes into one's own pipe and read them back, 4000 times"),
        *_both("context_switch", "two processes hand a number to and fro through two pipes, 2000 times", waits=True),
        *_both("process_creation", "start a process that ends at once, and wait for it, 100 times", waits=True),
        *_scripts(1, "run a shell script of nine commands"),
        *_scripts(8, "run a shell script of nine commands eight times at once"),
        *_both("syscall", "five cheap system calls, 4000 times"),
    ),
)
