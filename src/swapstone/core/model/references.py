# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published figures that stand beside rows of a record, as parts provide them: objects of the kind ``reference``, each a function.

It takes the name of a published study and that of a section of a report, and returns the figures that the section has, in the order of
the page. It raises `UserError` for a study without figures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.parts import provided

COMPARISONS = "comparisons"
"""The section of rows that compare two levels of a factor. There a row has one figure for each level."""

Levels = tuple[tuple[str, str], ...]
"""Pairs (factor, level)."""


class Figure(FrozenStruct, frozen=True, kw_only=True):
    """A published number.

    Attributes:
        study, source: the question it answers, and the name of the page.
        platform, condition: where and how it was measured, if the page states it.
        suite, metric: the test.
        unit: of `value`, e.g. ``s``, ``KiB``, ``1``.
        level: e.g. ``musl``.
        value: the number.
        printed: the same as the page prints it: ``21.8K``; ``about 190000``; ``8000+`` for 8000 or more; ``nearly 1.6``.
    """

    study: str
    source: str
    platform: str
    condition: str
    suite: str
    metric: str
    unit: str
    level: str
    value: float
    printed: str


class Side(FrozenStruct, frozen=True, kw_only=True):
    """What a run was made with: the levels of the factors, and the load beside it."""

    levels: Levels
    load: str

    @property
    def text(self) -> str:
        """Return the levels as a user types them."""
        return ",".join(f"{factor}={level}" for factor, level in self.levels)

    def has_label(self, label: str) -> bool:
        """Return whether a variant with this label has the levels."""
        return set(label.split(",")) == set(self.text.split(","))


class Place(FrozenStruct, frozen=True, kw_only=True):
    """Where a record has the number that a page has.

    Attributes:
        suite, workload, metric: of the runs; for an index, the workload is empty.
        side: of the runs.
        over: of the runs by which those are divided, where the page prints a ratio; None where it prints a value.
        index: whether it is the geometric mean over several workloads.
        inverse: whether the page's figure is a rate, and the metric here is a time.
    """

    suite: str
    workload: str
    metric: str
    side: Side
    over: Side | None = None
    index: bool = False
    inverse: bool = False


class Reference(FrozenStruct, frozen=True, kw_only=True):
    """A published figure and the place of the same number here."""

    figure: Figure
    place: Place


def _sources() -> tuple[Callable[[str, str], tuple[Reference, ...]], ...]:
    return provided("reference", Callable)


def study_with_figures(study: str) -> str:
    """Return the name of a published study; empty where no part has published figures."""
    return study if study and _sources() else ""


@functools.cache
def references(study: str, section: str) -> tuple[Reference, ...]:
    """Return the figures of a published study that stand in a section of a report; none where no part has any.

    Raises:
        UserError: there is no such study.
    """
    return tuple(each for of_study in _sources() for each in of_study(study, section))


def beside(study: str, row: tuple[str, str, str], baseline: str, candidate: str, load: str = "idle") -> float | None:
    """Return the published ratio candidate / baseline that stands beside a row of comparisons; of rates beside times, its inverse.

    Args:
        study: name of a published study.
        row: (suite, workload, metric) here.
        baseline: level of a factor here.
        candidate: another one.
        load: of the row.

    Returns:
        The ratio; None where not both levels have a figure.

    Raises:
        UserError: there is no such study.
    """
    one, two = (_values(study).get((*row, load, level)) for level in (baseline, candidate))
    if one is None or two is None:
        return None
    (below, inverse), (above, _) = one, two
    return below / above if inverse else above / below


@functools.cache
def _values(study: str) -> dict[tuple[str, ...], tuple[float, bool]]:
    """Return (value, whether it is a rate beside a time) by row of comparisons, load and level."""
    return {
        (place.suite, place.workload, place.metric, place.side.load, place.side.levels[0][1]): (
            each.figure.value,
            place.inverse,
        )
        for each in references(study, COMPARISONS)
        if not (place := each.place).index and place.over is None and len(place.side.levels) == 1
    }
