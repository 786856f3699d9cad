# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of each kind of result: it claims no more than its intervals, and states first what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from tests.golden import crossed, latency, reports, servers, synthetic

from swapstone.core.model import (
    WITHOUT_DIRECTION,
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Direction,
    Failure,
    Index,
    Metric,
    Quantity,
    Scale,
    Variant,
    Verdict,
)
from swapstone.core.report.answer.means import Standing, mean_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.record_report import answer_of
from swapstone.core.report.topics import sentences

WALL = msgspec.structs.replace(synthetic.WALL)
RATE = Metric(name="req/s", unit="1/s", quantity=Quantity.RATE, better=Direction.HIGHER, meaning="x", leads=True)
UCLIBC = Variant(levels=(("libc", "uclibc"),))
QUIET = msgspec.structs.replace(synthetic.analysis().noise, busy=False)


def _row(
    workload: str,
    ratio: float,
    half: float | None = 0.01,
    *,
    metric: Metric = WALL,
    candidate: Variant = synthetic.MUSL,
    suite: str = "libc",
    load: str = "idle",
    verdict: Verdict | None = None,
    reason: str = "",
) -> Comparison:
    """Return a row with an interval of ratio * (1 - half) to ratio * (1 + half), and the verdict that follows from it."""
    low, high = (None, None) if half is None else (ratio * (1 - half), ratio * (1 + half))
    return Comparison(
        suite=suite,
        workload=workload,
        load=load,
        metric=metric,
        baseline=synthetic.GLIBC,
        candidate=candidate,
        baseline_values=(1000.0, 1001.0) if verdict not in {Verdict.INVALID, Verdict.UNAVAILABLE} else (),
        candidate_values=(1000.0 * ratio, 1001.0 * ratio),
        scale=Scale.RATIO,
        effect=ratio,
        low=low,
        high=high,
        confidence=0.99,
        p_value=0.1,
        smallest_visible=None if half is None else 1 + 2 * half,
        exact=False,
        verdict=verdict or _verdict(low, high, metric.better),
        reason=reason,
        preferred=metric.quantity in {Quantity.TIME, Quantity.RATE},
    )


def _verdict(low: float | None, high: float | None, better: Direction) -> Verdict:
    if low is None or high is None or low <= 1 <= high:
        within = low is not None and high is not None and low >= 1 / 1.02 and high <= 1.02
        return Verdict.EQUIVALENT if within else Verdict.INCONCLUSIVE
    if better is Direction.NEITHER:
        return Verdict.CHANGED
    return Verdict.BETTER if (high < 1) == (better is Direction.LOWER) else Verdict.WORSE


def _index(rows: Sequence[Comparison], half: float | None = 0.005, effect: float | None = None) -> Index:
    effect = effect or math.exp(sum(math.log(row.effect or 1) for row in rows) / len(rows))
    return Index(
        suite=rows[0].suite,
        load=rows[0].load,
        metric=rows[0].metric.name,
        baseline=rows[0].baseline,
        candidate=rows[0].candidate,
        workloads=len(rows),
        blocks=20,
        effect=effect,
        low=None if half is None else effect * (1 - half),
        high=None if half is None else effect * (1 + half),
        confidence=0.95,
    )


def _analysis(rows: Sequence[Comparison], *indices: Index, **changes: object) -> Analysis:
    return Analysis(
        **{  # type: ignore[arg-type] # fields of an analysis
            "comparisons": tuple(rows),
            "indices": indices,
            "nulls": (),
            "noise": QUIET,
            "caveats": (),
            "failures": (),
            "blocks": 20,
            "runs": 80,
            "correction": "holm",
            **changes,
        }
    )


def _context(**changes: object) -> ReportContext:
    experiment = msgspec.structs.replace(synthetic.context().experiment, published="", **changes)
    return msgspec.structs.replace(synthetic.context(published=""), experiment=experiment, notes=())


def _said(rows: Sequence[Comparison], *indices: Index, **changes: object) -> str:
    return answer_of(_context(), _analysis(rows, *indices, **changes))


SUITE = [
    _row("b_regex_compile", 13.0),
    _row("b_regex_search", 12.0),
    _row("b_string_strstr(ac)", 5.0),
    _row("b_string_strchr", 5.2),
    _row("b_malloc_tiny1", 1.1),
    _row("b_stdio_putcgetc", 0.8),
]


def test_the_index_the_memory_the_cost_and_the_exceptions() -> None:
    memory = [_row(row.workload, 0.33, metric=synthetic.MAXRSS) for row in SUITE]
    assert _said([*SUITE, *memory], _index(SUITE)) == (
        "musl takes 3.9 times as long as glibc on 6 workloads of libc, and uses a third of the memory; the cost is in regex and strings; "
        "1 of 6 is faster."
    )


def test_memory_that_is_not_decided_is_not_claimed() -> None:
    memory = [_row(row.workload, 0.9, half=0.2, metric=synthetic.MAXRSS) for row in SUITE]
    assert "memory" not in _said([*SUITE, *memory], _index(SUITE))
    assert "memory" not in _said(
        [*SUITE, *(_row(r.workload, 0.5, half=None, metric=synthetic.MAXRSS) for r in SUITE)], _index(SUITE)
    )


def test_the_cost_is_named_only_where_groups_hold_most_of_it() -> None:
    even = [_row(f"{group}_{n}", 1.5) for group in ("a", "b", "c", "d", "e", "f", "g", "h") for n in range(2)]
    assert _said(even, _index(even)) == "musl takes 1.5 times as long as glibc on 16 workloads of libc."
    one = [_row(f"b_malloc_{n}", 1.5) for n in ("tiny", "big", "sparse")]
    assert "the cost is in" not in _said(one, _index(one))


def test_a_faster_candidate_gains_and_percents_are_below_ten() -> None:
    rows = [_row("b_regex_compile", 0.93), _row("b_string_strchr", 0.995, half=0.001), _row("b_malloc_tiny1", 1.05)]
    made = _said(rows, _index(rows, half=0.005, effect=0.96))
    assert made.startswith("musl is 4 % faster than glibc")
    assert "the gain is in b_regex_compile" in made and made.endswith("1 of 3 is slower.")


def test_an_index_that_reaches_into_the_margin_may_be_within_it() -> None:
    rows = [_row("b_regex_compile", 1.2), _row("b_string_strchr", 0.9)]
    slight = _said(rows, _index(rows, half=0.015, effect=1.025))
    assert slight.startswith("musl is slower than glibc, perhaps by less than 2 % (between 1 % slower and 4 % slower)")
    open_index = _said(rows, _index(rows, half=0.03, effect=1.0))
    assert open_index.startswith(
        "musl may differ from glibc in elapsed time (not decided: between 3 % faster and 3 % slower)"
    )
    assert open_index.endswith("1 of 2 is slower and 1 faster.")


def test_equivalent() -> None:
    rows = [_row("b_regex_compile", 1.001, half=0.005), _row("b_string_strchr", 0.999, half=0.005)]
    assert _said(rows, _index(rows)) == "musl takes as long as glibc (within 2 %) on each of 2 workloads of libc."


CPU = msgspec.structs.replace(WALL, name="cpu", leads=False)


OPEN_TIME = "musl may differ from glibc in elapsed time (not decided: between 3 % faster and 5 % slower) on b_x"


@pytest.mark.parametrize(
    ("ratio", "half", "text"),
    [
        (1.3, 0.01, "; musl uses 1.3 times the CPU time"),
        (0.5, 0.01, "; musl uses half the CPU time"),
        (1.16, 0.13, "; musl is different in CPU time, perhaps by less than 2 % (between 1.01 and 1.31 times)"),
        (1.3, 0.4, ""),
    ],
)
def test_cpu_time_that_differs_is_named_where_elapsed_time_does_not(ratio: float, half: float, text: str) -> None:
    assert _said([_row("b_x", 1.01, half=0.04), _row("b_x", ratio, half=half, metric=CPU)]) == (
        f"{OPEN_TIME}{text}; changes under 8 % would not be detected."
    )


def test_everything_inconclusive() -> None:
    rows = [_row("b_regex_compile", 1.01, half=0.04), _row("b_string_strchr", 0.99, half=0.06)]
    assert _said(rows, _index(rows, half=0.05)) == (
        "musl may differ from glibc in elapsed time (not decided: between 5 % faster and 5 % slower) on 2 workloads of libc; changes "
        "under 12 % would not be detected."
    )


def test_too_few_runs() -> None:
    rows = [_row("b_regex_compile", 1.5, half=None), _row("b_string_strchr", 1.5, half=None)]
    assert _said(rows, _index(rows, half=None)) == (
        "Too few runs to compare musl with glibc on 2 workloads of libc: 2 pairs of runs, in which it took 1.5 times as long."
    )


def test_too_few_runs_of_several_candidates_are_printed_too() -> None:
    musl = [_row(name, 1.5, half=None) for name in ("a", "b")]
    other = [_row(name, 0.5, half=None, candidate=UCLIBC) for name in ("a", "b")]
    assert _said([*musl, *other], _index(musl, half=None), _index(other, half=None)) == (
        "Too few runs to compare musl and uclibc with glibc on 2 workloads of libc: in these runs, musl took 1.5 times as long and "
        "uclibc was twice as fast."
    )


def test_memory_is_stated_also_where_no_difference_in_time_was_found() -> None:
    rows = [_row("a", 1.01, half=0.04), _row("b", 0.99, half=0.06)]
    memory = [_row(row.workload, 1.5, metric=synthetic.MAXRSS) for row in rows]
    assert _said([*rows, *memory], _index(rows, half=0.05)).endswith(
        " on 2 workloads of libc; musl uses 1.5 times the memory; changes under 12 % would not be detected."
    )


def test_one_row_has_no_index() -> None:
    row = _row("prog", 1.5, suite="own")
    memory = _row("prog", 0.5, suite="own", metric=synthetic.MAXRSS)
    document = reports.document(_context(), _analysis([row, memory], _index([row])))
    assert document.answer == "musl takes 1.5 times as long as glibc on prog, and uses half the memory."
    assert "index" not in reports.as_text(_context(), _analysis([row, memory], _index([row])))


def test_a_rate_of_an_own_program() -> None:
    assert _said([_row("bench", 0.5, suite="own", metric=RATE)]) == "musl has half the req/s of glibc on bench."


def test_a_metric_without_a_direction_is_not_called_a_cost() -> None:
    neither = msgspec.structs.replace(RATE, better=Direction.NEITHER)
    rows = [_row("a_1", 2.0, metric=neither), _row("b_1", 1.01, half=0.001, metric=neither)]
    made = _said(rows)
    assert "slower" not in made and "faster" not in made and "cost" not in made and "worse" not in made


def test_several_candidates() -> None:
    rows = [_row(name, 1.5) for name in ("a", "b")]
    others = [_row(name, 0.5, candidate=UCLIBC) for name in ("a", "b")]
    assert _said([*rows, *others], _index(rows), _index(others)) == (
        "Against glibc on 2 workloads of libc: musl takes 1.5 times as long; uclibc is twice as fast."
    )


def test_other_suites_and_loads_follow() -> None:
    rows, loaded = (
        [_row(name, ratio, load=load) for name in ("a", "b")] for ratio, load in ((1.5, "idle"), (3.0, "cpu"))
    )
    made = _said([*rows, *loaded], _index(rows), _index(loaded))
    assert made.endswith("; on 2 workloads of libc under load cpu it takes 3 times as long.")


def test_a_candidate_without_numbers_is_named_after_the_result() -> None:
    gone = [
        _row(name, 1.0, candidate=UCLIBC, verdict=Verdict.UNAVAILABLE, reason="no uclibc here") for name in ("a", "b")
    ]
    rows = [_row(name, 1.5) for name in ("a", "b")]
    made = _said([*rows, *gone], _index(rows))
    assert made.startswith("musl takes 1.5 times as long as glibc")
    assert made.endswith(". uclibc has no result: unavailable: no uclibc here.")
    assert _said(gone) == "uclibc has no result: unavailable: no uclibc here."


def test_invalid_rows_are_counted_after_the_result() -> None:
    rows = [_row("a", 1.5), _row("b", 1.5), _row("c", 9.0, verdict=Verdict.INVALID, reason="glibc was in force")]
    made = _said(rows, _index(rows[:2]))
    assert made.startswith("musl takes 1.5 times as long as glibc on 2 workloads")
    assert made.endswith(". 1 of 3 rows gave no valid result.")


def test_an_interruption_is_stated_first() -> None:
    caveat = Caveat(kind=CaveatKind.INTERRUPTED, message="It was interrupted.")
    made = _said(SUITE, _index(SUITE), caveats=(caveat,), runs=78)
    assert made.startswith("Interrupted after 78 runs; so far: musl takes")


def test_nulls_that_differ_are_stated() -> None:
    caveat = Caveat(kind=CaveatKind.NULL_DIFFERS, message="It differs.")
    assert _said(SUITE, _index(SUITE), caveats=(caveat,)).endswith(
        "But the baseline differs from copies of itself, so small differences are not reliable here."
    )


def test_a_copy_of_the_baseline_is_no_candidate() -> None:
    analysis = synthetic.analysis()
    copy = msgspec.structs.replace(analysis.comparisons[0], candidate=synthetic.AGAIN)
    with_copy = msgspec.structs.replace(analysis, comparisons=(*analysis.comparisons, copy))
    assert answer_of(synthetic.context(), with_copy) == answer_of(synthetic.context(), analysis)


def test_nothing_measured() -> None:
    failure = Failure(key="k", status="failed", reason="exit status 1")
    assert _said([], failures=(failure,)) == (
        "Nothing was measured: no comparison has a number. The first reason: failed: exit status 1."
    )
    assert _said([]).startswith("There is nothing to compare in this record")


def test_the_virtual_clock_is_named() -> None:
    rows = [_row("b_regex_compile", 1.5), _row("b_string_strchr", 1.5)]
    made = answer_of(_context(clock="virtual", target="vm"), _analysis(rows, _index(rows)))
    assert made.endswith("(virtual clock).")


def test_on_a_busy_machine_the_answer_is_about_cpu_time() -> None:
    assert "musl uses 1.3 times the CPU time of glibc" in answer_of(synthetic.context(), synthetic.analysis())


def test_crossed_factors_with_an_interaction() -> None:
    assert answer_of(crossed.context(), crossed.analysis()) == (
        "With mimalloc, on 8 workloads of libc, musl takes 1.02 times as long as glibc instead of 1.90 times; the fastest, glibc with "
        "mimalloc, takes 11 % less time than glibc with default; against glibc with default, 14 of 32 are slower and 16 faster. musl "
        "with tcmalloc has no result: unavailable: tcmalloc does not compile with musl-gcc."
    )


def test_crossed_factors_without_an_interaction() -> None:
    analysis = crossed.analysis()
    none = tuple(
        each for each in analysis.interactions if each.workload == "b_malloc_thread_local" or not each.workload
    )
    absent = tuple(msgspec.structs.replace(each, presence=type(each.presence).ABSENT) for each in none)
    made = answer_of(crossed.context(), msgspec.structs.replace(analysis, interactions=absent))
    assert "the factors do not depend on each other" in made and "on average" in made
    open_ones = tuple(msgspec.structs.replace(each, presence=type(each.presence).UNDECIDED) for each in none)
    made = answer_of(crossed.context(), msgspec.structs.replace(analysis, interactions=open_ones))
    assert "whether the factors depend on each other is undecided" in made
    few = tuple(msgspec.structs.replace(each, low=None, high=None, exact=False) for each in analysis.effects)
    made = answer_of(crossed.context(), msgspec.structs.replace(analysis, interactions=open_ones, effects=few))
    assert "musl takes 1.4 times as long as glibc on average in these runs, too few for an interval" in made
    assert "no difference" not in made


def test_servers() -> None:
    assert answer_of(servers.context(), servers.analysis()).startswith(
        "With mimalloc, on 3 workloads of server, musl has 0.976 times the requests a second of glibc instead of 0.0836 times, and 1.03 "
        "times the p99 latency instead of 12.0 times; against glibc with default, 4 of 16 are worse"
    )


def test_latencies() -> None:
    assert answer_of(latency.context(), latency.analysis()) == (
        "rt has a shorter worst wake-up than generic under 4 of 4 loads, most under io: 31 us instead of 3.74 ms, p99.9 13 us instead of "
        "25 us, in 4 replicates (virtual clock)."
    )


def test_one_replicate_decides_no_worst_case() -> None:
    analysis = latency.analysis()
    first = tuple(
        msgspec.structs.replace(each, blocks=each.blocks[:1], maxima=each.maxima[:1], averages=each.averages[:1])
        for each in analysis.latencies
    )
    made = answer_of(latency.context(), msgspec.structs.replace(analysis, latencies=first))
    assert (
        made.startswith("Whether rt has another worst case than generic is not decided under 4 of 4 loads")
        and "shorter" not in made
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", [synthetic, crossed, latency, servers])
def test_every_format_begins_with_the_answer(case: object) -> None:
    context, analysis = case.context(), case.analysis()  # type: ignore[attr-defined] # the modules above
    answer = answer_of(context, analysis)
    flat = " ".join(reports.as_text(context, analysis, width=80).split())
    assert flat.startswith(answer)
    assert answer in " ".join(reports.as_whole_text(context, analysis).split())[: len(answer) + 1]


def test_an_index_of_incomplete_blocks_is_not_said_to_be_of_complete_ones() -> None:
    whole = _index(SUITE)
    assert sentences.index(whole, _context()).endswith("geometric mean of 6 workloads over 20 complete blocks")
    means = msgspec.structs.replace(whole, incomplete=True)
    assert sentences.index(means, _context()).endswith(
        "geometric mean of the means of 6 workloads, of 20 blocks or more each"
    )
    layouts = msgspec.structs.replace(means, layouts=True)
    assert sentences.index(layouts, _context()).endswith("of 20 layouts or more each")


def test_an_index_has_the_ratio_of_medians_beside_it_and_no_direction_against_them() -> None:
    whole = msgspec.structs.replace(_index(SUITE, effect=0.9), median_effect=0.99, median_low=0.97, median_high=1.01)
    assert (
        ": musl is 0.900 x glibc (0.895 to 0.904 at 95 %), of medians 0.990 (0.970 to 1.010), geometric"
        in sentences.index(whole, _context())
    )
    against = msgspec.structs.replace(whole, reason=f"{WITHOUT_DIRECTION}: x")
    assert "(0.970 to 1.010), so no direction is stated, geometric" in sentences.index(against, _context())
    for index, expected in ((whole, Standing.LESS), (against, Standing.OPEN)):
        mean = mean_of([row for row in SUITE if row.metric.name == "wall"], index)
        assert mean is not None and mean.standing(0.02) is expected


@pytest.mark.parametrize(
    ("ratio", "clause"),
    [
        (0.088, "; musl has 8.8 % of the program size"),
        (3.0, "; musl has 3 times the program size"),
        (0.9, ""),
    ],
)
def test_a_large_difference_in_size_is_stated_where_times_have_no_verdict(ratio: float, clause: str) -> None:
    times = [_row(name, 1.5, half=None) for name in ("a", "b")]
    sizes = [_row(name, ratio, half=0.0001, metric=synthetic.FILE) for name in ("a", "b")]
    few = "Too few runs to compare musl with glibc on 2 workloads of libc: 2 pairs of runs, in which it took 1.5 times as long"
    assert _said([*times, *sizes], _index(times, half=None)) == f"{few}{clause}."
