# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sum up weights by stack, and keep the runs apart."""

from __future__ import annotations

import collections

from swapstone.parts.explain.model.explanation import Frame, Profile, ProfileRun


class ProfileBuilder:
    """Sums up weights by stack, of one run or of several."""

    def __init__(self) -> None:
        self._runs: list[collections.Counter[tuple[Frame, ...]]] = [collections.Counter()]
        self._samples = [0]

    def begin_run(self) -> None:
        """Begin another run; the first one has begun already."""
        self._runs.append(collections.Counter())
        self._samples.append(0)

    def add(self, frames: tuple[Frame, ...], weight: float) -> None:
        """Add a weight to a stack, given from the outermost frame."""
        self._runs[-1][frames] += weight  # type: ignore[assignment]  # a Counter adds floats as well
        self._samples[-1] += 1

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(sum(sum(run.values()) for run in self._runs))

    @property
    def samples(self) -> int:
        """Return the number of weights that were added."""
        return sum(self._samples)

    def profile(self, kind: str, unit: str, operations: float, notes: tuple[str, ...] = ()) -> Profile:
        """Return the profile, heaviest stacks first."""
        whole: collections.Counter[tuple[Frame, ...]] = collections.Counter()
        for run in self._runs:
            whole.update(run)
        ordered = dict(sorted(whole.items(), key=lambda one: (-one[1], [frame.symbol for frame in one[0]])))
        places = {frames: place for place, frames in enumerate(ordered)}
        runs = tuple(
            ProfileRun(samples=count, weights=tuple(sorted((places[frames], float(w)) for frames, w in run.items())))
            for count, run in zip(self._samples, self._runs, strict=True)
        )
        facts = {"kind": kind, "unit": unit, "operations": operations, "notes": notes}
        return Profile.of(ordered, **facts, runs=runs if len(runs) > 1 else ())
