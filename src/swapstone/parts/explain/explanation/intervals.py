# SPDX-License-Identifier: MIT OR Apache-2.0
"""Intervals of the ledger's lines: a bootstrap by run of everything that the ledger is computed from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from swapstone.core.model.profile import Profile
from swapstone.core.stats.mean_ratio import student_quantile
from swapstone.parts.explain.explanation.cost_classes import READY, UNNAMED, WAITING, CostClasses, wait_class
from swapstone.parts.explain.model.explanation import ElapsedTime, Reference

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""A class and its detail, as in a line of the ledger."""
Interval = tuple[float, float]

ERROR = 0.05
"""Error rate of the intervals of all classes of a ledger together (Bonferroni)."""
REPLICATES = 1000
LEAST_RUNS = 4
"""With fewer runs there are no intervals."""
MOST_LINES = 400
"""More lines only occur in forged evidence."""
_SEED = 20  # fixed: the same evidence has the same intervals


@dataclasses.dataclass(frozen=True)
class SideRuns:
    """What the ledger of one side is computed from, by run.

    Attributes:
        reference: the runs without an instrument; its `values` have ``wall`` and ``cpu``.
        on_cpu: stacks of processor time.
        elapsed: division of the elapsed time; None if the ledger splits processor time, or without off-CPU runs.
        waits: whether the ledger splits elapsed time.
    """

    reference: Reference
    on_cpu: Profile
    elapsed: ElapsedTime | None
    waits: bool

    def groups(self) -> int:
        """Return the smallest number of runs of which anything is computed."""
        references = min((len(values) for _, values in self.reference.values), default=0)
        elapsed = self.elapsed if self.waits else None
        return min(
            references,
            *(len(each.runs) for each in (self.on_cpu, elapsed, elapsed and elapsed.waits) if each is not None),
        )


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Intervals of differences, candidate less baseline, in ns per operation.

    Attributes:
        lines: of each line of the ledger.
        causes: of each class.
        repeated: of the difference of the reference runs.
    """

    lines: Mapping[Key, Interval]
    causes: Mapping[str, Interval]
    repeated: Interval

    @property
    def sampling(self) -> float:
        """Return the half-width of the widest interval of a line."""
        return max(((high - low) / 2 for low, high in self.lines.values()), default=0.0)


@dataclasses.dataclass(frozen=True)
class _Replicates:
    """Times of one side by replicate: all of it, and by line; and the variance of each line that follows from counting samples."""

    totals: Floats
    keys: tuple[Key, ...]
    times: Floats
    counting: Floats


def intervals(
    sides: Sequence[SideRuns], differences: Mapping[Key, float], metric: str, classes: CostClasses
) -> Intervals | None:
    """Return intervals of the ledger's lines.

    The runs of each kind are resampled: those without an instrument as pairs of both sides, because both took turns; those under an
    instrument of each side by itself. The standard error of a line is that of the replicates, or that of counting samples (Poisson) where
    that is larger: equal counts in a few runs are no proof of an exact share. Student's quantile is of the smallest number of runs.

    Args:
        sides: baseline, then candidate.
        differences: of each line, in ns.
        metric: the time that the ledger splits, ``wall`` or ``cpu``.
        classes: the classes of cost.

    Returns:
        None if something was measured in fewer than `LEAST_RUNS` runs, or for more than `MOST_LINES` lines.
    """
    groups = min(side.groups() for side in sides)
    if groups < LEAST_RUNS or not 0 < len(differences) <= MOST_LINES:
        return None
    chance = np.random.default_rng(_SEED)
    lengths = [len(_values(side.reference, metric)) for side in sides]
    common = chance.integers(0, lengths[0], (REPLICATES, lengths[0])) if lengths[0] == lengths[1] else None
    made = [_replicates(side, metric, classes, chance, common) for side in sides]
    # The standard deviation of a resampled mean is too small by this factor.
    factor = groups / (groups - 1)
    keys = list(differences)
    names = list(dict.fromkeys(cause for cause, _ in keys))
    reach = student_quantile(groups - 1, ERROR / max(1, len(names)))

    def interval(among: Sequence[Key]) -> Interval:
        moved = _sum(made[1], among) - _sum(made[0], among)
        counting = sum(float(side.counting[[key in among for key in side.keys]].sum()) for side in made)
        spread = reach * math.sqrt(max(float(moved.var()) * factor, counting))
        middle = sum(differences[key] for key in among)
        return middle - spread, middle + spread

    apart = made[1].totals - made[0].totals
    middle = float(np.median(_values(sides[1].reference, metric)) - np.median(_values(sides[0].reference, metric)))
    spread = student_quantile(groups - 1, ERROR) * math.sqrt(float(apart.var()) * factor)
    return Intervals(
        lines={key: interval([key]) for key in keys},
        causes={name: interval([key for key in keys if key[0] == name]) for name in names},
        repeated=(middle - spread, middle + spread),
    )


def _values(reference: Reference, metric: str) -> Floats:
    return np.asarray(dict(reference.values).get(metric, ()), dtype=np.float64)


def _sum(side: _Replicates, among: Sequence[Key]) -> Floats:
    chosen = [place for place, key in enumerate(side.keys) if key in among]
    return np.asarray(side.times[:, chosen].sum(axis=1), dtype=np.float64)


def _by_key(profile: Profile, classes: Sequence[Key]) -> tuple[list[Key], Floats]:
    """Return the lines of a profile, given that of each stack, and the weight of each by run. All that has no name is one line."""
    named = [(UNNAMED, "") if key[0] == UNNAMED else key for key in classes]
    keys = {key: place for place, key in enumerate(dict.fromkeys(named))}
    found = np.zeros((len(profile.runs), len(keys)))
    for number, run in enumerate(profile.runs):
        for stack, weight in run.weights:
            found[number, keys[named[stack]]] += weight
    return list(keys), found


def _draws(chance: np.random.Generator, runs: int) -> Floats:
    """Return how often each run occurs in each replicate."""
    drawn: Floats = chance.multinomial(runs, [1 / runs] * runs, REPLICATES).astype(np.float64)
    return drawn


def _shares(weights: Floats) -> Floats:
    whole = weights.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(weights, whole, out=np.zeros_like(weights), where=whole > 0)
    return shares


def _replicates(
    side: SideRuns, metric: str, classes: CostClasses, chance: np.random.Generator, common: NDArray[np.int64] | None
) -> _Replicates:
    number = len(_values(side.reference, metric))
    chosen = chance.integers(0, number, (REPLICATES, number)) if common is None else common
    totals = np.median(_values(side.reference, metric)[chosen], axis=1)
    profile = side.on_cpu
    keys, weights = _by_key(profile, classes.of_stacks(profile))
    shares = _shares(_draws(chance, len(weights)) @ weights)
    running, waiting = np.ones(REPLICATES), np.zeros((REPLICATES, 0))
    others: list[Key] = []
    if side.waits:
        cpu, wall = (np.median(_values(side.reference, name)[chosen], axis=1) for name in ("cpu", "wall"))
        running, others, waiting = _passed(side.elapsed, cpu / np.maximum(wall, 1e-9), classes, chance)
    times = np.hstack((shares * (running * totals)[:, None], waiting * totals[:, None]))
    # Of N samples of a total T, a line with the share p has the variance p (1 - p) T^2 / N.
    share, whole = shares.mean(axis=0), float((running * totals).mean())
    counting = np.concatenate((share * (1 - share) * whole**2 / max(1, profile.samples), np.zeros(len(others))))
    # Columns of one line are summed up: a lock has processor time and waits.
    names = tuple(dict.fromkeys([*keys, *others]))
    sums = np.asarray([[key == name for name in names] for key in [*keys, *others]], dtype=np.float64)
    return _Replicates(totals, names, times @ sums, counting @ sums)


def _passed(
    elapsed: ElapsedTime | None, cpu_share: Floats, classes: CostClasses, chance: np.random.Generator
) -> tuple[Floats, list[Key], Floats]:
    """Return the share of the elapsed time in which a thread ran, and the other shares by line: as `ledger`, by replicate."""
    if elapsed is None or not elapsed.wall_ns:
        running = np.minimum(1.0, cpu_share)
        return running, [(WAITING, "cause unknown")], (1.0 - running)[:, None]
    profile = elapsed.waits
    keys, weights = _by_key(profile, [wait_class(frames, classes) for frames, _ in profile.weighted()])
    ready = np.asarray([[run.ready_ns] for run in elapsed.runs])
    drawn = _draws(chance, len(weights))
    off = drawn @ np.hstack((weights, ready))
    ran, spent = (drawn @ np.asarray([getattr(run, name) for run in elapsed.runs]) for name in ("running_ns", "cpu_ns"))
    alone = np.divide(ran, spent, out=np.ones_like(ran), where=spent > 0)
    running = np.minimum(1.0, cpu_share * alone)
    shares = _shares(off)
    lost = np.where(off.sum(axis=1) > 0, 0.0, 1.0 - running)
    names = [*keys, (READY, ""), (UNNAMED, "waiting")]
    return running, names, np.hstack((shares * (1.0 - running)[:, None], lost[:, None]))
