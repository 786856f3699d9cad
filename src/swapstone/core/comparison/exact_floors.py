# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floors of exact values: up to which difference the same work may differ, built in another way or placed elsewhere.

Exact values have no noise, so two programs whose work is the same differ a little in each replicate alike: the loader reads other names,
pages are mapped around other faults, a tick falls on the other side of the end. A difference is stated only beyond three floors.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.comparison.pairs import EXACT_PAIRS
from swapstone.core.model import Metric, Quantity, Scale
from swapstone.core.model.number_text import exact_effect
from swapstone.core.stats import Floats, Interval, KnownCentre, median

STATED = 3.0
"""A difference is stated if it exceeds so many floors with one sign in each pair."""

LARGEST_LOGARITHM = 700.0
"""No ratio of a larger logarithm is printed: it overflows."""


class Floor(NamedTuple):
    """The largest difference of the same work in a quantity: the larger of a share of the baseline and a number in the metric's unit."""

    share: float = 0.0
    least: float = 0.0


FLOORS: dict[str | Quantity, Floor] = {
    **dict.fromkeys(("instructions", "rep_turns"), Floor(0.00005, 1000.0)),
    **dict.fromkeys(
        (f"{kind}_instructions" for kind in ("kernel", "call", "fault", "interrupt")), Floor(0.003, 8000.0)
    ),
    **dict.fromkeys(("nvcsw", "nivcsw", "task_switches"), Floor(least=1.0)),
    "run_delay": Floor(0.00025, 8000.0),
    **dict.fromkeys((Quantity.TIME, Quantity.RATE), Floor(0.00025)),
}
"""Floors by the metric's name, else by its quantity; memory, sizes, system calls by name, faults and other counts have none.

Measured 2026-11-28 with QEMU 7.2.22 and Linux 6.1 on x86_64 and arm64, 4 to 6 replicates each. A program of 28.2 M instructions in user
mode and 3.1 M in the kernel was built in ten other ways (build ID, debug information, names of symbols, link orders, 20 kB of constants),
and started by other paths and with 61 bytes more environment. In user mode it then executed at most 0.0025 % more (705 instructions); nine
short processes by another name, 990. The kernel's instructions moved by -0.16 to +0.36 %, and by 8000 where one tick or switch more fell
inside, guest time by at most 0.021 %; of a program of 9 ms, 20 kB of constants moved it by 0.072 %, on arm64 by 0.101 %. Ticks and
switches moved by one, system calls by name in no case; faults neither, but of processes whose program had no build ID
(benchmarks/exact-rows). docs/exact-rows.md has the tables.
"""


def constant_floor(metric: Metric, level: float) -> float:
    """Return the floor of a metric from `FLOORS`, in its unit.

    Of a tool that prints steps, three floors are at least one step.

    Args:
        metric: of the values.
        level: median of the baseline, without its sign.
    """
    found = FLOORS.get(metric.name) or FLOORS.get(metric.quantity, Floor())
    return max(found.share * level, found.least, metric.resolution / STATED)


class Exactness(NamedTuple):
    """How exact values of a metric are judged.

    Attributes:
        margin: relative size of an effect that is of no interest.
        sample: number of pairs from which on effects that vary are a sample: as many as an interval at any corrected level needs.
        null_range: range of the copies of the baseline around it, in the metric's unit; 0 without copies.
    """

    margin: float
    sample: int
    null_range: float = 0.0


class ExactEffects(msgspec.Struct, frozen=True, dict=True):
    """Exact effects, on the scale of inference, and how far those of the same work may be from 0.

    Attributes:
        effects: of each pair, shape (pairs,), at least `EXACT_PAIRS`.
        floor: the largest effect of the same work.
        limit: the largest effect inside the margin.
        sample: as of `Exactness`.
        unit: of the metric; empty for logarithms of ratios.
    """

    effects: Floats
    floor: float
    limit: float
    sample: int
    unit: str = ""

    @functools.cached_property
    def range(self) -> Interval:
        """Return the smallest and the largest effect."""
        return Interval(float(self.effects.min()), float(self.effects.max()))

    @property
    def floor_shown(self) -> float:
        """Return the floor as a share of the baseline, or in the metric's unit."""
        return self.floor if self.unit else math.expm1(self.floor)

    @property
    def three_floors(self) -> float:
        """Return what an effect must exceed."""
        return STATED * self.floor

    @property
    def threshold(self) -> float:
        """Return what the effects of all pairs must exceed.

        Where the effect itself depends on the replicate, the mean distance between neighbouring effects is a floor, too: two replicates
        that agree in sign may do so by chance.
        """
        return max(self.three_floors, STATED * 2 * self.range.half_width / (self.effects.size - 1))

    @property
    def sign(self) -> int:
        """Return the sign of effects that exceed the threshold with one sign in all pairs; else 0."""
        return (self.range.low > self.threshold) - (self.range.high < -self.threshold)

    @property
    def inside(self) -> bool:
        """Return whether all effects lie inside the margin."""
        return -self.limit <= self.range.low and self.range.high <= self.limit

    @property
    def known(self) -> KnownCentre | None:
        """Return the inference: the range, unless more pairs are needed, and there are enough of them for a sample."""
        if not self.settled and self.effects.size >= self.sample:
            return None
        return KnownCentre(median(self.effects), self.range, self.effects.size, self.threshold or None)

    @property
    def settled(self) -> bool:
        """Return whether more pairs are not needed: the effect is stated, inside the margin, or the same in all pairs."""
        return self.sign != 0 or self.inside or self.range.half_width == 0

    @property
    def figures(self) -> str:
        """Return the range, e.g. ``+0.4301 % to +0.4311 %``."""
        return " to ".join(dict.fromkeys(map(self._text, (self.range.low, self.range.high))))

    @property
    def undecided(self) -> str:
        """Return why no direction is stated."""
        where = f"all {self.effects.size} pairs: {self.figures}"
        if self.range.low > self.three_floors or self.range.high < -self.three_floors:
            return f"the difference has one sign, and varies too much for a direction, in {where}"
        return f"the difference does not exceed three floors ({self._text(self.three_floors)}) with one sign in {where}"

    def _text(self, value: float) -> str:
        return exact_effect(value if self.unit else math.exp(min(value, LARGEST_LOGARITHM)), self.unit)


def exact_effects(
    how: Exactness | None,
    metric: Metric,
    effects: Floats,
    reference: Floats,
    scale: Scale,
    *,
    differences: int = 1,
) -> ExactEffects | None:
    """Return the effects with their floor and margin; None if they are not exact, or fewer than `EXACT_PAIRS`.

    Args:
        how: None if they are not exact.
        metric: of the values.
        effects: on the scale of inference, shape (pairs,).
        reference: values to which floor and margin are relative: to their median.
        scale: of the effects.
        differences: how many differences each effect adds: 2 of an interaction.
    """
    if how is None or effects.size < EXACT_PAIRS:
        return None
    level = abs(median(reference))
    floor = max(constant_floor(metric, level), how.null_range)
    if scale is Scale.RATIO:
        return ExactEffects(effects, differences * math.log1p(floor / level), math.log1p(how.margin), how.sample)
    return ExactEffects(effects, differences * floor, how.margin * level, how.sample, metric.unit or "1")


def opposed(found: Iterable[ExactEffects | None]) -> bool:
    """Return whether some effects are stated beyond the margin in one direction, and others in the other: a mean would mean nothing."""
    return {each.sign for each in found if each is not None and not each.inside} >= {1, -1}


def mean_effects(found: Sequence[ExactEffects | None], means: Floats) -> ExactEffects | None:
    """Return the means of several effects in each pair, with the mean of their floors; None if some are no exact ratios, or of one pair.

    Args:
        found: at least one.
        means: shape (pairs,).
    """
    exact = [each for each in found if each is not None and not each.unit]
    if len(exact) < len(found) or means.size < EXACT_PAIRS:
        return None
    return msgspec.structs.replace(exact[0], effects=means, floor=statistics.fmean(each.floor for each in exact))
