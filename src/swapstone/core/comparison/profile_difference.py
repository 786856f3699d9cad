# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of two profiles by function: own and inclusive, with callers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from swapstone.core.model.profile import NAMELESS, Frame, Profile

LEAST_COVERED = 0.8
"""Smallest share of a difference that functions that lead have, by the lower end of its interval."""

MOST_COVERED = 1.2
"""Largest share that they have: more is work that other functions save."""

LEAST_SHARE = 0.1
"""Smallest share of a difference, of either sign, of each of several functions that lead."""

SMALLEST_SHARE = 0.01
"""The same of each function over which a difference is spread."""

MOST_LEADING = 3
_MOST_CHOSEN_FROM = 40
_NEARLY_ALL = 0.95

ShareInterval = Callable[..., tuple[float, float]]
"""Of some functions together; an error rate may be given."""

NO_STACK = Frame(symbol="[no stack]", object=NAMELESS)
NO_CALLERS = Frame(symbol=NAMELESS, object="C library")
"""Stands for all callers where they were left out, so it is no function that could lead."""

BELOW = "below "
"""Start of the name of functions without a name, before that of their caller."""


@dataclasses.dataclass
class Weights:
    """The weight of an operation on both sides.

    Attributes:
        baseline, candidate: in the unit of the profiles.
    """

    baseline: float = 0.0
    candidate: float = 0.0

    @property
    def difference(self) -> float:
        """Return candidate minus baseline."""
        return self.candidate - self.baseline

    def add(self, other: Weights) -> None:
        """Add the weights of other stacks."""
        self.baseline += other.baseline
        self.candidate += other.candidate


@dataclasses.dataclass(frozen=True)
class FrameDifference:
    """A function on both sides.

    Attributes:
        frame: the function. A nameless one has the symbol ``below CALLER``, after its nearest caller with a name, if it has one; a stack
            without functions counts as `NO_STACK`.
        own: in the function itself.
        inclusive: in it and in what it calls. A stack counts once, however often the function is on it.
        callers: `inclusive` by the caller of the function's outermost call, the largest difference first. Stacks that begin with the
            function have no caller.
        interval: of the difference of `inclusive`; None of exact weights, and where it can't be computed.
        has_share: whether the interval of its share of the difference excludes 0. That may be known better than the difference itself.
    """

    frame: Frame
    own: Weights
    inclusive: Weights
    callers: dict[Frame, Weights]
    interval: tuple[float, float] | None = None
    has_share: bool = False

    @property
    def is_shown(self) -> bool:
        """Return whether an interval excludes 0, if there is one."""
        return self.has_share or self.interval is None or self.interval[0] > 0 or self.interval[1] < 0

    @property
    def weight(self) -> float:
        """Return the inclusive weight of both sides."""
        return self.inclusive.baseline + self.inclusive.candidate


@dataclasses.dataclass(frozen=True)
class ProfileDifference:
    """Two profiles by function.

    Attributes:
        total: of all stacks: the sum of all functions' own weights.
        frames: each function of either side, the largest difference of own weights first, of equal ones that of inclusive weights.
        notes: limits of the profiles.
        share_interval: returns the interval of the share of the difference that functions have together, of which none calls another one,
            without ends if they have no intervals; None of exact weights, and where it can't be computed.
        nested: pairs of functions of which one calls the other, of those that are candidates for `leading`.
    """

    total: Weights
    frames: tuple[FrameDifference, ...]
    notes: tuple[str, ...]
    nested: Collection[frozenset[Frame]] = ()
    share_interval: ShareInterval | None = dataclasses.field(default=None, compare=False)

    def with_intervals(
        self,
        intervals: Mapping[Frame, tuple[float, float]],
        share_interval: ShareInterval | None = None,
        shares: Collection[Frame] = (),
    ) -> ProfileDifference:
        """Return the same with intervals of the inclusive differences of some functions, `share_interval`, and those that have a share."""
        frames = (
            dataclasses.replace(one, interval=intervals.get(one.frame), has_share=one.frame in shares)
            for one in self.frames
        )
        return dataclasses.replace(self, frames=tuple(frames), share_interval=share_interval)

    def leading(self) -> tuple[FrameDifference, ...]:
        """Return the fewest functions, at most `MOST_LEADING`, that account for the difference, with what they call.

        The interval of their share covers `LEAST_COVERED` of it, the share is at most `MOST_COVERED`, none calls another one, and the
        interval of each excludes 0. Of one function, one that accounts for the difference by itself comes first; then the one with the
        smallest inclusive weight: of two of which one is called by the other alone, the called one. A function that is on nearly every
        stack of both sides, as `main` is, gives way to several functions that it calls, those with most of the difference; if there are
        none and it has no caller, it leads only if half of the difference is its own.

        Returns:
            The functions, the largest difference first; none if no such functions exist, or there is no difference.
        """
        whole = self.total.difference
        shown = [one for one in self.frames if one.is_shown and one.frame not in {NO_STACK, NO_CALLERS}]
        alone = _innermost([one for one in shown if self._cover([one])], whole)
        if alone is not None and (_accounts(alone.own.difference, whole) or not self.is_everywhere(alone)):
            return (alone,)
        if several := self._several([one for one in shown if not self.is_everywhere(one)]):
            return several
        return (alone,) if alone and (alone.callers or 2 * alone.own.difference / whole >= 1) else ()

    def spread(self) -> int:
        """Return the number of functions whose own differences, of either sign, are `SMALLEST_SHARE` of the difference or more."""
        least = SMALLEST_SHARE * abs(self.total.difference)
        return sum(abs(one.own.difference) >= least and one.own.difference != 0 for one in self.frames)

    def is_everywhere(self, one: FrameDifference) -> bool:
        """Return whether a function is on nearly every stack of both sides."""
        pairs = ((one.inclusive.baseline, self.total.baseline), (one.inclusive.candidate, self.total.candidate))
        return all(part >= _NEARLY_ALL * whole for part, whole in pairs)

    def _rank(self, chosen: Sequence[FrameDifference]) -> tuple[int, float]:
        """Return the share outside of functions in steps of 5 %, and their weight: of sets with as much the innermost functions."""
        whole = self.total.difference
        rest = sum(one.inclusive.difference for one in chosen) - whole
        return round(20 * abs(rest / whole)), sum(one.weight for one in chosen)

    def is_relevant(self, one: FrameDifference) -> bool:
        """Return whether a function has `LEAST_SHARE` of the difference, of either sign, with what it calls."""
        whole = self.total.difference
        return whole != 0 and abs(one.inclusive.difference) >= LEAST_SHARE * abs(whole)

    def _cover(self, chosen: Sequence[FrameDifference]) -> bool:
        """Return whether functions account for the difference, also at the lower end of the interval of their share."""
        part = sum(one.inclusive.difference for one in chosen)
        if not _accounts(part, self.total.difference):
            return False
        return self.share_interval is None or self.share_interval([one.frame for one in chosen])[0] >= LEAST_COVERED

    def _several(self, among: Sequence[FrameDifference]) -> tuple[FrameDifference, ...]:
        candidates = [one for one in among if self.is_relevant(one)]
        candidates = sorted(candidates, key=lambda one: -abs(one.inclusive.difference))[:_MOST_CHOSEN_FROM]
        for number in range(2, MOST_LEADING + 1):
            found = (
                chosen
                for chosen in itertools.combinations(candidates, number)
                if not any(
                    frozenset((one.frame, other.frame)) in self.nested
                    for one, other in itertools.combinations(chosen, 2)
                )
                and self._cover(chosen)
            )
            if best := min(found, key=self._rank, default=None):
                return best
        return ()


def _innermost(among: Sequence[FrameDifference], whole: float) -> FrameDifference | None:
    """Return the function that accounts for the whole by itself, or has the smallest inclusive weight: of equal ones, the called one.

    One without a name gives way to those that have one, unless it is the first kind.
    """
    ranks = [
        (not _accounts(one.own.difference, whole), one.frame.symbol.startswith((BELOW, NAMELESS)), one.weight)
        for one in among
    ]
    equal = [one for one, rank in zip(among, ranks, strict=True) if rank == min(ranks)]
    callers = {caller for one in equal for caller in one.callers if caller != one.frame}
    return next((one for one in equal if one.frame not in callers), next(iter(equal), None))


def _accounts(part: float, whole: float) -> bool:
    return whole != 0 and LEAST_COVERED <= part / whole <= MOST_COVERED


def stacks_of_both(baseline: Profile, candidate: Profile) -> tuple[tuple[Frame, ...], dict[tuple[int, ...], Weights]]:
    """Return the frames of either profile, and the stacks of either as numbers of frames, the outermost first, with weights per operation.

    A graph has half a million frames in its stacks: the hash of a number takes a fraction of that of a frame.
    """
    numbers: dict[Frame, int] = {}
    found: dict[tuple[int, ...], Weights] = {}
    for profile, side in ((baseline, "baseline"), (candidate, "candidate")):
        number_of = [numbers.setdefault(frame, len(numbers)) for frame in profile.frames]
        for stack in profile.stacks:
            frames = tuple([number_of[number] for number in stack.frames])
            if (weights := found.get(frames)) is None:
                weights = found[frames] = Weights()
            weights.add(Weights(**{side: stack.weight / profile.operations}))
    return tuple(numbers), found


def difference(baseline: Profile, candidate: Profile) -> ProfileDifference:
    """Return the difference of two profiles of one unit by function, per operation."""
    total, found = Weights(), dict[Frame, FrameDifference]()
    stacks = []
    known, weighted = stacks_of_both(baseline, candidate)
    for stack, weights in weighted.items():
        total.add(weights)
        above, functions = None, set[Frame]()
        for frame in counted_frames([known[number] for number in stack]):
            one = found.get(frame) or found.setdefault(frame, FrameDifference(frame, Weights(), Weights(), {}))
            if frame not in functions:
                functions.add(frame)
                one.inclusive.add(weights)
                if above is not None:
                    one.callers.setdefault(above, Weights()).add(weights)
            above = frame
        one.own.add(weights)
        stacks.append(functions)
    frames = sorted(found.values(), key=lambda one: _order(one.frame, one.own, one.inclusive))
    sorted_callers = (dict(sorted(one.callers.items(), key=lambda pair: _order(*pair))) for one in frames)
    made = ProfileDifference(
        total,
        tuple(dataclasses.replace(one, callers=each) for one, each in zip(frames, sorted_callers, strict=True)),
        tuple(dict.fromkeys((*baseline.notes, *candidate.notes))),
    )
    relevant = {one.frame for one in made.frames if made.is_relevant(one)}
    pairs = (pair for functions in stacks for pair in itertools.combinations(functions & relevant, 2))
    return dataclasses.replace(made, nested=frozenset(map(frozenset, pairs)))


def counted_frames(stack: Sequence[Frame]) -> Iterator[Frame]:
    """Yield the functions of a stack as they count, the outermost first: nameless ones for their nearest caller with a name."""
    name = ""
    for frame in stack or (NO_STACK,):
        if frame.symbol == NAMELESS and name:
            yield Frame(symbol=f"{BELOW}{name}", object=frame.object)
        else:
            name = frame.symbol.replace(NAMELESS, "")
            yield frame


def _order(frame: Frame, *weights: Weights) -> tuple[float | str, ...]:
    return (*(-abs(each.difference) for each in weights), frame.object, frame.symbol)
