# SPDX-License-Identifier: MIT OR Apache-2.0
"""A flame graph, or the difference of two, as one page that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
from markupsafe import Markup

from swapstone.core.comparison.profile_difference import Weights, stacks_of_both
from swapstone.core.model.number_text import quantity
from swapstone.core.model.profile import Profile
from swapstone.core.report.render.html import page_script, template
from swapstone.parts.explain.explanation.profile_formats import aligned, aligned_label, label
from swapstone.parts.explain.model.explanation import TimeByFunction

LEAST_SHARE = 1e-5
"""A frame with a smaller share of the total on both sides is left out of the page. Its callers keep its time."""


@attrs.define
class _Node:
    """A frame under a caller, with the weights of both sides in one operation.

    `widest` is what it needs in a drawing that shows both: the larger side of each stack, added up.
    """

    name: str
    kind: str
    weights: Weights = attrs.field(factory=Weights)
    widest: float = 0.0
    under: dict[str, _Node] = attrs.field(factory=dict)


def tree(before: Profile | None, after: Profile) -> _Node:
    """Join both sides' stacks into one tree, which has the stacks of either side.

    Args:
        before: the baseline's, or None for one profile alone.
        after: the candidate's.
    """
    root = _Node("all", "")
    frames, stacks = stacks_of_both(before or Profile.of({}, kind="", unit="", operations=1.0), after)
    name_of = label if before is None else aligned_label
    names = [(name_of(frame), frame.object.strip("[]")) for frame in frames]
    for stack, weights in stacks.items():
        node = root
        for number in stack:
            name, kind = names[number]
            node = node.under.get(name) or node.under.setdefault(name, _Node(name, kind))
        node.weights.add(weights)
        node.widest += max(weights.baseline, weights.candidate)
    _add_up(root)
    return root


def _add_up(node: _Node) -> None:
    """Add to a node, which has the weights of stacks that end there, those of the nodes under it."""
    for below in node.under.values():
        _add_up(below)
        node.weights.add(below.weights)
        node.widest += below.widest


def _plain(node: _Node, kinds: dict[str, int], least: float) -> list[Any]:
    """Return a node as nested lists: name, kind's number, baseline, candidate, width, children."""
    kept = [one for one in sorted(node.under.values(), key=lambda one: one.name) if one.widest >= least]
    number = kinds.setdefault(node.kind, len(kinds))
    below = [_plain(one, kinds, least) for one in kept]
    return [
        node.name,
        number,
        *(float(f"{weight:.6g}") for weight in (node.weights.baseline, node.weights.candidate, node.widest)),
        below,
    ]


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
    root = tree(before, after)
    kinds: dict[str, int] = {}
    data = {
        "tree": _plain(root, kinds, root.widest * LEAST_SHARE),
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
