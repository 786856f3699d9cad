# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of two profiles by function: own and inclusive, with callers."""

from __future__ import annotations

import dataclasses

from swapstone.core.model.profile import NAMELESS, Frame, Profile

LARGEST_REST = 0.2
"""Largest share of a difference, of either sign, that is outside of one function if that is named alone."""

NO_STACK = Frame(symbol="[no stack]", object=NAMELESS)


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
    """

    frame: Frame
    own: Weights
    inclusive: Weights
    callers: dict[Frame, Weights]


@dataclasses.dataclass(frozen=True)
class ProfileDifference:
    """Two profiles by function.

    Attributes:
        total: of all stacks: the sum of all functions' own weights.
        frames: each function of either side, the largest difference of own weights first, of equal ones that of inclusive weights.
        notes: limits of the profiles.
    """

    total: Weights
    frames: tuple[FrameDifference, ...]
    notes: tuple[str, ...]

    def leading(self) -> FrameDifference | None:
        """Return the function that accounts for the difference, with what it calls, but for `LARGEST_REST` of it.

        One that does so by itself comes first. Then it is the one with the smallest inclusive weight: of two of which one is called by the
        other alone, the called one. Of equal ones, it is the one with the largest own difference. None if there is no such function, or no
        difference.
        """
        whole = self.total.difference

        def accounts(each: Weights) -> bool:
            return whole != 0 and abs(each.difference - whole) <= LARGEST_REST * abs(whole)

        return min(
            (one for one in self.frames if accounts(one.inclusive)),
            key=lambda one: (not accounts(one.own), one.inclusive.baseline + one.inclusive.candidate),
            default=None,
        )


def stacks_of_both(baseline: Profile, candidate: Profile) -> dict[tuple[Frame, ...], Weights]:
    """Return the stacks of either profile, the outermost frame first, with their weights per operation."""
    found: dict[tuple[Frame, ...], Weights] = {}
    for profile, side in ((baseline, "baseline"), (candidate, "candidate")):
        for frames, weight in profile.weighted():
            found.setdefault(frames, Weights()).add(Weights(**{side: weight / profile.operations}))
    return found


def difference(baseline: Profile, candidate: Profile) -> ProfileDifference:
    """Return the difference of two profiles of one unit by function, per operation."""
    total, found = Weights(), dict[Frame, FrameDifference]()
    for stack, weights in stacks_of_both(baseline, candidate).items():
        total.add(weights)
        name, above, counted = "", None, set[Frame]()
        for frame in stack or (NO_STACK,):
            if frame.symbol == NAMELESS and name:
                frame = Frame(symbol=f"below {name}", object=frame.object)  # noqa: PLW2901 - the name under which it counts
            else:
                name = frame.symbol.replace(NAMELESS, "")
            one = found.get(frame) or found.setdefault(frame, FrameDifference(frame, Weights(), Weights(), {}))
            if frame not in counted:
                counted.add(frame)
                one.inclusive.add(weights)
                if above is not None:
                    one.callers.setdefault(above, Weights()).add(weights)
            above = frame
        one.own.add(weights)
    frames = sorted(found.values(), key=lambda one: _order(one.frame, one.own, one.inclusive))
    sorted_callers = (dict(sorted(one.callers.items(), key=lambda pair: _order(*pair))) for one in frames)
    return ProfileDifference(
        total,
        tuple(dataclasses.replace(one, callers=each) for one, each in zip(frames, sorted_callers, strict=True)),
        tuple(dict.fromkeys((*baseline.notes, *candidate.notes))),
    )


def _order(frame: Frame, *weights: Weights) -> tuple[float | str, ...]:
    return (*(-abs(each.difference) for each in weights), frame.object, frame.symbol)
