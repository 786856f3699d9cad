# SPDX-License-Identifier: MIT OR Apache-2.0
"""Evidence for a class of cost: what covers most of the difference comes first, and nothing that is equal on both sides is evidence."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from swapstone.core.model.number_text import RESOLUTION, fixed, quantity
from swapstone.core.model.profile import KERNEL, Frame
from swapstone.parts.explain.explanation.call_names import calls, common_call
from swapstone.parts.explain.explanation.cost_classes import CostClass, CostClasses
from swapstone.parts.explain.explanation.ledger import run_of
from swapstone.parts.explain.model.explanation import RECORDED_SWITCHES, Count, LedgerLine, Reference, RowMeasurements

LEAST_EXCESS = 0.02
"""Relative excess of the slower variant below which a count counts as equal."""

MOST_NAMES = 4
MOST_EVIDENCE = 8

_FARTHEST = 2.0
"""Factor between the kernel's count of voluntary switches and those of the off-CPU recording, above which neither is evidence."""

SMALLEST_NS = RESOLUTION["ns"]
"""A shorter time is the rounding error of a difference of doubles, and is printed as 0."""

Times = Mapping[str, Mapping[tuple[str, str], float]]
"""CPU time per operation in ns, by variant and (class, function)."""


@dataclasses.dataclass(frozen=True)
class Sides:
    """The two variants of a row, the slower one first."""

    slow: Reference
    fast: Reference
    swapped: bool

    def order(self, baseline: float, candidate: float) -> tuple[float, float]:
        """Return two values, the slower variant's first."""
        return (baseline, candidate) if self.swapped else (candidate, baseline)

    def counted(self, count: Count | None) -> tuple[float, float] | None:
        """Return a count of both variants, the slower variant's first; None unless both were counted."""
        if count is None or count.baseline is None or count.candidate is None:
            return None
        return self.order(count.baseline, count.candidate)


@dataclasses.dataclass(frozen=True)
class Named:
    """A name for what distinguishes a class of cost; empty if there is none. And texts with the numbers."""

    how: str
    texts: tuple[str, ...]


Evidence = tuple[str, float]
"""A text, and the share of the row's difference that it covers."""


def amount(value: float) -> str:
    """Format a count: three significant digits, with the suffix k, M or G from 10000 on."""
    return quantity(value, "1") if abs(value) < 1000 or abs(value) >= 1e4 else fixed(value, 0)


def duration(value_ns: float) -> str:
    """Format a time with three significant digits; 0 below `SMALLEST_NS`."""
    return quantity(value_ns, "ns")


def function_times(seen: RowMeasurements, classes: CostClasses) -> Times:
    """Return the CPU time per operation by class and innermost user function."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for reference in seen.references:
        run = run_of(seen, "on-cpu", reference.variant)
        times: collections.Counter[tuple[str, str]] = collections.Counter()
        if run is not None and run.profile is not None:
            scale = dict(reference.metrics).get("cpu", 0.0) / (run.profile.total or 1.0)
            for (frames, weight), (cause, _) in zip(
                run.profile.weighted(), classes.of_stacks(run.profile), strict=True
            ):
                times[cause, _function(frames)] += weight * scale  # type: ignore[assignment]
        found[reference.variant] = dict(times)
    return found


def _function(frames: Sequence[Frame]) -> str:
    return next(
        (frame.symbol for frame in reversed(frames) if frame.object != KERNEL), frames[-1].symbol if frames else ""
    )


@dataclasses.dataclass(frozen=True)
class RowFacts:
    """What the findings of a row are computed from.

    Attributes:
        pair: the variants.
        difference: of the row, in ns, without its sign.
        counts: of both variants.
        times: CPU time by function.
        classes: the classes of cost, which decide to which class a counted function belongs.
    """

    pair: Sides
    difference: float
    counts: Sequence[Count]
    times: Times
    classes: CostClasses


class ClassEvidence:
    """The evidence for a class of cost.

    Args:
        kind: the class.
        lines: of the ledger, of this class.
        facts: of the row.
    """

    def __init__(self, kind: CostClass, lines: Sequence[LedgerLine], facts: RowFacts) -> None:
        self._kind, self._facts, pair = kind, facts, facts.pair
        sign = -1.0 if pair.swapped else 1.0
        self._lines = [line for line in lines if line.difference * sign > 0 and is_shown(line)]
        self._share = abs(sum(line.difference for line in lines)) / facts.difference
        slow, fast = (facts.times.get(side.variant, {}) for side in (pair.slow, pair.fast))
        found = {
            name: (slow.get((of, name), 0.0), fast.get((of, name), 0.0))
            for of, name in [*slow, *fast]
            if of == kind.name
        }
        self._functions = sorted(
            (
                (name, more, less)
                for name, (more, less) in found.items()
                if more > less and duration(more) != duration(less)
            ),
            key=lambda one: one[2] - one[1],
        )

    def texts(self) -> tuple[str, ...]:
        """Return the texts, those that cover most of the difference first."""
        found = [*self._of_lines(), *self._of_functions(), *self._of_counts()]
        return tuple(text for text, _ in sorted(found, key=lambda one: -one[1])[:MOST_EVIDENCE])

    def numbers(self) -> list[str]:
        """Return the counts alone, in the same order."""
        return [text for text, _ in self._of_counts()]

    def functions(self) -> list[str]:
        """Return the functions in which the slower variant spends more CPU time, the largest difference first."""
        return [name for name, _, _ in self._functions]

    def _of_lines(self) -> list[Evidence]:
        found = []
        for line in sorted(self._lines, key=lambda one: -abs(one.difference))[:MOST_NAMES]:
            more, less = self._facts.pair.order(line.baseline, line.candidate)
            name = f"{self._kind.name} {line.detail}".strip()
            text = f"{name}: {duration(more)} per operation (other variant: {duration(less)})"
            found.append((text, abs(line.difference) / self._facts.difference))
        return found

    def _of_functions(self) -> list[Evidence]:
        named = self._functions[:MOST_NAMES] if self._kind.functions else []
        if not named:
            return []
        text = ", ".join(f"{name} {duration(more)} (other variant: {duration(less)})" for name, more, less in named)
        return [(f"CPU time by function: {text}", sum(more - less for _, more, less in named) / self._facts.difference)]

    def _of_counts(self) -> list[Evidence]:
        found = []
        by_detail = {line.detail.rpartition("in ")[2]: abs(line.difference) for line in self._lines}
        for count in self._facts.counts:
            values = self._facts.pair.counted(count) if self._kind.has_count(count, by_detail) else None
            if values is not None and _is_more(*values) and not self._contradicts(count):
                (more, less), whole = values, self._facts.difference
                share = by_detail.get(common_call(count.name), self._share * whole) / whole
                found.append((_count_words(count, more, less), share * (more - less) / more))
        found += self._of_calls()
        return sorted(found, key=lambda one: -one[1])[:MOST_NAMES]

    def _of_calls(self) -> list[Evidence]:
        """Return the calls of functions of this class that the slower variant makes more often."""
        found = []
        for each in calls(self._facts.counts) if self._kind.functions else ():
            more, less = self._facts.pair.order(each.baseline, each.candidate)
            if self._facts.classes.of([each.frame])[0] != self._kind.name or not _is_more(more, less):
                continue
            other = f"{'at most ' if each.bounded else ''}{amount(less)}"
            text = f"{amount(more)} calls of {each.name} per operation (other variant: {other})"
            found.append((text, self._share * (more - less) / more))
        return found

    def _contradicts(self, count: Count) -> bool:
        """Return whether a count is of switches, and their recording has many more or many fewer than this counter of the kernel."""
        if count.name != "voluntary switches":
            return False
        recorded = [each for each in self._facts.counts if each.group == RECORDED_SWITCHES and each.name == count.name]
        pairs = [
            sorted((counted or 0.0, other or 0.0))
            for each in recorded
            for counted, other in ((count.baseline, each.baseline), (count.candidate, each.candidate))
        ]
        return any(high > _FARTHEST * low and high >= 0.5 for low, high in pairs)


def _is_more(more: float, less: float) -> bool:
    """Return whether two counts differ by what can be read."""
    return more - less >= LEAST_EXCESS * more and amount(more) != amount(less)


def is_shown(line: LedgerLine) -> bool:
    """Return whether a line's interval excludes 0, if it has one."""
    return line.interval is None or line.interval[0] > 0 or line.interval[1] < 0


def _count_words(count: Count, more: float, less: float) -> str:
    unit = "instructions" if count.group == "instructions" else count.name
    unit = f"allocations {unit}" if unit.startswith("of ") else unit
    return f"{amount(more)} {unit} per operation (other variant: {amount(less)})"
