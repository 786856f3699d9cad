# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `latency`: how late a thread of the highest priority wakes. docs/latency.md."""

from __future__ import annotations

from swapstone.core.model import Direction, MachineNeeds, Metric, PartOrigin, Quantity, Source, Suite, Workload
from swapstone.core.model.experiment import WAKEUP_INTERVAL_US
from swapstone.core.wire.cyclictest import PERCENTILES

CYCLES = 10_000

BINS = 20_000
"""Bins of 1 us. cyclictest prints each of them, so more bins take more time. A run with a latency outside the bins fails."""

REAL_BINS = 1_000_000
"""Bins on real machines, up to 1 s: on a busy machine or below a hypervisor, a latency may exceed 20 ms.

The JSON has the bins that are not empty. A period that a late wake-up has missed is skipped, so n latencies of different length take at
least 1 + ... + (n - 1) us: within the 1000 s of `MOST_WAKEUPS` there are at most 44,722 of them, about 1 MB of text.
"""

_FILE = "/tmp/cyclictest.json"  # noqa: S108 - in a machine of its own
_SCRATCH_FILE = "cyclictest.json"
_MOST_MIDDLE_S = 1.0
_SLACK_MS = 118_000


class ImageTool(PartOrigin, frozen=True, kw_only=True):
    """A program that a command for ``/bin/sh`` starts in the image that brings it. It prints what cyclictest prints.

    Attributes:
        several: arguments of ``/bin/sh`` on a machine with several processors, of which it may use each. ``{processors}`` stands for their
            number, and ``{list}`` for the range of theirs. Empty for the workload's arguments.
        package: the part of `swapstone.parts.vm.artifacts.image_catalog.PARTS` that brings the program, for machines that Swapstone does
            not boot: it is carried there.
        carried: a command for ``/bin/sh -c`` there, in an empty folder; ``{command}`` stands for the words that start the program, and
            ``{priority}`` for its options of the policy and priority. Its standard error may have lines of /proc/PID/task/TID/stat.
        carried_several: the same on several processors, with the placeholders of `several`.
    """

    part: str = "vm"
    subject: str = "swapstone.parts.vm.subjects.image_tool:ImageProgram"
    reader: str = "swapstone.core.wire.output_reading:Cyclictest"
    several: tuple[str, ...] = ()
    package: str
    carried: str
    carried_several: str


def _options(threads: str, cycles: int) -> str:
    return f"--quiet --mlockall {threads} --interval={WAKEUP_INTERVAL_US} --loops={cycles}"


def _booted(threads: str, cycles: int) -> str:
    options = f"{_options(f'--priority=99 {threads}', cycles)} --histogram={BINS}"
    return f"/usr/bin/cyclictest {options} --json={_FILE} >/dev/null && cat {_FILE}"


def _carried(threads: str, cycles: int) -> str:
    """Return a command that also writes the kernel's report of each thread to standard error, while it measures."""
    options = f"{_options(f'{{priority}} {threads}', cycles)} --histogram={REAL_BINS}"
    middle_s = min(_MOST_MIDDLE_S, cycles * WAKEUP_INTERVAL_US / 2e6)
    return (
        f"{{command}} {options} --json={_SCRATCH_FILE} >/dev/null & it=$!; "
        'while set -- /proc/$it/task/*; [ $# -lt 2 ] && [ -e "$1" ]; do sleep 0.02 || sleep 1; done; '
        f"sleep {middle_s:g} || sleep 1; cat /proc/$it/task/*/stat >&2; wait $it && cat {_SCRATCH_FILE}"
    )


_ONE = "--threads=1"
_SEVERAL = "--threads={processors} --affinity={list} --distance=0"
"""A thread on each processor, all with the same interval."""

_RESOLUTION_NS = 1000.0
"""cyclictest prints whole microseconds."""


def _latency(name: str, meaning: str, *, leads: bool = False) -> Metric:
    return Metric(
        name=name,
        unit="ns",
        quantity=Quantity.TIME,
        better=Direction.LOWER,
        meaning=meaning,
        leads=leads,
        resolution=0.0 if name == "avg" else _RESOLUTION_NS,
    )


METRICS: tuple[Metric, ...] = (
    _latency("max", "the latest wake-up of a replicate", leads=True),
    _latency("avg", "mean lateness of a wake-up"),
    _latency("min", "the earliest wake-up of a replicate"),
    *(_latency(name, f"{percent:g} % of the wake-ups were no later (nearest rank)") for name, percent in PERCENTILES),
)


def _cyclictest(cycles: int) -> Workload:
    return Workload(
        name="cyclictest",
        origin=ImageTool(
            several=("-c", _booted(_SEVERAL, cycles)),
            package="cyclictest",
            carried=_carried(_ONE, cycles),
            carried_several=_carried(_SEVERAL, cycles),
        ),
        arguments=("-c", _booted(_ONE, cycles)),
        description=f"a thread of priority 99 sleeps for {WAKEUP_INTERVAL_US} us {cycles} times: how late does it wake?",
        metrics=METRICS,
        waits=True,
        timeout_ms=timeout_ms(cycles),
        machine=MachineNeeds(parts=("cyclictest",)),
        unchanged=True,
        real_time=True,
    )


def _wakeup(cycles: int) -> Workload:
    return Workload(
        name="wakeup",
        origin=Source(file="wakeup.c", harness=False, reader="cyclictest"),
        arguments=(str(WAKEUP_INTERVAL_US), str(cycles)),
        description=f"the same {cycles} times by a program that is built for each variant, on one processor",
        metrics=METRICS,
        waits=True,
        timeout_ms=timeout_ms(cycles),
        elsewhere=True,
        real_time=True,
    )


def timeout_ms(cycles: int) -> int:
    """Return the time limit of a trial: twice what its wake-ups take on time, and the slack for a slow machine."""
    return _SLACK_MS + 2 * cycles * WAKEUP_INTERVAL_US // 1000


def with_cycles(workload: Workload, cycles: int) -> Workload:
    """Return a workload of this suite with another number of wake-ups; one of another suite unchanged.

    Args:
        workload: of any suite.
        cycles: 1 to `MOST_WAKEUPS`.
    """
    made = {CYCLICTEST: _cyclictest, WAKEUP: _wakeup}.get(workload)
    return made(cycles) if made is not None else workload


CYCLICTEST = _cyclictest(CYCLES)
WAKEUP = _wakeup(CYCLES)

SUITE = Suite(
    name="latency",
    description="how late a thread of the highest priority wakes, by the real cyclictest",
    factors=("kernel", "priority"),
    workloads=(CYCLICTEST, WAKEUP),
    with_wakeups=with_cycles,
)
