# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a topic contributes to the answer of a report: results that it derives from its rows, and tables beside them.

`swapstone.core.report.answer.conclusion` ranks claims and writes the sentence.
"""

from __future__ import annotations

import math

import msgspec

from swapstone.core.model import DECIDED, Comparison, FrozenStruct, Quantity
from swapstone.core.report.answer.means import Mean, Standing
from swapstone.core.report.document import Block, Item


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
        seen: what too few runs show, as a phrase in the past tense: ``took twice as long``. Empty for other claims.
        details: further clauses, behind all results of the candidate.
        rows: those that the phrase summarises.
        names_rows: whether the phrase of a difference names the rows whose median differs, so that they are not counted behind it.
        metric: name of what is compared; empty for several metrics.
        quantity: of the metric.
        standing: the direction: where the interval lies, relative to the floor.
        value: the ratio; None where there is none.
        floor: the margin: smaller differences are of no interest.
    """

    suite: str
    load: str
    subject: str = ""
    against: str = ""
    scope: str = ""
    text: str
    brief: str = ""
    seen: str = ""
    details: tuple[str, ...] = ()
    rows: tuple[Comparison, ...] = ()
    names_rows: bool = False
    metric: str = ""
    quantity: Quantity = Quantity.TIME
    standing: Standing = Standing.OPEN
    value: float | None = None
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
        """Return the claim with the ratio of a mean over its rows."""
        return msgspec.structs.replace(
            self,
            metric=mean.metric.name,
            quantity=mean.metric.quantity,
            standing=mean.standing(self.floor),
            value=mean.effect,
        )


class Answer(FrozenStruct, frozen=True, kw_only=True):
    """The answer of a topic, or of a whole report.

    Attributes:
        claims: the results; none where nothing was measured.
        suites: whose rows the claims are about: topics with `Topic.remaining` answer for the others. Those leave it empty.
        sentence: of a whole report, the result in plain words, with a full stop.
        figures: the indices, as one small table.
        rows: the rows that matter most.
        rows_title: the heading above them.
        unknown: what the result leaves open, most important first.
        commands: pairs (purpose, command) that follow from the result, before those of every report.
    """

    claims: tuple[Claim, ...] = ()
    suites: tuple[str, ...] = ()
    sentence: str = ""
    figures: tuple[Block, ...] = ()
    rows: tuple[Block, ...] = ()
    rows_title: str = ""
    unknown: tuple[Item, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
