# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where a difference is: groups of workloads, in the order of their share of the index."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from swapstone.core.model import Comparison, Scale
from swapstone.core.report.verdict_groups import MEDIAN_DIFFERS

_WORDS = {"string": "strings", "pthread": "threads"}
_ENOUGH = 0.8
"""Groups are named until they hold this share of the difference."""
_LEAST = 0.1
"""A group with a smaller share is not named."""
_MOST = 3


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


def cost_groups(rows: Sequence[Comparison], *, more: bool) -> tuple[str, ...]:
    """Return the names of the groups in which a difference is, the largest share first; none where they explain too little.

    Only rows whose verdict is a difference count. Groups are named until they hold 80 % of the difference, at most three, each with at
    least 10 %. If those hold less than half of it, or if there is only one group, none is named. A group of one workload has its name.

    Args:
        rows: of one metric and candidate, one for each workload.
        more: whether the difference is that the candidate's values are larger.
    """
    names = [row.workload for row in rows]
    groups = {name: group_name(name, names) for name in names}
    sizes = dict.fromkeys(groups.values(), 0.0)
    for row in rows:
        if row.verdict in MEDIAN_DIFFERS and row.scale is Scale.RATIO and row.effect is not None and row.effect > 0:
            size = math.log(row.effect)
            sizes[groups[row.workload]] += abs(size) if (size > 0) == more else 0.0
    total = sum(sizes.values())
    shares: dict[str, float] = {}
    for group, size in sorted(sizes.items(), key=lambda pair: -pair[1])[:_MOST]:
        if total and size / total >= _LEAST and sum(shares.values()) < _ENOUGH:
            members = [name for name in names if groups[name] == group]
            shares[members[0] if len(members) == 1 else group] = size / total
    return tuple(shares) if sum(shares.values()) >= 0.5 and len(shares) < len(sizes) else ()
