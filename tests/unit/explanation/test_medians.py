# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is explained is a difference of medians: its ratio is printed with an interval, and counts that vary need one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from swapstone.core.model import Comparison, Direction, Metric, Quantity, Scale, Variant, Verdict
from swapstone.parts.explain.explanation.count_costs import counts_of, ratio_of
from swapstone.parts.explain.explanation.row_answer import explain_measurements as explain
from swapstone.parts.explain.model.explanation import (
    Amount,
    Count,
    Explanation,
    InstrumentResult,
    Reference,
    RowKey,
    RowMeasurements,
)
from swapstone.parts.explain.session.explain import has_other_medians
from tests.unit.explanation.rows import OWN, profile, result

BASE, CANDIDATE = "libc=glibc", "libc=musl"


def compared(
    verdict: Verdict, effect: float, ends: tuple[float, float] | None, scale: Scale = Scale.RATIO
) -> Comparison:
    """Return a row with this effect and this interval of its ratio of medians."""
    low, high = ends or (None, None)
    return Comparison(
        suite="s",
        workload="w",
        load="idle",
        metric=Metric(name="wall", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="x"),
        scale=scale,
        effect=effect,
        low=effect,
        high=effect,
        confidence=0.99,
        p_value=0.001,
        smallest_visible=None,
        exact=False,
        baseline=Variant(levels=(("libc", "glibc"),)),
        candidate=Variant(levels=(("libc", "musl"),)),
        baseline_values=(),
        candidate_values=(),
        verdict=verdict,
        median_effect=effect,
        median_low=low,
        median_high=high,
    )


@pytest.mark.parametrize(
    ("verdict", "effect", "ends", "scale", "differs"),
    [
        (Verdict.WORSE, 1.1, (1.05, 1.2), Scale.RATIO, True),
        (Verdict.BETTER, 0.9, (0.8, 0.95), Scale.RATIO, True),
        (Verdict.CHANGED, 2.0, (1.5, 2.5), Scale.RATIO, True),
        # The means have the direction, the medians don't show it.
        (Verdict.WORSE, 1.1, (0.99, 1.2), Scale.RATIO, False),
        (Verdict.BETTER, 0.9, (0.8, 1.01), Scale.RATIO, False),
        (Verdict.BETTER, 0.9, (1.01, 1.2), Scale.RATIO, False),
        (Verdict.WORSE, 1.1, (0.8, 0.9), Scale.RATIO, False),
        (Verdict.INCONCLUSIVE, 1.1, (1.05, 1.2), Scale.RATIO, False),
        (Verdict.WORSE, 5.0, (1.0, 9.0), Scale.DIFFERENCE, True),
        (Verdict.WORSE, 5.0, (-1.0, 9.0), Scale.DIFFERENCE, False),
        (Verdict.BETTER, -5.0, (-9.0, -1.0), Scale.DIFFERENCE, True),
        (Verdict.WORSE, 1.1, None, Scale.RATIO, True),  # of the first rules
    ],
)
def test_a_row_is_explained_if_its_medians_have_its_direction(
    verdict: Verdict, effect: float, ends: tuple[float, float] | None, scale: Scale, differs: bool
) -> None:
    assert has_other_medians(compared(verdict, effect, ends, scale)) is differs


def reference(variant: str, runs: int, time_ns: float | None, **values: Sequence[float]) -> Reference:
    middles = {name: sorted(each)[len(each) // 2] for name, each in values.items()}
    return Reference(
        variant=variant,
        program_sha256="",
        recorded=time_ns or 1.0,
        time_ns=time_ns,
        metrics=tuple(middles.items()),
        runs=runs,
        values=tuple((name, tuple(each)) for name, each in values.items()),
    )


def counter(variant: str, group: str, name: str, value: float) -> InstrumentResult:
    return InstrumentResult(
        instrument="reference",
        variant=variant,
        tool="",
        command="c",
        operations=1.0,
        overhead=1.0,
        amounts=(Amount(group=group, name=name, value=value),),
    )


def seen(references: tuple[Reference, Reference], *runs: InstrumentResult, **changes: Any) -> RowMeasurements:
    return RowMeasurements(
        place=RowKey(suite="", workload="w", load="idle", metric="wall", baseline=BASE, candidate=CANDIDATE),
        unit="ns",
        ledger_metric="wall",
        references=references,
        runs=runs,
        missing=(),
        **changes,
    )


def switches(before: Sequence[float], after: Sequence[float], per_run: float = 1.0) -> tuple[Count, Explanation]:
    """Return the count of voluntary switches of these reference runs, and the explanation without a profile."""
    references = reference(BASE, len(before), 1e6, nvcsw=before), reference(CANDIDATE, len(after), 2e6, nvcsw=after)
    middles = [dict(each.metrics)["nvcsw"] / per_run for each in references]
    runs = [
        counter(name, "switches", "voluntary switches", middle)
        for name, middle in zip((BASE, CANDIDATE), middles, strict=True)
    ]
    row = seen(references, *runs)
    (count,) = counts_of(row)
    return count, explain(row)


def around(middle: float, spread: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [max(0.0, round(chance.gauss(middle, spread))) for _ in range(10)]


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (around(100, 2, 1), around(200, 2, 2), True),
        (around(100, 2, 3), around(125, 2, 4), True),
        (around(1000, 20, 5), around(3000, 50, 6), True),
        (around(100, 50, 7), around(130, 60, 8), False),
        ([10, 500, 20, 400, 15, 450, 12, 480, 18, 470], [450, 15, 470, 300, 13, 600, 17, 400, 20, 410], False),
        ([1, 2, 1, 2, 1, 2, 1, 2, 1, 2], [2, 1, 2, 2, 1, 2, 2, 1, 2, 2], False),
        ([1, 0, 9, 0, 1, 7, 0, 1, 8, 1], [2, 0, 0, 8, 2, 0, 9, 2, 0, 7], False),
        ([1, 0, 1, 1, 1, 2, 1, 1, 0, 1], [40, 41, 39, 40, 42, 40, 41, 38, 40, 40], True),
    ],
)
def test_a_counter_is_named_if_the_interval_of_its_ratio_excludes_one(
    before: Sequence[float], after: Sequence[float], named: bool
) -> None:
    count, found = switches(before, after)
    assert count.interval is not None
    assert any("voluntary switches (other variant" in text for text in found.unknown) is named, count
    assert (not count.interval[0] <= 1 <= count.interval[1]) is named
    assert ratio_of(count).count(" to ") == 1 and ratio_of(count).endswith(")")


def test_the_interval_is_of_the_counts_of_an_operation() -> None:
    """Variants may make different numbers of operations in a run; the ratio of one is in the interval."""
    count, _ = switches(around(100, 5, 1), around(200, 5, 2), per_run=50)
    assert count.baseline is not None and count.candidate is not None and count.interval is not None
    assert count.interval[0] < count.candidate / count.baseline < count.interval[1]


def test_counts_of_one_run_have_no_interval() -> None:
    references = reference(BASE, 1, 1e6, nvcsw=[5.0]), reference(CANDIDATE, 1, 2e6, nvcsw=[9.0])
    for group, name in (("switches", "voluntary switches"), ("system calls", "voluntary switches")):
        row = seen(references, counter(BASE, group, name, 5.0), counter(CANDIDATE, group, name, 9.0))
        (count,) = counts_of(row)
        assert (count.interval, ratio_of(count)) == (None, "1.800")


def answer(
    times: tuple[Sequence[float], Sequence[float]], recorded: tuple[float | None, float | None], **changes: Any
) -> str:
    """Return the sentence on a row with profiles of one function of the program."""
    references = tuple(
        reference(name, len(each), time_ns, wall=each, cpu=each)
        for name, each, time_ns in zip((BASE, CANDIDATE), times, recorded, strict=True)
    )
    runs = [result("on-cpu", name, profile=profile([{OWN: 100}] * 6)) for name in (BASE, CANDIDATE)]
    return explain(seen((references[0], references[1]), *runs, **changes)).sentence


FAST, SLOW = around(1e6, 1e4, 1), around(2e6, 1e4, 2)


def test_the_ratio_of_the_records_medians_is_printed_with_its_interval() -> None:
    text = answer((FAST, SLOW), (1e6, 2e6), medians=(2.0, 1.9, 2.1))
    assert "2 ms (wall) with musl instead of 1 ms with glibc (ratio 2.000, 1.900 to 2.100): " in text
    turned = answer((SLOW, FAST), (2e6, 1e6), medians=(0.5, 0.4, 0.8))
    assert "1 ms (wall) with musl instead of 2 ms with glibc (ratio 0.500, 0.400 to 0.800): " in turned


def test_without_one_no_ratio_is_printed() -> None:
    assert "(ratio" not in answer((FAST, SLOW), (1e6, 2e6))
    assert "(ratio" not in answer((FAST, SLOW), (1e6, 2e6), medians=(1e300, 1e-300, 1e300))


def test_of_a_row_of_another_metric_the_ratio_is_that_of_the_reference_runs() -> None:
    text = answer((FAST, SLOW), (None, None), medians=(7.0, 6.0, 8.0))  # of the row's metric
    assert "(ratio 1.994, 1.971 to 2.017): work, called by main, takes" in text and "7.000" not in text
