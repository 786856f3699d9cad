# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of a row in time by function, on a processor and waiting, with intervals by a bootstrap over whole runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from swapstone.core.comparison.profile_difference import (
    NO_STACK,
    ProfileDifference,
    ShareInterval,
    Weights,
    counted_frames,
    difference,
)
from swapstone.core.model.profile import Frame, Profile, ProfileRun, Stack
from swapstone.core.stats.mean_ratio import student_quantile
from swapstone.parts.explain.explanation.profile_formats import aligned, have_other_libraries, waiting_stack
from swapstone.parts.explain.model.explanation import (
    NO_PROCESSOR_FRAME,
    UNSAMPLED,
    UNSAMPLED_USER,
    ElapsedTime,
    InstrumentResult,
    Reference,
    RowMeasurements,
)

Floats = NDArray[np.float64]
Interval = tuple[float, float]

WALL = "wall"
READY = (NO_PROCESSOR_FRAME,)
ERROR = 0.05
"""Error rate of the intervals of `SHOWN_FUNCTIONS` functions together (Bonferroni)."""
SHOWN_FUNCTIONS = 8
REPLICATES = 1000
LEAST_RUNS = 4
"""With fewer runs there are no intervals."""
_SEED = 20  # fixed: the same evidence has the same intervals
_LEAST_SHARE, _MOST_FUNCTIONS = 0.01, 200
"""Of the functions that get intervals."""

_COUNTED = 1_000_000
"""Samples of a profile of counted time, whose counting error is none."""


@dataclasses.dataclass(frozen=True)
class TimeSplit:
    """The difference of a row in time, by function. All times are of an operation, in ns.

    Attributes:
        metric: the time, ``wall`` or ``cpu``.
        recorded: in the record; as `functions` has it, if the row is of another metric.
        functions: of the reference runs, divided as the runs under instruments were: their time on a processor and waiting.
        ready: the rest of their time, in which threads were ready and had no processor.
        waits: the waiting part of each function's inclusive difference.
        interval: of the difference of all functions together; None with fewer than `LEAST_RUNS` runs of anything.
        samples: of processor time, baseline and candidate.
        notes: limits.
        other_libraries: whether the variants have different C libraries.
    """

    metric: str
    recorded: Weights
    functions: ProfileDifference
    ready: Weights
    waits: Mapping[Frame, float]
    interval: Interval | None
    samples: tuple[int, int]
    notes: tuple[str, ...]
    other_libraries: bool

    @property
    def is_decided(self) -> bool:
        """Return whether the runs now show a difference on a processor or waiting."""
        return self.interval is None or not self.interval[0] <= 0 <= self.interval[1]


@dataclasses.dataclass(frozen=True)
class _Side:
    """One variant: its runs without an instrument, its stacks on a processor and waiting, and how its elapsed time is divided.

    Processor time has no waits.
    """

    reference: Reference
    running: Profile
    waiting: Profile
    elapsed: ElapsedTime | None

    def values(self, metric: str) -> Floats:
        return np.asarray(dict(self.reference.values).get(metric, ()), dtype=np.float64)

    def runs(self, metric: str) -> int:
        """Return the smallest number of runs of which anything is computed; 0 if its times were not kept of each run."""
        lengths = {len(self.values(name)) for name in (metric, "cpu")}
        elapsed = () if self.elapsed is None else (len(self.elapsed.runs), len(self.elapsed.waits.runs))
        return min((*lengths, len(self.running.runs), *elapsed)) if len(lengths) == 1 else 0

    def shares(self, cpu_share: Floats | float, ran: Floats | float, spent: Floats | float) -> Floats:
        """Return the share of the time in which a thread ran.

        CPU time comes from the reference runs, which perf does not slow down. Of several threads only the share of it in which one ran
        alone, which is elapsed time too, comes from the recording.
        """
        alone = np.where(np.asarray(spent) > 0, np.asarray(ran) / np.maximum(spent, 1e-9), 1.0)
        return np.asarray(np.minimum(1.0, cpu_share * alone), dtype=np.float64)


def run_of(seen: RowMeasurements, instrument: str, variant: str) -> InstrumentResult | None:
    """Return the result of an instrument for a variant."""
    return next((run for run in seen.runs if run.instrument == instrument and run.variant == variant), None)


def time_split(seen: RowMeasurements) -> TimeSplit | None:
    """Return the difference of a row by function.

    The time of the runs without an instrument is divided as the instruments measured: off-CPU for running, waiting and runnable time,
    on-CPU for the running time. Time that an instrument adds is not counted.

    Returns:
        None without an on-CPU profile of both variants.
    """
    before, after = (_measured(seen, reference) for reference in seen.references)
    if before is None or after is None:
        return None
    first, second, cut = aligned(before.running, after.running)
    notes = list(cut[1:])
    if seen.ledger_metric == WALL:
        both = (side.mapped(waiting_stack) for side in (before.waiting, after.waiting))
        before_waits, after_waits, cut = aligned(*both)
        before, after = (
            dataclasses.replace(side, waiting=waits) for side, waits in ((before, before_waits), (after, after_waits))
        )
        notes += [f"Of the waits: {note}" for note in cut[1:]]
        if before.elapsed is None or after.elapsed is None:
            notes.append("There is no off-CPU profile of both variants, so waits have no function.")
        elif max(before.elapsed.most_threads, after.elapsed.most_threads) > 1:
            notes.append(
                "Elapsed time is divided among the threads that are active at the same time, as the off-CPU runs measured it."
            )
    sides = [dataclasses.replace(side, running=running) for side, running in ((before, first), (after, second))]
    metric = seen.ledger_metric
    pairs = [_parts(side, metric) for side in sides]
    (first, first_ready), (second, second_ready) = (_joined(parts, notes) for parts in pairs)
    functions, ready = difference(first, second), Weights(first_ready, second_ready)
    waits = difference(*(_joined(parts[1:], ())[0] for parts in pairs))
    now = (functions.total.baseline + ready.baseline, functions.total.candidate + ready.candidate)
    recorded = [each if side.time_ns is None else side.time_ns for side, each in zip(seen.references, now, strict=True)]
    intervals, whole, share_interval = _intervals(sides, functions, metric)
    ends = {frame: share_interval([frame], ERROR / SHOWN_FUNCTIONS) for frame in intervals} if share_interval else {}
    return TimeSplit(
        metric=metric,
        recorded=Weights(*recorded),
        functions=functions.with_intervals(
            intervals, share_interval, {frame for frame, (low, high) in ends.items() if not low <= 0 <= high}
        ),
        ready=ready,
        waits={one.frame: one.inclusive.difference for one in waits.frames},
        interval=whole,
        samples=(_sampled(before.running), _sampled(after.running)),
        notes=tuple(dict.fromkeys(notes)),
        other_libraries=have_other_libraries(before.running, after.running),
    )


def measured_difference(seen: RowMeasurements) -> ProfileDifference | None:
    """Return the difference of a row by function; None as of `time_split`."""
    split = time_split(seen)
    return None if split is None else split.functions


def _measured(seen: RowMeasurements, reference: Reference) -> _Side | None:
    """Return what was measured of one side; None without an on-CPU profile, and without waits in its place."""
    on_cpu, off_cpu = (run_of(seen, instrument, reference.variant) for instrument in ("on-cpu", "off-cpu"))
    elapsed = off_cpu.elapsed if off_cpu is not None and seen.ledger_metric == WALL else None
    running = on_cpu.profile if on_cpu is not None else None if elapsed is None else _unsampled(reference)
    if running is None:
        return None
    if elapsed is not None and elapsed.most_threads > 1 and not elapsed.cpu_ns:
        elapsed = None  # of a version that did not store how much of it one thread ran alone
    waits = None if elapsed is None else _with_ready(elapsed)
    if waits is None or not waits.total:
        runs = (ProfileRun(samples=0, weights=((0, 1.0),)),) * (len(elapsed.runs) if elapsed else 0)
        unknown: dict[tuple[Frame, ...], float] = {(NO_STACK,): 1.0} if seen.ledger_metric == WALL else {}
        waits = Profile.of(unknown, kind="off-cpu", unit="ns", operations=1.0, runs=runs)
    return _Side(reference, running, waits, elapsed)


def _sampled(profile: Profile) -> int:
    return 0 if UNSAMPLED_USER in profile.frames else profile.samples


def _unsampled(reference: Reference) -> Profile | None:
    """Return a profile of the processor time that the kernel counted in user mode and in itself; None if that is not known."""
    metrics = dict(reference.metrics)
    times = ((UNSAMPLED_USER, metrics.get("user", 0.0)), (UNSAMPLED, metrics.get("system", 0.0)))
    spent: dict[tuple[Frame, ...], float] = {(frame,): each for frame, each in times if each > 0}
    run = ProfileRun(samples=_COUNTED, weights=tuple(enumerate(spent.values())))
    facts = {"kind": "on-cpu", "unit": "ns", "operations": 1.0, "runs": (run,) * reference.runs}
    return Profile.of(spent, **facts) if spent and "system" in metrics else None


def _with_ready(elapsed: ElapsedTime) -> Profile:
    """Return the waits, with a stack for the time in which threads were ready and had no processor."""
    waits, place = elapsed.waits, len(elapsed.waits.stacks)
    frames = (*waits.frames, NO_PROCESSOR_FRAME)
    stacks = (*waits.stacks, Stack(frames=(len(frames) - 1,), weight=elapsed.ready_ns))
    ready = [each.ready_ns for each in elapsed.runs] or [0.0] * len(waits.runs)
    runs = (
        ProfileRun(samples=run.samples, weights=(*run.weights, (place, spent)))
        for run, spent in zip(waits.runs, ready, strict=False)
    )
    return msgspec.structs.replace(waits, frames=frames, stacks=stacks, runs=tuple(runs))


def _parts(side: _Side, metric: str) -> list[tuple[Profile, float]]:
    """Return the stacks on a processor, and waiting, each with the time of all of them."""
    metrics, elapsed = dict(side.reference.metrics), side.elapsed
    total, times = metrics.get(metric, 0.0), (elapsed.running_ns, elapsed.cpu_ns) if elapsed else (0.0, 0.0)
    running = float(side.shares(metrics.get("cpu", 0.0) / total if total else 1.0, *times))
    return [(side.running, running * total), (side.waiting, (1 - running) * total)]


def _joined(parts: Sequence[tuple[Profile, float]], notes: Sequence[str]) -> tuple[Profile, float]:
    """Return one profile of an operation's time on a processor and waiting, and the time in which threads were ready without one."""
    found: dict[tuple[Frame, ...], float] = {}
    for profile, time_ns in parts:
        for frames, weight in profile.weighted():
            found[frames] = found.get(frames, 0.0) + weight * time_ns / (profile.total or 1.0)
    ready = found.pop(READY, 0)
    return Profile.of(found, kind="time", unit="ns", operations=1.0, notes=tuple(notes)), ready


def _intervals(
    sides: Sequence[_Side], functions: ProfileDifference, metric: str
) -> tuple[dict[Frame, Interval], Interval | None, ShareInterval | None]:
    """Return the intervals of functions' inclusive differences, that of the whole difference, and `ProfileDifference.share_interval`.

    The runs of each kind are resampled: those without an instrument as pairs of both sides, because both took turns; those under an
    instrument of each side by itself. The standard error is that of the replicates, or that of counting samples (Poisson) where that is
    larger: equal counts in a few runs are no proof of an exact share. Student's quantile is of the smallest number of runs.
    The standard error of a share is that of a ratio (Cochran, Sampling Techniques, 1977, 2.11), so what the functions and the whole
    have in common does not widen it.
    """
    groups = min(side.runs(metric) for side in sides)
    if groups < LEAST_RUNS:
        return {}, None, None
    least = _LEAST_SHARE * abs(functions.total.difference)
    chosen = sorted(functions.frames, key=lambda one: -abs(one.inclusive.difference))[:_MOST_FUNCTIONS]
    places = {one.frame: n for n, one in enumerate(one for one in chosen if abs(one.inclusive.difference) >= least)}
    middles = {one.frame: one.inclusive.difference for one in chosen}
    chance = np.random.default_rng(_SEED)
    lengths = [len(side.values(metric)) for side in sides]
    common = chance.integers(0, lengths[0], (REPLICATES, lengths[0])) if lengths[0] == lengths[1] else None
    made = [_replicates(side, metric, places, chance, common) for side in sides]
    factor = groups / (groups - 1)  # the standard deviation of a resampled mean is too small by its root
    apart, counting = made[1][0] - made[0][0], made[0][1] + made[1][1]
    spreads = np.sqrt(np.maximum(apart.var(axis=0) * factor, counting))
    reach = student_quantile(groups - 1, ERROR / SHOWN_FUNCTIONS) * spreads
    whole, half = functions.total.difference, student_quantile(groups - 1, ERROR) * float(spreads[-1])
    found = {frame: (middles[frame] - float(reach[n]), middles[frame] + float(reach[n])) for frame, n in places.items()}
    covariance = np.cov(apart, rowvar=False) * factor

    def share_interval(frames: Sequence[Frame], error: float = ERROR) -> Interval:
        if not whole or not places.keys() >= set(frames):
            return -math.inf, math.inf
        share, rows = sum(middles[frame] for frame in frames) / whole, [places[frame] for frame in frames]
        signs = np.zeros(len(spreads))
        signs[rows], signs[-1] = 1.0, -share
        variance = max(float(signs @ covariance @ signs), float(counting[rows].sum()))
        reach_of_share = student_quantile(groups - 1, error) * math.sqrt(variance) / abs(whole)
        return share - reach_of_share, share + reach_of_share

    return found, (whole - half, whole + half), share_interval


def _replicates(
    side: _Side,
    metric: str,
    places: Mapping[Frame, int],
    chance: np.random.Generator,
    common: NDArray[np.int64] | None,
) -> tuple[Floats, Floats]:
    """Return the inclusive times of functions by replicate, of all last, and the variance of each that follows from counting samples."""
    number = len(side.values(metric))
    chosen = chance.integers(0, number, (REPLICATES, number)) if common is None else common
    total = np.median(side.values(metric)[chosen], axis=1)
    weights = _by_run(side.running, places)
    shares = _shares(_draws(chance, len(weights)) @ weights)
    waited = _by_run(side.waiting, places)
    drawn = _draws(chance, len(waited))
    waits = _shares(drawn @ waited)
    rows = [(run.running_ns, run.cpu_ns) for run in side.elapsed.runs] if side.elapsed else [(0.0, 0.0)] * len(waited)
    ran, spent = (drawn @ np.asarray(rows)).T
    cpu = np.median(side.values("cpu")[chosen], axis=1)
    running = side.shares(cpu / np.maximum(total, 1e-9), ran, spent)
    times = (shares * running[:, None] + waits * (1 - running)[:, None]) * total[:, None]
    # Of N samples of a total T, a function with the share p has the variance p (1 - p) T^2 / N.
    share, whole = shares.mean(axis=0), float((running * total).mean())
    return times, share * (1 - share) * whole**2 / max(1, side.running.samples)


def _by_run(profile: Profile, places: Mapping[Frame, int]) -> Floats:
    """Return the inclusive weights of functions by run, then of all functions together, then of all stacks.

    A profile without runs counts as one.
    """
    every = len(places)
    columns = [
        [every + 1]
        if frames == READY
        else [*{places[each] for each in counted_frames(frames) if each in places}, every, every + 1]
        for frames, _ in profile.weighted()
    ]
    runs = [run.weights for run in profile.runs] or [tuple((n, stack.weight) for n, stack in enumerate(profile.stacks))]
    found = np.zeros((len(runs), len(places) + 2))
    for number, weights in enumerate(runs):
        for stack, weight in weights:
            found[number, columns[stack]] += weight
    return found


def _draws(chance: np.random.Generator, runs: int) -> Floats:
    """Return how often each run occurs in each replicate."""
    return chance.multinomial(runs, [1 / runs] * runs, REPLICATES).astype(np.float64)


def _shares(weights: Floats) -> Floats:
    """Return all columns but the last, over the last."""
    parts, whole = weights[:, :-1], weights[:, -1:]
    return np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)
