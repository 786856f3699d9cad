# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sentences that answer records of swapping, of network stacks, and explanations."""

from __future__ import annotations

import msgspec
import pytest
from tests.golden import verdicts
from tests.unit import builders

from swapstone.core.model import Analysis, Comparison, Direction, Metric, Quantity, Variant, Verdict
from swapstone.core.report.record_report import answer_of

OUT = Metric(name="out_steady", unit="B/s", quantity=Quantity.RATE, better=Direction.HIGHER, meaning="rate", leads=True)
TOUCH = Metric(name="touch_time", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="touch")
COPIES = Metric(name="copies", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="copies")
COPIED = msgspec.structs.replace(COPIES, name="copied")
HEAP = msgspec.structs.replace(COPIES, name="heap_calls")
FLASH, LZ4, ZSTD = (builders.variant(f"swap={level}") for level in ("flash", "zram:lz4", "zram:zstd"))
LWIP, SMOLTCP = (builders.variant(f"netstack={level}") for level in ("lwip", "smoltcp"))


def _row(
    suite: str,
    workload: str,
    metric: Metric,
    verdict: Verdict,
    *,
    ratio: float = 1.0,
    candidate: Variant = LZ4,
    baseline: Variant = FLASH,
    values: tuple[float, float] = (1e6, 1e6),
) -> Comparison:
    """Return a row of a verdict with an interval of 0.5 % around a ratio."""
    row = msgspec.structs.replace(
        verdicts.row(verdict, workload, metric), suite=suite, baseline=baseline, candidate=candidate
    )
    if row.effect is None:
        return row
    return msgspec.structs.replace(
        row,
        effect=ratio,
        low=ratio * 0.995,
        high=ratio * 1.005,
        baseline_values=(values[0],) * 6,
        candidate_values=(values[1],) * 6,
        preferred=metric in (OUT, TOUCH),
    )


def _said(*rows: Comparison) -> str:
    analysis: Analysis = msgspec.structs.replace(verdicts.analysis(), comparisons=rows, caveats=())
    return answer_of(verdicts.context(), analysis)


def _swap(verdict: Verdict, ratio: float, touch: Verdict, slower: float, level: Variant = LZ4) -> list[Comparison]:
    return [
        _row("swap", "fill", OUT, verdict, ratio=ratio, candidate=level),
        _row("swap", "touch", TOUCH, touch, ratio=slower, candidate=level),
    ]


def test_a_level_of_swap_has_a_rate_and_the_time_of_a_touch() -> None:
    assert _said(*_swap(Verdict.WORSE, 0.25, Verdict.WORSE, 12.0)) == (
        "zram:lz4 swaps out at a quarter of the rate of flash on fill, and takes 12 times as long for a touch of a swapped page."
    )
    assert _said(*_swap(Verdict.BETTER, 1.04, Verdict.BETTER, 0.5)) == (
        "zram:lz4 swaps out at a rate 4 % higher than flash on fill, and is twice as fast for a touch of a swapped page."
    )


def test_the_same_rate_of_swapping_is_about_the_median_unless_the_row_is_equivalent() -> None:
    same = _swap(Verdict.EQUIVALENT, 1.001, Verdict.SAME_MEDIAN, 1.0)
    assert _said(*same) == (
        "zram:lz4 has the same rate of swapping out as flash (within 2 %) on fill, and the same median time of a touch (within 2 %); "
        "the mean of touch is 1.120 times (1.093–1.147), undecided."  # noqa: RUF001 - a dash between numbers
    )
    tail = _swap(Verdict.EQUIVALENT, 1.001, Verdict.WORSE_TAIL, 1.0)
    assert _said(*tail).endswith(
        "and the same median time of a touch (within 2 %); in time of a touch, its tail is slower: mean 1.450 times (1.415–1.485), "  # noqa: RUF001 - a dash between numbers
        "p90 2.20 ms against 2.20 ms, slowest 99 ms against 3.30 ms."
    )


def test_an_open_rate_of_swapping() -> None:
    row = msgspec.structs.replace(
        _row("swap", "fill", OUT, Verdict.INCONCLUSIVE), low=0.9, high=1.2, smallest_visible=1.3
    )
    assert (
        _said(row)
        == "zram:lz4 may differ from flash in rate of swapping out (not decided: between 0.900 and 1.20 times) on fill; changes under 30 % "
        "would not be detected."
    )
    few = msgspec.structs.replace(row, low=None, high=None, effect=0.5)
    assert _said(few) == (
        "Too few runs to compare zram:lz4 with flash on fill: 6 pairs of runs, in which it swapped out at half the rate."
    )


def test_too_few_runs_are_those_of_the_workload_that_has_some() -> None:
    """As of a first replicate that was interrupted: the rows of the workload before it are empty."""
    few = {"low": None, "high": None}
    empty, touch = (
        msgspec.structs.replace(_row("swap", name, TOUCH, Verdict.INCONCLUSIVE, ratio=0.5), **few)
        for name in ("sequential", "random")
    )
    empty = msgspec.structs.replace(empty, effect=None, baseline_values=(), candidate_values=())
    assert _said(empty, touch).startswith(
        "Too few runs to compare zram:lz4 with flash on random: 6 pairs of runs, in which it "
    )


def test_several_levels_of_swap_against_one() -> None:
    rows = [*_swap(Verdict.WORSE, 0.25, Verdict.WORSE, 12.0), *_swap(Verdict.WORSE, 0.5, Verdict.WORSE, 3.0, ZSTD)]
    assert _said(*rows).startswith(
        "Against flash on fill: zram:lz4 swaps out at a quarter of the rate, and takes 12 times"
    )
    gone = [_row("swap", "fill", OUT, Verdict.INVALID, candidate=ZSTD)]
    assert "zram:zstd has no result: invalid: carry-over" in _said(*rows[:2], *gone)


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        (
            "env:MALLOC_ARENA_MAX=0",
            "env:MALLOC_ARENA_MAX=1",
            "MALLOC_ARENA_MAX=1 swaps out at a quarter of the rate of 0 on fill",
        ),
        ("{threads}=1", "{threads}=8", "threads=8 swaps out at a quarter of the rate of 1 on fill"),
        (
            "env:LD_PRELOAD=unset",
            "env:LD_PRELOAD=x.so",
            "LD_PRELOAD=x.so swaps out at a quarter of the rate of unset on fill",
        ),
        ("priority=0", "priority=10", "priority=10 swaps out at a quarter of the rate of 0 on fill"),
        (
            "libc=glibc,{n}=1",
            "libc=musl,{n}=2",
            "musl with n=2 swaps out at a quarter of the rate of glibc with n=1 on fill",
        ),
    ],
)
def test_a_value_has_the_name_of_its_factor(old: str, new: str, start: str) -> None:
    row = _row("swap", "fill", OUT, Verdict.WORSE, ratio=0.25)
    sides = {"baseline": builders.variant(old), "candidate": builders.variant(new)}
    assert _said(msgspec.structs.replace(row, **sides)) == f"{start}."


def _count(metric: Metric, verdict: Verdict, before: float, after: float) -> Comparison:
    return _row(
        "netstack-counts",
        "counts-tuned",
        metric,
        verdict,
        ratio=after / before,
        candidate=SMOLTCP,
        baseline=LWIP,
        values=(before, after),
    )


def test_copies_and_allocations_of_a_request() -> None:
    assert _said(_count(COPIES, Verdict.BETTER, 22, 15), _count(HEAP, Verdict.WORSE, 0.25, 2)) == (
        "smoltcp makes 15 copies instead of 22, 2 allocations from the heap instead of 0.250 with lwip for a request (server, tuned)."
    )


def test_many_clauses_on_a_request_name_one_difference_each() -> None:
    pair = (_count(COPIES, Verdict.BETTER, 22, 15), _count(HEAP, Verdict.WORSE, 0.25, 2))
    works = ("counts-plain", "counts-tuned", "counts-client-plain")
    names = ("server, plain", "server, tuned", "client, plain")
    rows = [msgspec.structs.replace(row, workload=work) for work in works for row in pair]
    clauses = [f"smoltcp makes 15 copies instead of 22 with lwip for a request ({name})" for name in names]
    assert _said(*rows) == "; ".join(clauses) + "."


def test_more_than_four_clauses_are_a_range_of_copies_for_each_candidate() -> None:
    works = ("counts-plain", "counts-tuned", "counts-client-plain", "counts-client-tuned", "counts-other")
    counts = ((8, 7, Verdict.BETTER), (6, 6, Verdict.SAME_MEDIAN), (13, 9, Verdict.BETTER), (10, 12.5, Verdict.WORSE))
    rows = [
        msgspec.structs.replace(_count(COPIES, verdict, before, after), workload=work)
        for work, (before, after, verdict) in zip(works, (*counts, (9, 9, Verdict.INCONCLUSIVE)), strict=True)
    ]
    copies = (
        "smoltcp makes 6 to 12.5 copies for a request where lwip makes 6 to 13 (fewer in 2 and more in 1 of 5 counts)"
    )
    assert _said(*rows) == f"{copies}."
    byte_rows = [msgspec.structs.replace(_count(COPIED, Verdict.WORSE, 36, 536), workload=work) for work in works]
    assert _said(*rows, *byte_rows) == f"{copies}, and copies 536 bytes where lwip copies 36 (more in 5 of 5 counts)."
    unknown = [msgspec.structs.replace(row, low=None, high=None, exact=False) for row in rows]
    assert "Too few runs" in _said(*(msgspec.structs.replace(row, verdict=Verdict.INCONCLUSIVE) for row in unknown))
    same = [msgspec.structs.replace(rows[1], workload=work) for work in works]
    assert (
        _said(*same)
        == "smoltcp makes 6 copies for a request where lwip makes 6 (a difference decided in none of 5 counts)."
    )
    # Without copies for each, there is a clause for each.
    other = msgspec.structs.replace(_count(HEAP, Verdict.BETTER, 4, 3), workload=works[4])
    assert "3 allocations from the heap instead of 4 with lwip" in _said(*rows[:4], other)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict.EQUIVALENT, "smoltcp and lwip copy and allocate equally often for a request (server, tuned)."),
        (
            Verdict.SAME_MEDIAN,
            "smoltcp and lwip copy and allocate equally often in the median for a request (server, tuned).",
        ),
        (
            Verdict.INCONCLUSIVE,
            "Whether smoltcp copies or allocates more or less than lwip is not decided for a request (server, tuned).",
        ),
        (Verdict.INVALID, "Nothing was measured: no comparison has a number. The first reason: invalid: carry-over"),
    ],
)
def test_counts_without_a_difference(verdict: Verdict, text: str) -> None:
    assert _said(_count(COPIES, verdict, 22, 22)).startswith(text)


def test_counts_without_an_interval_are_not_called_equal() -> None:
    row = msgspec.structs.replace(_count(COPIES, Verdict.INCONCLUSIVE, 900, 36), low=None, high=None, exact=False)
    assert _said(row).startswith("Too few runs to compare smoltcp with lwip for a request (server, tuned).")


def test_counts_with_another_tail_are_not_called_equal() -> None:
    made = _said(_count(COPIES, Verdict.WORSE_TAIL, 22, 22), _count(HEAP, Verdict.EQUIVALENT, 2, 2))
    assert made == (
        "Whether the medians of lwip and smoltcp differ is not decided for a request (server, tuned); 1 of 2 has a worse tail."
    )
