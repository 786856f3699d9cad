# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts of both variants: which are evidence, those whose cost is a tenth of the row's difference or more, and tables of all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.profile_difference import LEAST_SHARE, FrameDifference
from swapstone.core.comparison.rows import AGAINST_BASELINE, MEDIANS_ALPHA
from swapstone.core.model import FrozenStruct, grouped
from swapstone.core.model.memory_phases import HUGE, MEMORY, RESIDENT
from swapstone.core.model.number_text import quantity, ratio
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.core.stats import median, median_contrast
from swapstone.parts.explain.explanation.by_function import amount, duration, short_label
from swapstone.parts.explain.explanation.profile_formats import (
    FAULTING,
    OR,
    SYSTEM_CALL,
    common_call,
    is_library,
    plain_name,
)
from swapstone.parts.explain.explanation.surroundings import slower_first
from swapstone.parts.explain.explanation.time_split import TimeSplit, run_of
from swapstone.parts.explain.model.explanation import (
    COUNTERS,
    HARDWARE,
    INSTRUCTIONS,
    LISTED_FUNCTIONS,
    Count,
    EvidenceTable,
    RowMeasurements,
)

MOST_EVIDENCE = 6
LEAST_EXCESS = 0.02
"""Relative excess of the slower variant below which a count counts as equal."""

SAME = 0.1
"""Relative difference of instructions that counts as none: more of them cost a tenth of the time, as other counts that are named do."""

_HALF = 0.5
LARGEST_RATIO = 1e9
"""Larger ratios only occur in forged evidence."""

NEVER_EMPTY = {"simulated", "calls"}
"""Groups of counts that an instrument that counts them has for every program. A side without any was counted in another
way, by which functions have other names."""

_COST_NS: Mapping[str, float] = {
    "mispredicted branches": 3.0,
    "misses of the first-level data cache": 0.7,
    "misses of the first-level instruction cache": 1.0,
    "misses of the last-level cache": 10.0,
}
"""What an event costs at least: about half of what it costs processors of 2015 to 2025 at 3 GHz."""


LEAST_HUGE, LEAST_HUGE_BYTES = 0.25, 8 << 20
"""Part of the resident memory that must be in huge pages on one side alone, and at least so much: the first two levels of a TLB cover about
as much with small pages (2048 entries of 4 KiB)."""

_UNSEEN = (
    "dependent instructions, sizes of pages, prefetching, aliasing of addresses, atomic instructions, subnormal numbers"
)


@dataclasses.dataclass(frozen=True)
class Sides:
    """Whether the baseline is the slower variant, and the difference of the row without its sign."""

    swapped: bool
    difference: float

    def order(self, baseline: float, candidate: float) -> tuple[float, float]:
        """Return two values, the slower variant's first."""
        return (baseline, candidate) if self.swapped else (candidate, baseline)

    def bound(self, count: Count) -> str:
        """Return the words before a count of the slower variant: those of a lower bound, or none."""
        return "at least " if count.least[not self.swapped] else ""

    def counted(self, count: Count | None) -> tuple[float, float] | None:
        """Return a count of both variants, the slower variant's first; None unless both were counted, the faster one's to the end."""
        if count is None or count.baseline is None or count.candidate is None or count.least[self.swapped]:
            return None
        return self.order(count.baseline, count.candidate)


def counts_of(seen: RowMeasurements) -> tuple[Count, ...]:
    """Pair the counts of both variants, the largest ratios first.

    A constant is added to both counts (see `distance`), so that a count of zero has a ratio too.
    """
    gives = {(run.instrument, a.group) for run in seen.runs for a in run.amounts}
    sides = []
    for reference in seen.references:
        runs = {run.instrument: run for run in seen.runs if run.variant == reference.variant}
        values = {(a.group, a.name): a.value for run in runs.values() for a in run.amounts}
        counted = {group for group, _ in values}
        # A missing count is 0 if its instrument ran, and counts such events on this side.
        known = {group for name, group in gives if name in runs and (group not in NEVER_EMPTY or group in counted)}
        sides.append((values, known, {group for name, group in gives if name in runs and runs[name].partial}))
    found = []
    for key in dict.fromkeys([*sides[0][0], *sides[1][0]]):
        pair = [values.get(key, 0.0 if key[0] in known else None) for values, known, _ in sides]
        found.append(
            Count(
                group=key[0],
                name=key[1],
                baseline=pair[0],
                candidate=pair[1],
                interval=_count_interval(seen, *key, *pair),
                least=(key[0] in sides[0][2], key[0] in sides[1][2]),
            )
        )
    return tuple(sorted(found, key=lambda count: (-distance(count), count.group, count.name)))


def reference_values(seen: RowMeasurements, metric: str) -> NDArray[np.float64] | None:
    """Return the values of both variants in the reference runs, shape (2, runs); None if they were not kept."""
    sides = [dict(reference.values).get(metric, ()) for reference in seen.references]
    return np.array(sides, dtype=np.float64) if len(sides[0]) == len(sides[1]) > 1 else None


def _count_interval(
    seen: RowMeasurements, group: str, name: str, baseline: float | None, candidate: float | None
) -> tuple[float, float] | None:
    """Return the interval of the ratio of a counter's medians; without it a ratio of counts that vary would be no result.

    Where a run has none, it is that of the difference over the baseline's median.
    """
    metric = next((metric for metric, words in COUNTERS.items() if words == name), "")
    values = reference_values(seen, metric) if group in {"faults", "switches"} else None
    if values is None or not baseline or not candidate:
        return None
    positive, (before, after) = bool(values.min() > 0), map(median, values)
    ends = median_contrast(values, AGAINST_BASELINE, MEDIANS_ALPHA, ratio=positive).interval
    if ends is None or not before or not after:
        return None
    low, high = (each if positive else max(0.0, 1 + each / before) for each in (ends.low, ends.high))
    scale = candidate / baseline / (after / before)  # a variant may make more operations in a run
    return (low * scale, high * scale) if 0 <= high * scale < LARGEST_RATIO else None


def distance(count: Count) -> float:
    """Return the absolute logarithm of the ratio of two counts, with 1 added to both (64 to bytes, 1000 to instructions)."""
    if count.baseline is None or count.candidate is None:
        return 0.0
    add = 64.0 if "bytes" in count.name else 1000.0 if count.group == "instructions" else 1.0
    return abs(math.log((count.candidate + add) / (count.baseline + add)))


def evidence(seen: RowMeasurements, counts: Sequence[Count], split: TimeSplit) -> tuple[str, ...]:
    """Return the counts that are evidence, as sentences, the largest share of the difference first.

    The slower variant has more of each, and what these cost is `LEAST_SHARE` of the row's difference or more: the time in the functions
    that belong to a count, in proportion to the excess, or the least cost of an event.
    """
    whole = split.functions.total.difference
    sides = Sides(whole < 0, abs(whole))
    costs = _Costs(split)
    found = [*_instructions(seen, counts, sides, costs), *_waits(seen, sides)]
    for count in common_counts(counts):
        values = sides.counted(count)
        if values is None or not _is_more(*values) or is_undecided(count):
            continue
        more, less = values
        share = costs.of(count, more) * (more - less) / more
        found.append(
            (share, f"{sides.bound(count)}{amount(more)} {count.name} per operation (other variant: {amount(less)})")
        )
    for what, each in ((group, one) for group in ("calls", INSTRUCTIONS) for one in by_name(counts, group)):
        more, less = sides.order(each.baseline, each.candidate)
        # One of two C libraries may do the work of the other's function in functions of its own.
        compared = (less and not each.bounded) or not (split.other_libraries and is_library(each.frame))
        if compared and _is_more(more, less):
            other = f" (other variant: {'at most ' if each.bounded else ''}{amount(less)})"
            text = f"{amount(more)} {what} of {each.name} per operation{other}"
            found.append((costs.named({each.name}, own=what == INSTRUCTIONS) * (more - less) / more, text))
    kept = sorted((one for one in found if one[0] >= LEAST_SHARE), key=lambda one: -one[0])[:MOST_EVIDENCE]
    return tuple(text for _, text in kept)


class _Costs:
    """The shares of the difference in functions that belong to counts."""

    def __init__(self, split: TimeSplit) -> None:
        self._split, self._whole = split, split.functions.total.difference

    def of(self, count: Count, number: float) -> float:
        """Return the share of the functions in which a count arises, or the least cost of a number of events; 0 if neither is known."""
        match count.group:
            case "simulated" | "hardware":
                return _COST_NS.get(count.name, 0.0) * number / abs(self._whole)
            case "system calls":
                name = f"{SYSTEM_CALL}{common_call(count.name)}"
                return self._most(lambda one: one.frame.object == KERNEL and one.frame.symbol == name)
            case "faults":
                return self._most(lambda one: one.frame == FAULTING)
            case "switches" if count.name == COUNTERS["nvcsw"]:
                return (
                    sum(waits for frame, waits in self._split.waits.items() if frame.symbol.startswith(SYSTEM_CALL))
                    / self._whole
                )
        return 0.0

    def named(self, names: set[str], *, own: bool = False) -> float:
        """Return the share of the function outside the kernel with one of these names that has most, itself or with what it calls."""
        return self._most(lambda one: one.frame.object != KERNEL and plain_name(one.frame.symbol) in names, own=own)

    def in_user_mode(self) -> float:
        """Return the share of code outside the kernel."""
        return (
            sum(one.own.difference for one in self._split.functions.frames if one.frame.object != KERNEL) / self._whole
        )

    def _most(self, fits: Callable[[FrameDifference], bool], *, own: bool = False) -> float:
        fitting = (one.own if own else one.inclusive for one in self._split.functions.frames if fits(one))
        return max((weights.difference / self._whole for weights in fitting), default=0.0)


def _is_more(more: float, less: float) -> bool:
    """Return whether two counts differ by what can be read."""
    return more - less >= LEAST_EXCESS * more and amount(more) != amount(less)


def is_undecided(count: Count) -> bool:
    """Return whether the interval of a ratio of medians contains 1."""
    return count.interval is not None and count.interval[0] <= 1 <= count.interval[1]


def _instructions(
    seen: RowMeasurements, counts: Sequence[Count], sides: Sides, costs: _Costs
) -> Iterator[tuple[float, str]]:
    """Yield how the instructions compare, if code outside the kernel has its share of the difference."""
    found = {(each.group, each.name): each for each in counts}
    values = sides.counted(found.get(("instructions", "all")))
    if values is None or not all(values):
        return
    (more, less), share = values, costs.in_user_mode()
    between = f"{amount(more)} instructions per operation (other variant: {amount(less)})"
    if more / less > 1 + SAME:
        yield share * (more - less) / more, between
        return
    if share < _HALF:
        return
    several = any(run.elapsed is not None and run.elapsed.most_threads > 1 for run in seen.runs)
    hidden = [_UNSEEN, *(["false sharing of cache lines"] if several else [])]
    known = any(
        (pair := sides.counted(count)) is not None
        and (pair[0] - pair[1]) * _COST_NS.get(count.name, 0.0) >= LEAST_SHARE * sides.difference
        for count in counts
        if count.group in {"simulated", HARDWARE}
    )
    huge = _pages(found, sides)
    why = "" if known else f"; {huge}" if huge else f"; no count shows why; possible: {', '.join(hidden)}"
    yield share, f"{between}: {'as many' if more / less >= 1 - SAME else 'fewer'}, which take longer{why}"


def _pages(counts: Mapping[tuple[str, str], Count], sides: Sides) -> str:
    """Return how much memory is in huge pages if the slower variant has a relevant part of its memory less in them; else nothing."""
    resident, huge = (sides.counted(counts.get((MEMORY, name))) for name in (RESIDENT, HUGE))
    if resident is None or huge is None or huge[1] - huge[0] < max(LEAST_HUGE_BYTES, LEAST_HUGE * resident[1]):
        return ""
    slow, fast = (
        f"{quantity(each, 'B')} of {quantity(whole, 'B')}" for each, whole in zip(huge, resident, strict=True)
    )
    return f"{slow} are in huge pages (other variant: {fast}), consistent with more misses of the TLB"


def _waits(seen: RowMeasurements, sides: Sides) -> Iterator[tuple[float, str]]:
    """Yield what ended the waits that the slower variant has more of."""
    runs = [run_of(seen, "waits", reference.variant) for reference in seen.references]
    if runs[0] is None or runs[1] is None:
        return
    slow, fast = (runs[0], runs[1]) if sides.swapped else (runs[1], runs[0])
    others = {(each.reason, each.whose): each for each in fast.waits}
    for each in slow.waits:
        other = others.get((each.reason, each.whose))
        more_ns = each.total_ns - (other.total_ns if other else 0.0)
        against = f"{amount(other.waits)}, {duration(other.total_ns)}" if other else "none"
        yield (
            more_ns / sides.difference,
            f"{amount(each.waits)} waits per operation, {duration(each.total_ns)} in all threads together, each "
            f"{duration(each.short_ns)} to {duration(each.long_ns)}, ended by {each.text()} (other variant: {against})",
        )


def processor_taken(seen: RowMeasurements) -> str:
    """Return who had the processor that the slower variant's threads were ready for; empty if it was not recorded."""
    run = run_of(seen, "waits", slower_first(seen)[0].variant)
    taken = sorted(run.taken if run else (), key=lambda each: -each.total_ns)[:3]
    return ", ".join(f"{each.whose} for {duration(each.total_ns)}" for each in taken)


def common_counts(counts: Iterable[Count]) -> tuple[Count, ...]:
    """Add up the counts of system calls that do the same work, where the variants have different ones.

    The sum has all names, as ``open or openat``. It takes the place of the first count. Others do not change.
    """
    found = grouped(
        counts, lambda count: (count.group, common_call(count.name) if count.group == "system calls" else count.name)
    )
    return tuple(_sum(each) for each in found.values())


def _sum(counts: list[Count]) -> Count:
    if len(counts) == 1:
        return counts[0]
    return msgspec.structs.replace(
        counts[0],
        name=OR.join(sorted(count.name for count in counts)),
        baseline=_added(count.baseline for count in counts),
        candidate=_added(count.candidate for count in counts),
    )


def _added(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known, 0.0) if len(known) == len(every) else None


class NamedCounts(FrozenStruct, frozen=True, kw_only=True):
    """Counts of a function per operation.

    Attributes:
        name: of the function, without what distinguishes its variants in a library.
        frame: one of its names, with the object.
        baseline, candidate: how many; an upper bound for a variant whose list is cut off before it.
        bounded: whether one of them is a bound.
    """

    name: str
    frame: Frame
    baseline: float
    candidate: float
    bounded: bool


def by_name(counts: Sequence[Count], group: str) -> tuple[NamedCounts, ...]:
    """Return the counts of each function in a group, ``calls`` or ``instructions``.

    Of several names of a function in one variant the largest count is taken: they may call each other.
    """
    frames: dict[str, Frame] = {}
    sides: tuple[dict[str, float], dict[str, float]] = ({}, {})
    listed = [0, 0]
    for count in counts:
        symbol, _, where = count.name.partition(" (")
        if (
            count.group != group or count.name == "all" or symbol.startswith(("0x", "?"))
        ):  # an address is no name that two variants could share
            continue
        name = plain_name(symbol)
        frames.setdefault(name, Frame(symbol=symbol, object=where.removesuffix(")") or OWN_OBJECT))
        for number, value in enumerate((count.baseline, count.candidate)):
            if value:
                listed[number] += 1
                sides[number][name] = max(value, sides[number].get(name, 0.0))
    # A function that is not in the list of a variant was called at most as often as the last of a full list.
    rest = [
        min(side.values()) if length >= LISTED_FUNCTIONS else 0.0 for side, length in zip(sides, listed, strict=True)
    ]
    return tuple(
        NamedCounts(
            name=name,
            frame=frame,
            baseline=sides[0].get(name, rest[0]),
            candidate=sides[1].get(name, rest[1]),
            bounded=any(name not in side and bound > 0 for side, bound in zip(sides, rest, strict=True)),
        )
        for name, frame in frames.items()
    )


MOST_COUNTS = 24
MOST_WAITS = 12
TAKEN = "ready, and its processor taken by"
Rows = tuple[tuple[str, ...], ...]


def measured_tables(seen: RowMeasurements, counts: Sequence[Count]) -> tuple[EvidenceTable, ...]:
    """Return the tables, those with rows."""
    waits = ("waits, all threads", "whose", "baseline", "time", "candidate", "time")
    instruments = ("instrument", "variant", "operations", "time / without", "tool")
    made = (
        (
            "Counts in one operation",
            ("group", "in one operation", "baseline", "candidate", "ratio"),
            count_rows(counts),
        ),
        ("Waits in one operation", waits, wait_rows(seen)),
        ("Instruments", instruments, instrument_rows(seen)),
    )
    return tuple(EvidenceTable(title=title, head=head, rows=rows, keys=2) for title, head, rows in made if rows)


def ratio_of(count: Count) -> str:
    """Return candidate / baseline as text: ``only candidate`` where the baseline has none."""
    if count.baseline is None or count.candidate is None:
        return "not counted on one side"
    if any(count.least):
        return "not counted to the end"
    if not count.baseline or not count.candidate:
        return (
            "equal" if count.baseline == count.candidate else f"only {'candidate' if count.candidate else 'baseline'}"
        )
    between = "" if count.interval is None else f" ({ratio(count.interval[0])} to {ratio(count.interval[1])})"
    return ratio(count.candidate / count.baseline) + between


def count_rows(counts: Sequence[Count]) -> Rows:
    """Return the counts to show: those that differ by more than 2 %, without counts of single functions."""
    whole = [
        count
        for count in counts
        if count.group not in {"calls", MEMORY} and (count.group != INSTRUCTIONS or count.name == "all")
    ]
    return tuple(
        (
            count.group,
            count.name,
            *(
                "" if value is None else f"{'at least ' if least else ''}{amount(value)}"
                for value, least in zip((count.baseline, count.candidate), count.least, strict=True)
            ),
            ratio_of(count),
        )
        for count in [each for each in whole if distance(each) > 0.02][:MOST_COUNTS]
    )


def wait_rows(seen: RowMeasurements) -> Rows:
    """Return what ended the waits of both variants, those with the most time first, and who had the processor meanwhile."""
    none = ("", 0.0)
    sides: list[dict[tuple[str, str], tuple[str, float]]] = []
    for reference in seen.references:
        run = run_of(seen, "waits", reference.variant)
        found = {} if run is None else {(w.reason, w.whose): (amount(w.waits), w.total_ns) for w in run.waits}
        taken = {} if run is None else {(TAKEN, each.whose): ("", each.total_ns) for each in run.taken}
        sides.append({**found, **taken})
    keys = sorted({*sides[0], *sides[1]}, key=lambda key: (-max(side.get(key, none)[1] for side in sides), key))
    pairs = [(key, [side.get(key, none) for side in sides]) for key in keys[:MOST_WAITS]]
    rows = [(*key, *(text for waits, ns in times for text in (waits, duration(ns)))) for key, times in pairs]
    return tuple(row for row in rows if row[3] != "0 ns" or row[5] != "0 ns")


def instrument_rows(seen: RowMeasurements) -> Rows:
    """Return each variant under each instrument, with the overhead."""
    return tuple(
        (
            run.instrument,
            short_label(run.variant),
            amount(run.operations),
            "" if run.overhead is None else f"{run.overhead:.2f}",
            run.tool or "none",
        )
        for run in sorted(seen.runs, key=lambda run: (run.instrument, run.variant))
    )
