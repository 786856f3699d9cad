# SPDX-License-Identifier: MIT OR Apache-2.0
"""The result of checking the assumptions of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from swapstone.comparison.cells import Group
from swapstone.model import CarryOver, Caveat, Verdict

Place = tuple[Group, str, str]
"""((suite, workload, load), label of the candidate, name of the metric): a row."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a check found.

    Attributes:
        excluded: verdict and reason of rows that can't be judged.
        caveats: limits of the results.
        carry_overs: how runs depend on what ran before them, of the rows where that was tested.
    """

    excluded: Mapping[Place, tuple[Verdict, str]] = dataclasses.field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    carry_overs: Mapping[Place, CarryOver] = dataclasses.field(default_factory=dict)
