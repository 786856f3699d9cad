# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which hypotheses share one error rate, and the level of each interval that follows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from swapstone.core.model import REPORT_CORRECTION, Experiment, Variant
from swapstone.core.stats import common_level


class Family(msgspec.Struct, frozen=True):
    """Hypotheses that may be corrected together.

    Attributes:
        name: distinguishes the families of the correction ``family``.
        copy: the copy of the baseline that is compared; None for candidates, which are corrected together because every level is another
            chance of a false difference.
    """

    name: Hashable
    copy: Variant | None = None


class ErrorRates:
    """The level of every interval: see `swapstone.core.stats.common_level`.

    With the correction ``report`` all hypotheses about candidates are one family, and all about a copy of the baseline another one. If
    nothing differs, the probability that any of them is rejected is then at most 1 - confidence. With ``family`` each `Family` has that
    rate for itself.

    Args:
        experiment: gives the correction, and the confidence before it.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._together = experiment.correction == REPORT_CORRECTION
        self.plain = 1 - experiment.confidence
        self._p_values: dict[Family, list[float]] = {}
        self._levels: dict[Family, float] = {}

    def add(self, family: Family, p_values: Iterable[float | None]) -> None:
        """Add hypotheses; None is no hypothesis."""
        known = [value for value in p_values if value is not None]
        if known:
            self._p_values.setdefault(self.corrected(family), []).extend(known)
            self._levels.clear()

    def corrected(self, family: Family) -> Family:
        """Return the family with which a family's hypotheses are corrected."""
        return Family("report", family.copy) if self._together else family

    def level(self, family: Family) -> float:
        """Return the alpha of a family's intervals, after all hypotheses are added; the plain one for a family without any."""
        key = self.corrected(family)
        if key not in self._levels:
            values = self._p_values.get(key)
            self._levels[key] = common_level(values, self.plain) if values else self.plain
        return self._levels[key]
