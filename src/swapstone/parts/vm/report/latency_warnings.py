# SPDX-License-Identifier: MIT OR Apache-2.0
"""Warnings about long worst cases. docs/latency-report.md gives the rules and their reasons."""

from __future__ import annotations

from swapstone.core.model import Latency
from swapstone.core.report import formatting
from swapstone.parts.vm.report.latency_data import IDLE, LatencyGroup, kernel_of, percentile, us

LONG_NS = 1e6
"""From this latency on, in nanoseconds, a maximum is long for any kernel."""
RARE = 10.0
"""A maximum of this many times p99.99 is a rare event."""
RT_NS = 100e3
"""Above this, in nanoseconds, a maximum of PREEMPT_RT gets a warning if the load causes it."""
RT_TIMES = 10.0
"""The load causes a maximum of this many times the idle one."""
ALIKE = 0.5
"""Another kernel is delayed too where its maximum rises by this share of the real-time kernel's rise."""

_SECTION = "the kernel has a section that PREEMPT_RT can't preempt."
_SECTION_OR_OUTSIDE = (
    "by a section that PREEMPT_RT can't preempt, or by something outside this kernel: firmware, a hypervisor, an emulator, or other "
    "load on their host."
)
_EVERY_KERNEL = "the section that PREEMPT_RT can't preempt delays every kernel."
_EVERY_KERNEL_OR_OUTSIDE = "what delays the kernel with PREEMPT_RT, in it or outside, delays every kernel."
_WALL = " On the wall clock, other load on the host may be the cause."


def warnings_of(group: LatencyGroup, *, exact: bool) -> tuple[str, ...]:
    """Return a sentence for each variant and load with a long worst case, in the order of loads and variants.

    Args:
        group: the latencies.
        exact: whether the clock counts instructions; on a wall clock, a machine is also delayed by what is outside its kernel.
    """
    found: list[str] = []
    for load in group.loads:
        here = [each for variant in group.variants if (each := group.found.get((load, variant))) is not None]
        rise = min((_rise(group, each) for each in here if delayed(group, each)), default=None)
        found += filter(None, (_sentence(group, each, rise, exact=exact) for each in here))
    return tuple(found)


def worst(latency: Latency) -> float:
    """Return the largest maximum of all replicates, in nanoseconds."""
    return max(latency.maxima)


def _idle(group: LatencyGroup, latency: Latency) -> float | None:
    """Return the idle maximum beside one under a load; None without one."""
    idle = None if latency.load == IDLE else group.found.get((IDLE, latency.variant))
    return None if idle is None else worst(idle)


def _rise(group: LatencyGroup, latency: Latency) -> float:
    """Return the maximum less the idle one, in nanoseconds; the maximum itself without an idle one."""
    return worst(latency) - (_idle(group, latency) or 0.0)


def delayed(group: LatencyGroup, latency: Latency) -> bool:
    """Return whether the maximum of a kernel with PREEMPT_RT is longer than its non-preemptible sections should be."""
    if kernel_of(latency.variant) != "rt":
        return False
    most, idle = worst(latency), _idle(group, latency)
    return most >= LONG_NS or (idle is not None and most > RT_TIMES * idle and most > RT_NS)


def rare(latency: Latency) -> float | None:
    """Return p99.99, in nanoseconds, where the maximum is long and far above it; else, or with too few latencies, None."""
    known = percentile(latency, 99.99)
    return known if known is not None and worst(latency) >= max(LONG_NS, RARE * known) else None


def _sentence(group: LatencyGroup, latency: Latency, rise: float | None, *, exact: bool) -> str:
    load = "on the idle machine" if latency.load == IDLE else f"under load {formatting.safe(latency.load)}"
    where, idle = f"{formatting.safe(latency.variant.short_label)} {load}", _idle(group, latency)
    replicates = f"worst of {formatting.count(len(latency.maxima), 'replicate')}"
    measured = f"{us(worst(latency))} us ({replicates}{'' if idle is None else f'; idle: {us(idle)} us'})"
    if delayed(group, latency):
        return f"{where} was delayed by {measured}: {_SECTION if exact else _SECTION_OR_OUTSIDE}"
    if rise is not None and rise > 0 and _rise(group, latency) >= ALIKE * rise:
        return f"{where} was delayed too, by {measured}: {_EVERY_KERNEL if exact else _EVERY_KERNEL_OR_OUTSIDE}"
    if (known := rare(latency)) is not None:
        return (
            f"{where} was delayed by {measured}, with a p99.99 of {us(known)} us: a rare event, not the usual latency."
            + ("" if exact else _WALL)
        )
    return ""
