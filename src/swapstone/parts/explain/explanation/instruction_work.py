# SPDX-License-Identifier: MIT OR Apache-2.0
"""More instructions, or the same instructions that take longer? And what of caches and branch prediction differs, by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapstone.core.model.memory_phases import HUGE, MEMORY, RESIDENT
from swapstone.core.model.number_text import quantity
from swapstone.parts.explain.explanation.evidence import Named, Sides, amount
from swapstone.parts.explain.explanation.ledger import kernel_share, run_of
from swapstone.parts.explain.explanation.processor_counts import processor_text
from swapstone.parts.explain.model.explanation import Count, Reference, RowMeasurements

SAME = 0.05
"""Relative difference of instructions that counts as none."""

SLOWER = 0.1
"""Relative difference of the time in user mode below which instructions are not compared."""

_COST_NS: Mapping[str, float] = {
    "mispredicted branches": 3.0,
    "misses of the first-level data cache": 0.7,
    "misses of the first-level instruction cache": 1.0,
    "misses of the last-level cache": 10.0,
}
"""What an event costs at least, by simulation's name: about half of what it costs processors of 2015 to 2025 at 3 GHz. A simulated event is
only named if its number at this cost is a relevant part of the difference."""

MORE, MORE_AND_SLOWER = "more instructions", "more instructions, and slower ones"
SAME_SLOWER, FEWER_SLOWER = "same instructions, slower", "fewer instructions, slower"

SLOWER_WORD = "slower"
"""Part of each comparison of instructions that the number of instructions does not explain."""

_SENTENCES: Mapping[str, str] = {
    MORE_AND_SLOWER: "it executes more instructions, and they take longer than their number explains",
    SAME_SLOWER: "it executes as many instructions, and they take longer",
    FEWER_SLOWER: "it executes fewer instructions, and they take longer",
}

_UNSEEN = (
    "misses of the TLB (sizes of pages), prefetching, aliasing of addresses, dependent instructions, loads of what was just stored in "
    "parts, atomic instructions, subnormal numbers"
)
"""What the simulation has no model of."""

_LEAST_PART, _LEAST_RATIO = 0.1, 1.5

LEAST_HUGE, LEAST_HUGE_BYTES = 0.25, 8 << 20
"""Part of the resident memory that must be in huge pages on one side alone, and at least so much: the first two levels of a TLB cover about
as much with small pages (2048 entries of 4 KiB)."""


def instruction_work(seen: RowMeasurements, counts: Sequence[Count], pair: Sides) -> Named | None:
    """Compare the instructions that both variants execute in user mode with the time that they take.

    Returns:
        `MORE`, `MORE_AND_SLOWER`, `SAME_SLOWER` or `FEWER_SLOWER`, with a sentence that has the numbers, and the simulated events that
        differ or that none does. None without a count of instructions or a profile of both variants, or if their times in user mode hardly
        differ.
    """
    found = {(each.group, each.name): each for each in counts}
    whole = pair.counted(found.get(("instructions", "all")))
    slow_ns, fast_ns = (_user_ns(seen, each) for each in (pair.slow, pair.fast))
    if whole is None or not all(whole):
        return None
    if slow_ns is None or not fast_ns or slow_ns / fast_ns < 1 + SLOWER:
        return None
    more, less = whole
    excess, slower = more / less - 1, slow_ns / fast_ns - 1
    between = f"{amount(more)} per operation (other variant: {amount(less)})"
    if excess >= slower / 2:
        return Named(MORE, (f"it executes more instructions: {between}",))
    how = MORE_AND_SLOWER if excess > SAME else SAME_SLOWER if excess >= -SAME else FEWER_SLOWER
    several = any(run.elapsed is not None and run.elapsed.most_threads > 1 for run in seen.runs)
    counted = processor_text(found, pair)
    events = _events(found, pair, slow_ns - fast_ns, several=several, counted=bool(counted))
    return Named(how, ("; ".join(filter(None, (f"{_SENTENCES[how]}: {between}", counted, events))),))


def _user_ns(seen: RowMeasurements, reference: Reference) -> float | None:
    run, spent = run_of(seen, "on-cpu", reference.variant), dict(reference.metrics).get("cpu")
    return None if run is None or run.profile is None or spent is None else spent * (1 - kernel_share(run.profile))


def _events(
    counts: Mapping[tuple[str, str], Count], pair: Sides, difference_ns: float, *, several: bool, counted: bool
) -> str:
    """Return which simulated events can account for a difference.

    Args:
        counts: of both variants.
        pair: the variants.
        difference_ns: of the time in user mode.
        several: whether a variant has several threads.
        counted: whether the processor's own counters were read, which show some of what the simulation has no model of.
    """
    simulated = {
        name: values for name in _COST_NS if (values := pair.counted(counts.get(("simulated", name)))) is not None
    }
    named = [
        ((less - more) * _COST_NS[name], f"{amount(more)} {name} per operation (other variant: {amount(less)})")
        for name, (more, less) in simulated.items()
        if (more - less) * _COST_NS[name] >= _LEAST_PART * difference_ns and more >= _LEAST_RATIO * less
    ]
    pages = _pages(counts, pair)
    if named:
        text = "a simulation of caches and branch prediction has " + ", ".join(text for _, text in sorted(named))
        return f"{text}; {pages}" if pages else text
    if pages:
        return f"{pages}; a simulation of caches and branch prediction shows no other reason" if simulated else pages
    start = (
        "a simulation of caches and branch prediction shows no reason"
        if simulated
        else "events were not simulated for both variants"
    )
    shared = ", and cache lines that several threads write (false sharing)" if several else ""
    possible = "possible" if counted else "possible, but can't be shown here"
    return f"{start}; {possible}: {_UNSEEN}{shared}"


def _pages(counts: Mapping[tuple[str, str], Count], pair: Sides) -> str:
    """Return how much memory is in huge pages if the slower variant has a relevant part of its memory less in them; else nothing."""
    resident, huge = (pair.counted(counts.get((MEMORY, name))) for name in (RESIDENT, HUGE))
    if resident is None or huge is None:
        return ""
    (slow, fast), (whole, other) = huge, resident
    if fast - slow < max(LEAST_HUGE_BYTES, LEAST_HUGE * other):
        return ""
    return (
        f"{quantity(slow, 'B')} of {quantity(whole, 'B')} are in huge pages (other variant: {quantity(fast, 'B')} of "
        f"{quantity(other, 'B')}), which is consistent with more misses of the TLB"
    )
