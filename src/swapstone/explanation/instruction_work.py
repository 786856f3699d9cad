# SPDX-License-Identifier: MIT OR Apache-2.0
"""More instructions, or the same instructions that take longer? And what of caches and branch prediction differs, by simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from swapstone.explanation.evidence import Sides, amount
from swapstone.explanation.ledger import run_of
from swapstone.explanation.processor_counts import processor_text
from swapstone.explanation.processor_split import kernel_share
from swapstone.model import Count, Reference, RowMeasurements
from swapstone.model.number_text import quantity
from swapstone.model.page_sizes import HUGE, MEMORY, RESIDENT

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

SLOWER_WORD = "slower"
"""Part of each comparison of instructions that the number of instructions does not explain."""

_LEAST_PART, _LEAST_RATIO = 0.1, 1.5

LEAST_HUGE, LEAST_HUGE_BYTES = 0.25, 8 << 20
"""Part of the resident memory that must be in huge pages on one side alone, and at least so much: the first two levels of a TLB cover about
as much with small pages (2048 entries of 4 KiB)."""


@dataclasses.dataclass(frozen=True)
class InstructionWork:
    """How the instructions of two variants compare.

    Attributes:
        how: ``more instructions``, ``same instructions, slower``, ``more instructions, and slower ones`` or ``fewer instructions, slower``.
        sentence: with the numbers, and with the simulated events that differ or that none does.
    """

    how: str
    sentence: str


def instruction_work(seen: RowMeasurements, counts: Sequence[Count], pair: Sides) -> InstructionWork | None:
    """Compare the instructions that both variants execute in user mode with the time that they take.

    Returns:
        None without a count of instructions or a profile of both variants, or if their times in user mode hardly differ.
    """
    found = {(each.group, each.name): each for each in counts}
    whole = found.get(("instructions", "all"))
    times = [_user_ns(seen, each) for each in (pair.slow, pair.fast)]
    if whole is None or not whole.baseline or not whole.candidate or None in times:
        return None
    slow_ns, fast_ns = (value or 0.0 for value in times)
    if not fast_ns or slow_ns / fast_ns < 1 + SLOWER:
        return None
    more, less = pair.order(whole.baseline, whole.candidate)
    excess, slower = more / less - 1, slow_ns / fast_ns - 1
    numbers = f"{amount(more)} instructions per operation (other variant: {amount(less)})"
    if excess >= slower / 2:
        return InstructionWork("more instructions", f"it executes {numbers}")
    how = (
        "more instructions, and slower ones"
        if excess > SAME
        else "same instructions, slower"
        if excess >= -SAME
        else "fewer instructions, slower"
    )
    several = _has_threads(seen)
    events = _events(found, pair, slow_ns - fast_ns, several=several)
    counted = processor_text(found, pair)
    return InstructionWork(how, "; ".join(filter(None, (f"it executes {numbers}", counted, events))))


def _user_ns(seen: RowMeasurements, reference: Reference) -> float | None:
    run, spent = run_of(seen, "on-cpu", reference.variant), dict(reference.metrics).get("cpu")
    return None if run is None or run.profile is None or spent is None else spent * (1 - kernel_share(run.profile))


def _has_threads(seen: RowMeasurements) -> bool:
    return any(run.elapsed is not None and run.elapsed.most_threads > 1 for run in seen.runs)


def _events(counts: Mapping[tuple[str, str], Count], pair: Sides, difference_ns: float, *, several: bool) -> str:
    """Return which simulated events can account for a difference."""
    named, simulated = [], False
    for name, cost_ns in _COST_NS.items():
        count = counts.get(("simulated", name))
        if count is None or count.baseline is None or count.candidate is None:
            continue
        simulated = True
        more, less = pair.order(count.baseline, count.candidate)
        if (more - less) * cost_ns >= _LEAST_PART * difference_ns and more >= _LEAST_RATIO * less:
            named.append(
                ((less - more) * cost_ns, f"{amount(more)} {name} per operation (other variant: {amount(less)})")
            )
    pages = _pages(counts, pair)
    if named:
        text = "a simulation of caches and branch prediction has " + ", ".join(text for _, text in sorted(named))
        return f"{text}; {pages}" if pages else text
    if pages:
        return f"{pages}; a simulation of caches and branch prediction shows no other reason" if simulated else pages
    others = "misses of the TLB and sizes of pages, prefetching, aliasing of addresses, dependent instructions"
    if several:
        others += ", and cache lines that several threads write (false sharing): possible, can't be shown here"
    start = "a simulation of caches and branch prediction shows no reason" if simulated else "no events were simulated"
    return f"{start}; it has no model of {others}" if simulated else f"{start}; possible: {others}"


def _pages(counts: Mapping[tuple[str, str], Count], pair: Sides) -> str:
    """Return how much memory is in huge pages if the slower variant has a relevant part of its memory less in them; else nothing."""
    resident, huge = counts.get((MEMORY, RESIDENT)), counts.get((MEMORY, HUGE))
    sizes = [each for count in (resident, huge) if count for each in (count.baseline, count.candidate)]
    if resident is None or huge is None or None in sizes:
        return ""
    slow, fast = pair.order(huge.baseline or 0.0, huge.candidate or 0.0)
    whole, other = pair.order(resident.baseline or 0.0, resident.candidate or 0.0)
    if fast - slow < max(LEAST_HUGE_BYTES, LEAST_HUGE * other):
        return ""
    return (
        f"{quantity(slow, 'B')} of {quantity(whole, 'B')} are in huge pages (other variant: {quantity(fast, 'B')} of "
        f"{quantity(other, 'B')}), which is consistent with more misses of the TLB"
    )
