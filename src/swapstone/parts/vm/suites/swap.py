# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `swap`: the cost of swapping out and in. docs/swap.md describes each workload and defines its metrics."""

from __future__ import annotations

from swapstone.core.model import Direction, MachineNeeds, Metric, Quantity, Source, Suite, Workload

MEMORY_BYTES = 192 << 20
"""Memory of a small machine, enough for its kernel and image. The content of the emulated flash comes on top."""

TOUCHES = 8192
_TIMEOUT_MS = 600_000


def _metric(
    name: str, unit: str, quantity: Quantity, better: Direction, meaning: str, *, leads: bool = False
) -> Metric:
    return Metric(name=name, unit=unit, quantity=quantity, better=better, meaning=meaning, leads=leads)


FILL_METRICS: tuple[Metric, ...] = (
    _metric(
        "out_steady",
        "B/s",
        Quantity.RATE,
        Direction.HIGHER,
        "swapped out a second while the second and third quarter of all that went out did",
        leads=True,
    ),
    _metric(
        "out_mean",
        "B/s",
        Quantity.RATE,
        Direction.HIGHER,
        "swapped out a second, from the first page that was until the kill",
    ),
    _metric(
        "reached",
        "B",
        Quantity.MEMORY,
        Direction.HIGHER,
        "memory that the program had touched when it was killed",
    ),
    # No direction: a late kill may mean more memory, or a slower device.
    _metric("until_kill", "ns", Quantity.TIME, Direction.NEITHER, "from the program's start until it was killed"),
    _metric("swapped_out", "B", Quantity.EVENTS, Direction.NEITHER, "pages that were swapped out until the kill"),
    _metric(
        "compression",
        "1",
        Quantity.EVENTS,
        Direction.HIGHER,
        "what was swapped out when most was, over what it took where it was put: 1 on a device that doesn't compress",
    ),
    _metric(
        "flash_written", "B", Quantity.EVENTS, Direction.LOWER, "what was written to the flash until the kill: its wear"
    ),
)

TOUCH_METRICS: tuple[Metric, ...] = (
    _metric("touch_time", "ns", Quantity.TIME, Direction.LOWER, "elapsed time of one touch of a page", leads=True),
    _metric("swap_ins", "1", Quantity.EVENTS, Direction.LOWER, "pages read back during the touches, by all processes"),
    _metric("majflt", "1", Quantity.EVENTS, Direction.LOWER, "touches that waited for a page to come back"),
    _metric("in_rate", "B/s", Quantity.RATE, Direction.HIGHER, "read back a second during the touches"),
    _metric(
        "working_set",
        "B",
        Quantity.MEMORY,
        Direction.NEITHER,
        "size of the memory that was written and then touched",
    ),
)

_MACHINE = MachineNeeds(parts=("busybox",), memory_bytes=MEMORY_BYTES)


def _fill(percent: int) -> Workload:
    return Workload(
        name=f"fill ({percent} % random)",
        origin=Source(file="fill.c", harness=False),
        arguments=(str(percent),),
        parameters=(("random_percent", str(percent)),),
        description=f"take 1 MiB after another, {percent} % of each page random, until the kernel kills the program",
        metrics=FILL_METRICS,
        waits=True,
        timeout_ms=_TIMEOUT_MS,
        machine=_MACHINE,
    )


def _touch(order: str, hundredths: int) -> Workload:
    how = "in order" if order == "sequential" else "at random"
    return Workload(
        name=f"touch ({order}, {hundredths / 100:g})",
        origin=Source(file="touch.c", harness=False),
        arguments=(order, str(hundredths), str(TOUCHES)),
        parameters=(("order", order), ("memory_ratio", f"{hundredths / 100:g}")),
        description=f"write {hundredths / 100:g} times the available memory, then touch {TOUCHES} of its pages {how}",
        metrics=TOUCH_METRICS,
        waits=True,
        timeout_ms=_TIMEOUT_MS,
        machine=_MACHINE,
    )


SUITE = Suite(
    name="swap",
    description="fill memory until the kernel kills the program, and touch what was swapped out",
    factors=("swap",),
    workloads=(
        *(_fill(percent) for percent in (0, 50, 100)),
        *(_touch(order, hundredths) for order in ("sequential", "random") for hundredths in (125, 150, 200)),
    ),
)
