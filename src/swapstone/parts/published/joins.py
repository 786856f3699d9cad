# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which rows of this program stand beside which published figures: joins.toml, decoded, and the figures that it joins.

Reports print a published figure only where a join has it, so the joins are the coverage of the pages.
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from swapstone.core.model.references import Figure, Place, Reference, Side
from swapstone.parts.published.data import figures, further, shipped, source_of

_IDLE = "idle"


class PublishedPlace(Place, frozen=True, kw_only=True):
    """A place with what the join states of it.

    Attributes:
        section: the part of the report that prints both.
        series: whether `metric` is a time series of a run.
        derived: whether the report computes the number from several rows, of which this is one.
        differs: what is not the same; empty for nothing.
    """

    section: str
    series: bool = False
    derived: bool = False
    differs: str = ""


class Joined(Reference, frozen=True, kw_only=True):
    """A published figure and a place of the same number here.

    Attributes:
        join: number of the table in joins.toml.
        baseline: whether the figure is of the join's first level.
    """

    place: PublishedPlace
    join: int
    baseline: bool


_COPIED = ("section", "series", "derived", "inverse", "differs")
"""Keys of a join that its places have, too."""


@functools.cache
def _joins() -> tuple[Joined, ...]:
    """Return the joined figures, in the order of the file and of the figures."""
    with shipped("joins.toml") as text:
        file = tomllib.loads(text)
        return tuple(
            Joined(figure=figure, place=place, join=number, baseline=figure.level == next(iter(join["levels"])))
            for number, join in enumerate(file["join"], start=1)
            for figure in (*figures(), *further())
            if (figure.study, figure.suite) == (join["study"], join["suite"]) and figure.level in join["levels"]
            for place in _places(join, figure, file["rows"][join["rows"]])
        )


def _places(join: Mapping[str, Any], figure: Figure, rows: Mapping[str, str]) -> Iterator[PublishedPlace]:
    """Yield the places of a figure by a join of its study and suite; none if the join leaves it out."""
    # The right side of the first row that matches.
    found = ((_star(pattern, figure.metric), name) for pattern, name in rows.items())
    matching = (name.replace("*", star) for star, name in found if star is not None)
    named = "" if figure.metric == join.get("index") else next(matching, None)
    stars = [_star(join.get(key, "*"), getattr(figure, key)) for key in ("platform", "unit", "condition")]
    condition = stars[-1]
    if named is None or condition is None or None in stars:
        return
    load = join.get("load", _IDLE).replace("*", condition)
    texts = (join.get("workload", "*"), join["metric"], join["levels"][figure.level])
    for workload, metric, level in itertools.product(*([each] if isinstance(each, str) else each for each in texts)):
        above, _, below = level.partition(" / ")
        yield PublishedPlace(
            suite=join["to"],
            workload=workload.replace("*", named) if named else "",
            metric=metric.replace("*", named),
            side=side_of(above, load),
            over=side_of(below, load) if below else None,
            index=not named,
            **{key: join[key] for key in _COPIED if key in join},
        )


@functools.cache
def _star(pattern: str, text: str) -> str | None:
    """Return what a pattern's * stands for in a text; empty without a *; None if the text does not match."""
    found = re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), text)
    return None if found is None else "".join(found.groups())


@functools.cache
def side_of(text: str, load: str = _IDLE) -> Side:
    """Return the side that a text such as ``kernel=rt load=io`` describes.

    Args:
        text: the levels, and the load if it is another one.
        load: without one in the text.
    """
    found = dict(word.split("=", 1) for word in text.split())
    load = found.pop("load", load)
    return Side(levels=tuple(found.items()), load=load)


def joined(section: str = "", study: str = "") -> tuple[Joined, ...]:
    """Return the joined figures.

    Args:
        section: only of this part of a report.
        study: only of this published study.
    """
    return tuple(each for each in _joins() if section in {"", each.place.section} and study in {"", each.figure.study})


def references_of(study: str, section: str) -> tuple[Joined, ...]:
    """Return the joined figures of a published study in a part of a report.

    Raises:
        UserError: there is no such study.
    """
    source_of(study)
    return joined(section, study)
