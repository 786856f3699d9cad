# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where a difference is: groups of workloads, in the order of their share of the index."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from swapstone.core.model import Comparison, FrozenStruct, Scale
from swapstone.core.report.verdict_groups import MEDIAN_DIFFERS

_WORDS = {"string": "strings", "pthread": "threads"}
_ENOUGH = 0.8
"""Groups are named until they hold this share of the difference."""
_LEAST = 0.1
"""A group with a smaller share is not named."""
_MOST = 3


class CostGroup(FrozenStruct, frozen=True, kw_only=True):
    """Workloads of one kind.

    Attributes:
        name: in a sentence, e.g. ``strings``; of a single workload, its whole name.
        share: of the sum of the logarithms of all ratios in the same direction, 0 to 1.
    """

    name: str
    share: float


def group_name(workload: str, all_names: Sequence[str]) -> str:
    """Return a workload's group: the first part of its name that not all workloads share.

    Args:
        workload: e.g. ``b_string_strstr(abcd)``. Parts end at underscores, hyphens, dots, brackets and ``#``.
        all_names: of all workloads.

    Returns:
        For example ``strings`` for ``b_string_strstr(abcd)`` among workloads whose names begin with ``b_``.
    """
    parts = [_parts(name) for name in all_names]
    place = 0
    while all(len(each) > place + 1 and each[place] == parts[0][place] for each in parts):
        place += 1
    own = _parts(workload)
    word = own[min(place, len(own) - 1)]
    return _WORDS.get(word, word)


def _parts(name: str) -> list[str]:
    return [part.strip() for part in re.split(r"[_.(#-]", name.rstrip(")")) if part.strip()] or [name]


def cost_groups(rows: Sequence[Comparison], *, more: bool) -> tuple[CostGroup, ...]:
    """Return the groups in which a difference is, the largest share first; none where they explain too little.

    Only rows whose verdict is a difference count. Groups are named until they hold 80 % of the difference, at most three, each with at
    least 10 %. If those hold less than half of it, or if there is only one group, none is named.

    Args:
        rows: of one metric and candidate, one for each workload.
        more: whether the difference is that the candidate's values are larger.
    """
    names = [row.workload for row in rows]
    sums: dict[str, float] = {}
    for row in rows:
        sums.setdefault(group_name(row.workload, names), 0.0)
    for row in rows:
        size = _log(row)
        if size is not None and (size > 0) == more:
            sums[group_name(row.workload, names)] += abs(size)
    total = sum(sums.values())
    if len(sums) < 2 or not total:
        return ()
    ordered = sorted(sums.items(), key=lambda pair: -pair[1])
    members = {group: [name for name in names if group_name(name, names) == group] for group in sums}
    named: list[CostGroup] = []
    for name, size in ordered[:_MOST]:
        if size / total < _LEAST or sum(each.share for each in named) >= _ENOUGH:
            break
        label = members[name][0] if len(members[name]) == 1 else name
        named.append(CostGroup(name=label, share=size / total))
    enough = sum(each.share for each in named) >= 0.5 and len(named) < len(sums)
    return tuple(named) if enough else ()


def _log(row: Comparison) -> float | None:
    """Return the logarithm of a ratio whose verdict is a difference."""
    different = row.verdict in MEDIAN_DIFFERS
    if not different or row.scale is not Scale.RATIO or row.effect is None or row.effect <= 0:
        return None
    return math.log(row.effect)
