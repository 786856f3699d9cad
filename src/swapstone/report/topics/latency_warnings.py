"""Worst cases that the reader must not overlook. docs/latency-report.md gives the rules and their reasons."""

from __future__ import annotations

from swapstone.model import Latency
from swapstone.report import formatting
from swapstone.report.topics.latency_data import IDLE, Group, is_rt, percentile, us

LONG_NS = 1e6
"""A latency of so much is long for any kernel."""
RARE = 10.0
"""So many times what all but one wake-up in 10000 take, a maximum is no part of the usual latency."""
RT_NS = 100e3
"""Above so much a maximum of PREEMPT_RT deserves a look, if its load made it."""
RT_TIMES = 10.0
"""So many times its idle maximum, a load has made it."""
ALIKE = 0.5
"""Another kernel was held up alike where its maximum rose by at least this share of the real-time kernel's rise."""

_WALL = " On this clock the machine below can have done it."


def warnings_of(group: Group, *, exact: bool) -> tuple[str, ...]:
    """Return a sentence for each variant and load that was held up, in the order of loads and variants.

    Args:
        group: the latencies.
        exact: whether the clock counts instructions; on a wall clock the host can hold a machine up as well.
    """
    suffix = "" if exact else _WALL
    found = []
    for load in group.loads:
        here = [each for variant in group.variants if (each := group.found.get((load, variant))) is not None]
        rise = min((_rise(group, each) for each in here if held_up(group, each)), default=None)
        texts = [_sentence(group, each, rise) for each in here]
        found += [text + suffix for text in texts if text]
    return tuple(found)


def worst(latency: Latency) -> float:
    """Return the largest maximum of all draws, in nanoseconds."""
    return max(latency.maxima)


def _idle(group: Group, latency: Latency) -> Latency | None:
    return None if latency.load == IDLE else group.found.get((IDLE, latency.variant))


def _rise(group: Group, latency: Latency) -> float:
    """Return by how much a load raised the maximum over the idle one; the whole of it where none is known."""
    idle = _idle(group, latency)
    return worst(latency) - (worst(idle) if idle is not None else 0.0)


def held_up(group: Group, latency: Latency) -> bool:
    """Return whether a kernel with PREEMPT_RT was held up longer than any code of such a kernel should take."""
    if not is_rt(latency.variant):
        return False
    most, idle = worst(latency), _idle(group, latency)
    made = idle is not None and most > RT_TIMES * worst(idle) and most > RT_NS
    return most >= LONG_NS or made


def rare(latency: Latency) -> float | None:
    """Return p99.99, in nanoseconds, of a maximum that is long and far from it; None where it is not, or too few latencies tell."""
    known = percentile(latency, 99.99)
    return known if known is not None and worst(latency) >= max(LONG_NS, RARE * known) else None


def _sentence(group: Group, latency: Latency, rise: float | None) -> str:
    load = "on the idle machine" if latency.load == IDLE else f"under load {formatting.safe(latency.load)}"
    where = f"{formatting.safe(latency.variant.short_label)} {load}"
    idle = _idle(group, latency)
    draws = f"worst of {formatting.count(len(latency.maxima), 'draw')}"
    seen = f"{us(worst(latency))} us ({draws}{'' if idle is None else f'; idle: {us(worst(idle))} us'})"
    if held_up(group, latency):
        return f"{where} was held up for {seen}: something there can't be preempted, not even by PREEMPT_RT."
    if rise is not None and rise > 0 and _rise(group, latency) >= ALIKE * rise:
        return f"{where} was held up too, for {seen}: what holds up PREEMPT_RT holds up every kernel."
    if (known := rare(latency)) is not None:
        return (
            f"{where} was held up for {seen}, where its p99.99 is {us(known)} us: a rare event, not its usual latency."
        )
    return ""
