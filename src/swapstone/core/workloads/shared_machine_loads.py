# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads on machines that Swapstone does not boot: this one and boards. docs/latency.md has the differences to virtual machines."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swapstone.core.model import IDLE, Load, LoadIndicator
from swapstone.core.model.load import OTHERS_CPU_SECONDS

_STRESS = "exec {stress-ng} --quiet --temp-path {folder}"
_PRESSED = msgspec.structs.replace(OTHERS_CPU_SECONDS, least=0.3, per_processor=True)
_FEWEST_PROCESSES = 4

PROGRAMS = ("cyclictest", "iperf3", "memtester", "stress-ng")
"""Programs of packages that loads use; each is also the name of its part of an image."""

LOADS: tuple[Load, ...] = (
    msgspec.structs.replace(IDLE, indicators=()),  # others may use the machine: that is a caveat, and no load
    Load(
        name="cpu",
        description="processes that compute, four or as many as there are processors",
        beside=(f"{_STRESS} --cpu {{processes}} --cpu-method all",),
        settle_ms=300,
        indicators=(_PRESSED,),
    ),
    Load(
        name="memory",
        description="two processes that map, fill and check memory, one that copies it, and memtester",
        beside=(f"{_STRESS} --vm 2 --vm-bytes 24M --memcpy 1", "exec {memtester} 8M"),
        settle_ms=300,
        indicators=(
            msgspec.structs.replace(OTHERS_CPU_SECONDS, least=0.3),
            # Each page that a process maps and writes is a fault (mm/vmstat.c). The number of mapped pages shows nothing on a machine
            # where other programs map and unmap theirs.
            LoadIndicator(what="page faults", file="/proc/vmstat", line="pgfault", field=0, least=2000),
        ),
    ),
    Load(
        name="io",
        description="two processes that write, read and remove files, and one that mixes accesses, on the disk of a folder of Swapstone",
        beside=(f"{_STRESS} --hdd 2 --hdd-bytes 8M --hdd-opts fsync --iomix 1 --iomix-bytes 8M",),
        settle_ms=300,
        indicators=(
            # In units of 1 KiB (mm/vmstat.c): half as many as sectors.
            LoadIndicator(
                what="KiB written to block devices", file="/proc/vmstat", line="pgpgout", field=0, least=1000
            ),
        ),
    ),
    Load(
        name="network",
        description="two streams of TCP over the loopback device",
        beside=("exec {iperf3} -s -B 127.0.0.1", "sleep 0.2; exec {iperf3} -c 127.0.0.1 -P 2 -t 86400 -i 0"),
        settle_ms=500,
        indicators=(
            LoadIndicator(what="bytes through lo", file="/proc/net/dev", line="lo", field=0, least=10_000_000),
        ),
    ),
    Load(
        name="cyclictest",
        description="one thread of the highest priority that wakes each 100 us",
        beside=("exec {cyclictest} -m -h 100 -q -i 100 -t 1 -p 99",),
        settle_ms=300,
        real_time=True,
        indicators=(
            LoadIndicator(
                what="context switches of others",
                file="/proc/stat",
                line="ctxt",
                field=0,
                less=("nvcsw", "nivcsw"),
                least=9_000,
            ),
        ),
    ),
)
"""The loads that need no machine of their own. Their commands have placeholders for programs, the folder and a number of processes."""


def shared_machine_load(name: str) -> Load | None:
    """Return the load of a name; None if it needs a machine of its own."""
    return next((load for load in LOADS if load.name == name), None)


def programs_of(load: Load) -> tuple[str, ...]:
    """Return the programs of `PROGRAMS` that a load's commands start."""
    return tuple(name for name in PROGRAMS if any(f"{{{name}}}" in command for command in load.beside))


def filled_load(load: Load, commands: Mapping[str, str], folder: str, processors: int) -> Load:
    """Return a load whose commands have no placeholders.

    Args:
        load: of `LOADS`.
        commands: by program, the words of a shell that start it.
        folder: on the target, in which they may write.
        processors: of the target.
    """
    values = {**commands, "folder": folder, "processes": str(max(_FEWEST_PROCESSES, processors))}

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    return msgspec.structs.replace(load, beside=tuple(map(filled, load.beside)))
