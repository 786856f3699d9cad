# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is true of two programs, and whether a verdict about them is right, wrong, or states nothing."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Collection, Iterator, Sequence

NOT_STATED = frozenset({"inconclusive", "disturbed", "invalid", "measured", "unavailable"})
"""Verdicts that make no statement about the two programs."""

DIRECTED = frozenset({"better", "worse", "changed", "worse tail", "better tail", "mixed"})
"""Verdicts that state a difference."""

VERDICTS = NOT_STATED | DIRECTED | {"equivalent", "below margin", "same median"}


class Judgement(enum.Enum):
    """What a verdict is worth, by the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_STATED = "not stated"


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The range that contains a true ratio candidate / baseline, both ends included. The default states nothing."""

    low: float = 0.0
    high: float = math.inf

    def meets(self, other: Bounds) -> bool:
        """Return whether the two ranges have a number in common."""
        return self.low <= other.high and other.low <= self.high

    def inverse(self) -> Bounds:
        """Return the range of the inverse ratio."""
        return Bounds(1 / self.high if self.high else math.inf, 1 / self.low if self.low else math.inf)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        if self.low == 0 and self.high == math.inf:
            return "any"
        if self.high == math.inf:
            return f"≥ {self.low:g}"
        return f"≤ {self.high:g}" if self.low == 0 else f"{self.low:g} to {self.high:g}"


SAME = Bounds(1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Truth:
    """What is true of one metric.

    Attributes:
        median, mean: ranges of the ratios candidate / baseline of medians and of arithmetic means.
        size: whether a stated interval must also meet the range of the median: on every condition of the machine.
    """

    median: Bounds = Bounds()
    mean: Bounds = Bounds()
    size: bool = False

    def inverse(self) -> Truth:
        """Return the truth with the two sides exchanged."""
        return Truth(self.median.inverse(), self.mean.inverse(), self.size)

    def differs(self, margin: float) -> bool:
        """Return whether median or mean differ by more than the margin."""
        return not all(each.meets(within(margin)) for each in (self.median, self.mean))

    def __str__(self) -> str:
        if self.median == self.mean:
            return str(self.median)
        return f"median {self.median}, mean {self.mean}"


@dataclasses.dataclass(frozen=True)
class Statement:
    """A row of a report.

    Attributes:
        metric: its name.
        verdict: as in the report.
        effect, low, high: ratio candidate / baseline and its interval; None where there is none, or where it is a difference.
        better: ``lower``, ``higher`` or ``neither``.
    """

    metric: str
    verdict: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    better: str = "lower"

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3f}-{self.high:.3f})"
        return self.verdict if self.effect is None else f"{self.verdict} {self.effect:.3f}{interval}"


def within(margin: float) -> Bounds:
    """Return the ratios inside the margin, e.g. 1 / 1.02 to 1.02."""
    return Bounds(1 / (1 + margin), 1 + margin)


def judge(
    row: Statement,
    truth: Truth,
    margin: float,
    *,
    same_work: bool = True,
    never: Collection[str] = (),
    caveats: Collection[str] = (),
    excusing: Collection[str] = (),
) -> tuple[Judgement, str]:
    """Return whether a row is right, and why it is wrong.

    A directed verdict is wrong if neither median nor mean differ that way, or if one of them differs the other way beyond the margin.
    A tail verdict is wrong if the mean does not differ that way. `equivalent` is wrong if median or mean is outside the margin,
    `same median` if the median is, and `below margin` if the median is, or nothing differs. Every number is wrong if the two programs do
    different work.

    Args:
        row: the row.
        truth: of its metric.
        margin: below which differences are of no interest, e.g. 0.02.
        same_work: whether the two programs give the same answer.
        never: verdicts that are wrong for this case besides.
        caveats: kinds of caveats in the report.
        excusing: kinds of caveats with which the report limits the statement, so that it counts as not stated.

    Raises:
        ValueError: for a verdict that this benchmark has no rule for.
    """
    if row.verdict not in VERDICTS:
        raise ValueError(f"no rule for the verdict {row.verdict!r}")
    if row.verdict in never:
        return Judgement.WRONG, f"{row.verdict} is excluded here"
    if row.verdict in NOT_STATED:
        return Judgement.NOT_STATED, ""
    contradiction = _contradiction(row, truth, margin) if same_work else "a number for different work"
    if contradiction and not set(excusing).isdisjoint(caveats):
        return Judgement.NOT_STATED, ""
    return (Judgement.WRONG, contradiction) if contradiction else (Judgement.RIGHT, "")


def _contradiction(row: Statement, truth: Truth, margin: float) -> str:
    """Return what contradicts the truth; empty for nothing."""
    stated = None if row.low is None or row.high is None else Bounds(row.low, row.high)
    if truth.size and stated is not None and row.verdict in DIRECTED and not stated.meets(truth.median):
        return f"the interval {stated} does not meet {truth.median}"
    same = within(margin)
    # Of what the verdict states to be larger.
    cost = truth.inverse() if (row.better == "higher") != row.verdict.startswith("better") else truth
    parts = {"median": cost.median, "mean": cost.mean}
    match row.verdict:
        case "below margin" if truth.median == truth.mean == SAME:
            return "nothing differs"
        case "equivalent" | "same median" | "below margin":
            named = parts if row.verdict == "equivalent" else ("median",)
            return "; ".join(f"the {name} is {parts[name]}" for name in named if not parts[name].meets(same))
        case "changed":
            return "nothing differs" if truth.median == truth.mean == SAME else ""
        case "worse tail" | "better tail":
            return "" if cost.mean.high > 1 else f"the mean is not {row.verdict.split()[0]}: {cost.mean}"
        case "mixed":
            opposite = (cost.median.high > 1 and cost.mean.low < 1) or (cost.median.low < 1 and cost.mean.high > 1)
            return "" if opposite else f"median and mean agree: {cost}"
    if max(cost.median.high, cost.mean.high) <= 1:
        return "no difference that way"
    return next((f"the {name} differs the other way" for name, part in parts.items() if part.high < same.low), "")


_FRACTIONS = {"half": 1 / 2, "a third": 1 / 3, "a quarter": 1 / 4, "a fifth": 1 / 5, "a tenth": 1 / 10}
_FRACTIONS |= {"two thirds": 2 / 3, "three quarters": 3 / 4, "twice": 2.0, "double": 2.0}
_AMOUNT = rf"(?:(?P<times>[\d.]+) times|(?P<share>[\d.]+) %|(?P<words>{'|'.join(_FRACTIONS)}))"
_CLAUSES = (
    (rf"{_AMOUNT} as long\b", "wall", 1),
    (rf"{_AMOUNT} as fast\b", "wall", -1),
    (rf"{_AMOUNT} (?:of )?the memory\b", "memory", 1),
    (rf"{_AMOUNT} (?:of )?the CPU time\b", "cpu", 1),
)
_CHANGES = (
    (r"(?P<share>[\d.]+) % (?P<way>slower|faster|less time|more time)\b", "wall"),
    (r"(?P<share>[\d.]+) % (?P<way>more|less) memory\b", "memory"),
    (r"(?P<share>[\d.]+) % (?P<way>more|less) CPU time\b", "cpu"),
)
_DENIAL = re.compile(r"\bno (decided )?(difference|time or rate)\b|\b(does|do) not differ\b", re.IGNORECASE)


def clauses(answer: str) -> Iterator[Statement]:
    """Yield what a sentence states as a ratio of candidate to baseline: time, CPU time and memory, 10 % wide as words are round.

    An interval that is not decided is no statement, nor is what too few pairs have shown.
    """
    answer = re.sub(r"\(not decided: [^)]*\)|pairs? of runs, in which [^;]*", "", answer)
    for pattern, metric, power in _CLAUSES:
        for found in re.finditer(pattern, answer):
            parts = found.groupdict()
            number = float(parts["times"] or 0) or float(parts["share"] or 0) / 100 or _FRACTIONS[parts["words"]]
            yield _directed(metric, number**power)
    for pattern, metric in _CHANGES:
        for found in re.finditer(pattern, answer):
            size = float(found["share"]) / 100
            yield _directed(metric, 1 + size if found["way"] in ("slower", "more", "more time") else 1 - size)


def _directed(metric: str, ratio: float) -> Statement:
    return Statement(metric, "worse" if ratio > 1 else "better", ratio, ratio / 1.1, ratio * 1.1)


def denied(text: str, rows: Sequence[Statement], leading: Collection[str]) -> str:
    """Return the first line of a text that denies a difference which a row of the same report states; empty for none.

    Args:
        text: as printed.
        rows: of the report.
        leading: metrics whose difference no sentence may deny.
    """
    if not any(row.metric in leading and row.verdict in DIRECTED for row in rows):
        return ""
    return next((line.strip() for line in text.splitlines() if _DENIAL.search(line)), "")


def judge_refusal(status: int, message: str, rows: Sequence[Statement]) -> tuple[Judgement, str]:
    """Return whether a budget that holds no interval was answered rightly: refused, or extended until rows state something.

    Args:
        status: exit status of the comparison.
        message: what it printed to standard error.
        rows: of the report; none without a record.
    """
    if status:
        why = "" if "budget" in message else "the message does not name the budget"
    else:
        stated = any(row.metric == "wall" and row.verdict not in NOT_STATED for row in rows)
        why = "" if stated else "the budget was spent for a row without a statement"
    return (Judgement.WRONG, why) if why else (Judgement.RIGHT, "")
