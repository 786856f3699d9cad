# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `core`: the processor and the compiler, with work of the kinds of EEMBC's CoreMark. Its times are no CoreMark scores."""

from __future__ import annotations

from swapstone.core.model import ALL_PROCESSORS, Cpus, Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING, WAITING

_PARTS = (
    ("all", "one iteration: list, matrix, state machine, CRC"),
    ("list", "link, reverse, search and sort a list of 64 elements"),
    ("matrix", "multiply two matrices of 16 x 16 numbers of 16 bits"),
    ("state", "read 512 characters with a state machine for numbers"),
    ("crc", "CRC-16/ARC of 512 bytes, bit by bit"),
)


def _both(part: str, description: str) -> tuple[Workload, Workload]:
    origin = Source(file="core.c")
    return (
        Workload(
            name=f"core_{part} (1 thread)",
            origin=origin,
            arguments=(f"1:{part}",),
            parameters=(("part", part), ("threads", "1")),
            description=description,
            metrics=COMPUTING,
        ),
        Workload(
            name=f"core_{part} (n threads)",
            origin=origin,
            arguments=(f"n:{part}",),
            parameters=(("part", part), ("threads", "n")),
            description=f"{description}: a thread for each processor",
            metrics=WAITING,
            cpus=Cpus.ALL,
            threads=ALL_PROCESSORS,
            waits=True,
        ),
    )


SUITE = Suite(
    name="core",
    description="the processor and the compiler: list, matrix, state machine, CRC; no CoreMark scores",
    workloads=tuple(workload for part, description in _PARTS for workload in _both(part, description)),
)
