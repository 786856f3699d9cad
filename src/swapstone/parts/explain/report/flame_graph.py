# SPDX-License-Identifier: MIT OR Apache-2.0
"""A flame graph, or the difference of two, as one page that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from swapstone.core.comparison.profile_difference import Weights, stacks_of_both
from swapstone.core.model import grouped
from swapstone.core.model.number_text import quantity
from swapstone.core.model.profile import Profile
from swapstone.core.report.render.html import page_script, template
from swapstone.parts.explain.explanation.profile_formats import aligned, aligned_label, label
from swapstone.parts.explain.model.explanation import TimeByFunction

LEAST_SHARE = 1e-5
"""A frame with a smaller share of the total on both sides is left out of the page. Its callers keep its time."""


Paths = Sequence[tuple[Sequence[tuple[str, str]], Weights]]
"""Stacks as pairs (name, kind) of their frames, the outermost first, with the weights of both sides in one operation."""


def _paths(before: Profile | None, after: Profile) -> Paths:
    """Return the stacks of either side; those of one profile alone have other names."""
    frames, stacks = stacks_of_both(before or Profile.of({}, kind="", unit="", operations=1.0), after)
    name_of = label if before is None else aligned_label
    names = [(name_of(frame), frame.object.strip("[]")) for frame in frames]
    return [([names[number] for number in stack], weights) for stack, weights in stacks.items()]


def _widest(paths: Paths) -> float:
    """Return what stacks need in a drawing that shows both sides: the larger one of each, added up."""
    return sum(max(weights.baseline, weights.candidate) for _, weights in paths)


def _node(name: str, paths: Paths, depth: int, kinds: dict[str, int], least: float) -> list[Any]:
    """Return a frame as nested lists: name, kind's number, baseline, candidate, width, children.

    Args:
        name: of the frame.
        paths: the stacks that begin with it and its callers.
        depth: number of these frames.
        kinds: numbers of the kinds, to which new ones are added.
        least: width of a frame below which it is left out.
    """
    whole, kind = Weights(), paths[0][0][depth - 1][1] if depth else ""
    for _, weights in paths:
        whole.add(weights)
    under = grouped((each for each in paths if len(each[0]) > depth), lambda each: each[0][depth][0])
    number = kinds.setdefault(kind, len(kinds))
    sizes = (float(f"{weight:.6g}") for weight in (whole.baseline, whole.candidate, _widest(paths)))
    kept = sorted(below for below, some in under.items() if _widest(some) >= least)
    return [name, number, *sizes, [_node(below, under[below], depth + 1, kinds, least) for below in kept]]


def page(title: str, first: Profile, second: Profile | None, more_notes: Sequence[str] = ()) -> str:
    """Render one profile, or the difference of two with aligned stacks, as an interactive page.

    Args:
        title: its heading.
        first: the profile; of a difference, the baseline's.
        second: the candidate's, or None for one profile.
        more_notes: printed before those of the profiles.

    Returns:
        The page. Its own policy lets it load nothing and run no script but its own.
    """
    before, after = (first, second) if second is not None else (None, first)
    if before is not None:
        before, after, done = aligned(before, after)
        more_notes = (*more_notes, *done)
    paths, kinds = _paths(before, after), dict[str, int]()
    data = {
        "tree": _node("all", paths, 0, kinds, _widest(paths) * LEAST_SHARE),
        "kinds": list(kinds),
        "unit": after.unit,
        "difference": second is not None,
    }
    script, digest = page_script("flame.js")
    # In a script element of type JSON only "</" and "<!--" could end it early.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return template("flame.html.j2").render(
        title=title,
        data=Markup(text),  # noqa: S704 - escaped above
        script=script,
        digest=digest,
        notes=tuple(dict.fromkeys((*more_notes, *first.notes, *(second.notes if second else ())))),
        difference=second is not None,
    )


def total_notes(pair: Sequence[Profile | None], time: TimeByFunction | None) -> tuple[str, ...]:
    """Return why the totals of a graph of times are not those of the record; none for other graphs.

    Args:
        pair: baseline's and candidate's profile.
        time: of the row.
    """
    before, after = pair
    if before is None or after is None or time is None or before.unit != "ns":
        return ()
    totals = [each.total / each.operations for each in (before, after)]
    of = {
        "on-cpu": "processor time of all threads, sampled",
        "off-cpu": "elapsed time without a running thread, recorded",
    }
    what = {"wall": "elapsed time", "cpu": "processor time"}.get(time.metric, time.metric)
    return (
        f"The whole is {quantity(totals[0], 'ns')} and {quantity(totals[1], 'ns')} per operation: {of.get(before.kind, before.kind)} in "
        f"runs under perf, which slows a program. The row is of {quantity(time.recorded[0], 'ns')} and "
        f"{quantity(time.recorded[1], 'ns')}: {what} in the record's runs without an instrument.",
    )
