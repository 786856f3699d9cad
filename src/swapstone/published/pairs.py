# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two published figures of one metric beside each other: a page's baseline and candidate."""

from __future__ import annotations

import functools
import math

from swapstone.model import Direction, FrozenStruct
from swapstone.published.data import Figure, figures, study
from swapstone.published.joins import COMPARISONS, joined

_MEMORY = ("virt", "res", "dirty")
_TIMES = frozenset({"s", "ms", "us", "ns"})

# The musl page names this test by the needle "abcd" in its time table, and "abc" in its memory tables.
_ALIASES = {"b_string_strstr(abcd)": ("b_string_strstr(abc)",)}


class PublishedPair(FrozenStruct, frozen=True, kw_only=True):
    """Two published figures of one metric, as a study's baseline and candidate.

    Attributes:
        figure: the published metric's name.
        unit, better: of both values.
        baseline_level, candidate_level: e.g. ``glibc`` and ``musl``.
        baseline, candidate: the values.
        inverse: whether the page has rates where the row here has times.
    """

    study: str
    suite: str
    figure: str
    unit: str
    better: Direction
    baseline_level: str
    candidate_level: str
    baseline: float
    candidate: float
    inverse: bool = False

    @property
    def ratio(self) -> float:
        """Return candidate / baseline; of rates beside times, its inverse."""
        return self.baseline / self.candidate if self.inverse else self.candidate / self.baseline

    def oriented(self, baseline: str, candidate: str) -> PublishedPair | None:
        """Return this pair with the given levels as its sides.

        Args:
            baseline: level of the baseline.
            candidate: level of the candidate.

        Returns:
            The pair, reversed if necessary; None if it is of other levels.
        """
        if (baseline, candidate) == (self.baseline_level, self.candidate_level):
            return self
        if (candidate, baseline) != (self.baseline_level, self.candidate_level):
            return None
        return PublishedPair(
            study=self.study,
            suite=self.suite,
            figure=self.figure,
            unit=self.unit,
            better=self.better,
            baseline_level=baseline,
            candidate_level=candidate,
            baseline=self.candidate,
            candidate=self.baseline,
            inverse=self.inverse,
        )


def _pair(base: Figure, other: Figure, levels: tuple[str, str], *, inverse: bool = False) -> PublishedPair | None:
    if base.value <= 0 or not math.isfinite(other.value) or (inverse and other.value <= 0):
        return None
    return PublishedPair(
        study=base.study,
        suite=base.suite,
        figure=base.metric,
        unit=base.unit,
        better=base.better,
        baseline_level=levels[0],
        candidate_level=levels[1],
        baseline=base.value,
        candidate=other.value,
        inverse=inverse,
    )


def find(
    study_name: str,
    suite: str,
    workload: str,
    metric: str,
    *,
    unit: str | None = None,
    condition: str | None = None,
    platform: str | None = None,
) -> PublishedPair | None:
    """Return the published pair of a test, in the page's own names.

    Args:
        study_name: name of a published study.
        suite: of the test on the page.
        workload: name of the test; the memory of ``b_string_strstr(abc)`` is also found by the name of its table of times.
        metric: ``wall`` for the page's time; ``rate`` for its rate; ``virt``, ``res`` or ``dirty`` for its memory tables.
        unit: of the figures; None for any.
        condition: of the figures; None for any.
        platform: of the figures; None for any.

    Returns:
        The pair. None if the page does not have it, has only one level, or has several: in two units, conditions or platforms.

    Raises:
        UserError: there is no such study.
    """
    about = study(study_name)
    if metric not in {"wall", "rate", *_MEMORY}:
        return None
    suffix = f":{metric}" if metric in _MEMORY else ""
    for name in (workload, *_ALIASES.get(workload, ())):
        kept = [
            figure
            for figure in _index().get((study_name, suite, name + suffix), ())
            if unit in {None, figure.unit}
            and condition in {None, figure.condition}
            and platform in {None, figure.platform}
            if metric in _MEMORY or (figure.unit in _TIMES) == (metric == "wall")
        ]
        level = {figure.level: figure for figure in kept}
        one_place = len({(figure.unit, figure.condition, figure.platform) for figure in kept}) == 1
        if one_place and about.baseline in level and about.candidate in level:
            return _pair(level[about.baseline], level[about.candidate], (about.baseline, about.candidate))
    return None


@functools.cache
def _index() -> dict[tuple[str, str, str], tuple[Figure, ...]]:
    found: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in figures():
        found.setdefault((figure.study, figure.suite, figure.metric), []).append(figure)
    return {key: tuple(each) for key, each in found.items()}


def beside(study_name: str, suite: str, workload: str, metric: str, load: str = "idle") -> PublishedPair | None:
    """Return the published pair that stands beside a row of comparisons here.

    Args:
        study_name: name of a published study.
        suite: of the row.
        workload: of the row.
        metric: of the row.
        load: of the row.

    Returns:
        The pair, with the names that levels have here; None where no join has both levels.

    Raises:
        UserError: there is no such study.
    """
    study(study_name)
    return _rows().get((study_name, suite, workload, metric, load))


@functools.cache
def _rows() -> dict[tuple[str, str, str, str, str], PublishedPair]:
    """Return the pairs of all rows of comparisons whose place is one level of one factor."""
    found: dict[tuple[str, str, str, str, str], dict[bool, tuple[Figure, str, bool]]] = {}
    for each in joined(COMPARISONS):
        place = each.place
        if not place.index and place.over is None and len(place.side.levels) == 1:
            key = (each.figure.study, place.suite, place.workload, place.metric, place.side.load)
            found.setdefault(key, {})[each.baseline] = (each.figure, place.side.levels[0][1], place.inverse)
    return {key: pair for key, sides in found.items() if len(sides) == 2 and (pair := _of_sides(sides)) is not None}


def _of_sides(sides: dict[bool, tuple[Figure, str, bool]]) -> PublishedPair | None:
    (base, baseline, inverse), (other, candidate, _) = sides[True], sides[False]
    return _pair(base, other, (baseline, candidate), inverse=inverse)
