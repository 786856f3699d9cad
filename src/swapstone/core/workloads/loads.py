# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads: what else a virtual machine does during a measurement. docs/latency.md has the reasons for each choice."""

from __future__ import annotations

import msgspec

from swapstone.core.model import IDLE, Load, LoadIndicator, MachineNeeds, find_named
from swapstone.core.model.load import OTHERS_CPU_SECONDS

_STRESS = "exec stress-ng --quiet --temp-path"
_DISK = "/sys/kernel/config/nullb/loaddisk"  # a disk made through configfs is named like its folder
_MAKE_DISK = (
    "[ -d /sys/kernel/config/nullb ] || mount -t configfs configfs /sys/kernel/config",  # the factor swap may have mounted it
    f"mkdir {_DISK}",
    # 64 MiB in memory; a timer completes each request after 10 us.
    f"cd {_DISK} && echo 1 >memory_backed && echo 64 >size && echo 2 >irqmode && echo 10000 >completion_nsec && echo 1 >power",
    "/sbin/mke2fs -q -t ext4 /dev/loaddisk",
    "mkdir -p /mnt/load && mount -t ext4 /dev/loaddisk /mnt/load",
)
_PRESSED = msgspec.structs.replace(OTHERS_CPU_SECONDS, least=0.3)

LOADS: tuple[Load, ...] = (
    IDLE,
    Load(
        name="cpu",
        description="four processes that compute",
        beside=(f"{_STRESS} /tmp --cpu 4 --cpu-method all",),
        settle_ms=300,
        machine=MachineNeeds(parts=("stress-ng",)),
        indicators=(_PRESSED,),
    ),
    Load(
        name="memory",
        description="two processes that map, fill and check memory, one that copies it, and memtester",
        beside=(f"{_STRESS} /tmp --vm 2 --vm-bytes 24M --memcpy 1", "exec memtester 8M"),
        settle_ms=300,
        machine=MachineNeeds(parts=("stress-ng", "memtester")),
        indicators=(
            _PRESSED,
            # 9100 are mapped when all is filled, of them 2048 by memtester and 3072 by each of stress-ng's two processes, which unmap
            # them after some 600 million instructions, and map and fill them again.
            LoadIndicator(
                what="anonymous pages",
                file="/proc/vmstat",
                line="nr_anon_pages",
                field=0,
                least=6000,
                least_after=2500,
                level=True,
            ),
        ),
    ),
    Load(
        name="io",
        description="two processes that write, read and remove files, and one that mixes accesses, on ext4 on a disk in memory",
        beside=(f"{_STRESS} /mnt/load --hdd 2 --hdd-bytes 8M --iomix 1 --iomix-bytes 8M",),
        settle_ms=300,
        machine=MachineNeeds(
            parts=("stress-ng", "mke2fs"),
            modules=("configfs", "null_blk", "ext4"),
            prepare=_MAKE_DISK,
        ),
        indicators=(
            LoadIndicator(what="sectors written", file="/proc/diskstats", line="loaddisk", field=6, least=5000),
        ),
    ),
    Load(
        name="network",
        description="two streams of TCP over the loopback device",
        beside=("exec iperf3 -s -B 127.0.0.1", "sleep 0.1; exec iperf3 -c 127.0.0.1 -P 2 -t 86400 -i 0"),
        settle_ms=300,
        machine=MachineNeeds(parts=("iperf3",)),
        indicators=(
            LoadIndicator(what="bytes through lo", file="/proc/net/dev", line="lo", field=0, least=10_000_000),
        ),
    ),
    Load(
        name="cyclictest",
        description="one thread of the highest priority that wakes each 100 us",
        beside=("exec cyclictest -m -h 100 -q -i 100 -t 1 -p 99",),
        settle_ms=100,
        machine=MachineNeeds(parts=("cyclictest",)),
        indicators=(
            # It wakes 10000 times a second. Each wake-up is a switch to it and one back. If another task was running, the agent counts
            # the switch back as that task's own. A trial that sleeps as often itself has as many switches without this load, so the
            # indicator holds only for trials that compute.
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
    # A positive control: a measurement must find the 2 ms.
    Load(
        name="planted",
        description="a kernel module of this project that disables interrupts for 2 ms every 100 ms",
        machine=MachineNeeds(
            own_modules=("planted",),
            prepare=("busybox insmod /planted.ko every_us=100000 for_us=2000",),
        ),
        indicators=(
            LoadIndicator(
                what="planted sections", file="/sys/module/planted/parameters/sections", line="", field=0, least=4
            ),
        ),
    ),
)
"""Every load. A new one is one entry here."""


def find_load(name: str) -> Load:
    """Return the load of a name.

    Raises:
        UserError: there is none; the hint gives near names.
    """
    return find_named("load", name, {load.name: load for load in LOADS})
