# SPDX-License-Identifier: MIT OR Apache-2.0
"""A result that a topic derives from its rows. `swapstone.core.report.answer.conclusion` ranks claims and writes the sentence."""

from __future__ import annotations

import math

import msgspec

from swapstone.core.model import Comparison, FrozenStruct, Quantity
from swapstone.core.report.answer.means import Mean, Standing
from swapstone.core.report.verdict_groups import DECIDED


class Claim(FrozenStruct, frozen=True, kw_only=True):
    """One result of one candidate on one suite under one load, in one metric or several, and the topic's phrase for it.

    Attributes:
        suite, load: where the rows were measured. Claims with the same two are printed side by side.
        subject: name of the candidate in a sentence; empty where `text` names several.
        against: name of the baseline in a sentence.
        scope: the workloads, e.g. ``27 workloads of libc``; empty where the phrase names them.
        text: the result as a clause of its own, without a full stop: ``musl takes twice as long as glibc on 27 workloads of libc``.
        brief: the verb and what follows it, where the sentence has named the rest: ``takes twice as long``. Without it, `text` is
            printed wherever the claim stands.
        details: further clauses, behind all results of the candidate.
        rows: those that the phrase summarises.
        names_rows: whether the phrase of a difference names the rows whose median differs, so that they are not counted behind it.
        metric: name of what is compared; empty for several metrics.
        quantity: of the metric.
        standing: the direction: where the interval lies, relative to the floor.
        value, low, high: the ratio and its interval; None where there is none.
        floor: the margin: smaller differences are of no interest.
    """

    suite: str
    load: str
    subject: str = ""
    against: str = ""
    scope: str = ""
    text: str
    brief: str = ""
    details: tuple[str, ...] = ()
    rows: tuple[Comparison, ...] = ()
    names_rows: bool = False
    metric: str = ""
    quantity: Quantity = Quantity.TIME
    standing: Standing = Standing.OPEN
    value: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float

    @property
    def differs(self) -> bool:
        """Return whether the claim itself is a difference beyond the floor."""
        return self.standing in {Standing.MORE, Standing.LESS}

    @property
    def decided(self) -> bool:
        """Return whether the claim is a difference, or a row below it is one."""
        return self.differs or any(row.verdict in DECIDED for row in self.rows)

    @property
    def size(self) -> float:
        """Return the absolute logarithm of the ratio; 0 without one."""
        return abs(math.log(self.value)) if self.value is not None and self.value > 0 else 0.0

    def of_mean(self, mean: Mean) -> Claim:
        """Return the claim with the numbers of a mean over its rows."""
        return msgspec.structs.replace(
            self,
            metric=mean.metric.name,
            quantity=mean.metric.quantity,
            standing=mean.standing(self.floor),
            value=mean.effect,
            low=mean.low,
            high=mean.high,
        )
