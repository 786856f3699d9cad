# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `fs`: boot from a root file system, and reading of its files. docs/fs.md defines each metric."""

from __future__ import annotations

from swapstone.core.model import Direction, MachineNeeds, Metric, PartOrigin, Quantity, Suite, Workload

_LOWER = Direction.LOWER


def _time(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="ns", quantity=Quantity.TIME, better=_LOWER, meaning=meaning, leads=True)


_BUSY = Metric(
    name="busy",
    unit="ns",
    quantity=Quantity.EVENTS,
    better=_LOWER,
    meaning="of that time, the processor was not idle: on the virtual clock the instructions of program and kernel",
)
_DEVICE = Metric(
    name="device_bytes",
    unit="B",
    quantity=Quantity.EVENTS,
    better=_LOWER,
    meaning="read from the device meanwhile",
)
_REQUESTS = Metric(
    name="device_reads", unit="1", quantity=Quantity.EVENTS, better=_LOWER, meaning="requests to the device for that"
)
_IMAGE = Metric(
    name="image_bytes", unit="B", quantity=Quantity.SIZE, better=_LOWER, meaning="size of the image", exact=True
)
_MEMORY = (
    Metric(
        name="memory",
        unit="B",
        quantity=Quantity.MEMORY,
        better=_LOWER,
        meaning="taken by the mount and the reads, with the page cache",
    ),
    Metric(
        name="memory_kept",
        unit="B",
        quantity=Quantity.MEMORY,
        better=_LOWER,
        meaning="of that, still taken after the kernel dropped its caches, while the root is mounted",
    ),
)
_TO_INIT = _time("to_init", "from the mount of the root until its init, a shell, has printed its first byte")
_READ = _time("read_time", "elapsed time to read every file once, folder by folder in the order of the names")


class RootWork(PartOrigin, frozen=True, kw_only=True):
    """The program `root.c`, which mounts the root of the variant."""

    part: str = "fs"
    subject: str = "swapstone.parts.fs.fs_subject:RootReader"


def _work(name: str, description: str, metrics: tuple[Metric, ...]) -> Workload:
    return Workload(
        name=name,
        origin=RootWork(),
        description=description,
        metrics=metrics,
        waits=True,
        timeout_ms=120_000,
        machine=MachineNeeds(parts=("busybox",), modules=("configfs", "null_blk", "squashfs", "erofs", "ext4")),
    )


SUITE = Suite(
    name="fs",
    description="boot from a root file system, and read its files",
    factors=("fs",),
    workloads=(
        _work(
            "boot",
            "mount the root and start its init, a shell",
            (_TO_INIT, _BUSY, _DEVICE, _REQUESTS, _IMAGE),
        ),
        _work(
            "cold-read",
            "read every file of the root, which was never read before",
            (_READ, _BUSY, _DEVICE, _REQUESTS, *_MEMORY),
        ),
        _work("warm-read", "read every file of the root once more", (_READ, _BUSY, _DEVICE)),
    ),
)
