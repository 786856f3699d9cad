# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts on claims: each claim can hold and fail, and too little evidence decides nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from tests.json_schema import check_printed
from tests.unit import builders
from tests.unit.report.test_published_differences import MAX, libc, record
from tests.unit.report.test_throughput import comparison

from swapstone.core.model import (
    WITHOUT_DIRECTION,
    Comparison,
    Direction,
    FactorLevels,
    Index,
    Metric,
    Quantity,
    Verdict,
)
from swapstone.core.report.render.terminal import render
from swapstone.parts.published.data import PageClaim, page_claims, sources
from swapstone.parts.published.report.claim_verdicts import (
    ClaimVerdict,
    JudgedClaim,
    answer,
    document_of,
    judge,
    to_json,
)
from swapstone.parts.published.report.measured import Analysed

MALLOC = ("sparse", "bubble", "tiny1", "tiny2", "big1", "big2", "thread_stress", "thread_local")
LOADS = ("idle", "cpu", "memory", "io", "network")


def claim(name: str) -> PageClaim:
    return next(each for each in page_claims() if each.name == name)


def judged(name: str, *records: Analysed) -> JudgedClaim:
    (found,) = judge([claim(name)], records)
    return found


def malloc(
    ratio: float, verdict: Verdict, works: tuple[str, ...] = MALLOC, name: str = "r", **changes: object
) -> Analysed:
    return record(*(libc(f"b_malloc_{work}", ratio, verdict, **changes) for work in works), name=name)


def test_a_claim_holds_and_fails_by_intervals() -> None:
    name = "musl-malloc-slower"
    assert judged(name, malloc(1.5, Verdict.WORSE)).verdict is ClaimVerdict.HOLDS
    assert judged(name, malloc(0.5, Verdict.BETTER)).verdict is ClaimVerdict.FAILS
    assert judged(name, malloc(1.005, Verdict.INCONCLUSIVE)).verdict is ClaimVerdict.UNDECIDED
    assert judged(name, malloc(1.5, Verdict.WORSE, low=None, high=None)).verdict is ClaimVerdict.UNDECIDED
    assert judged(name, malloc(1.5, Verdict.INVALID)).verdict is ClaimVerdict.ABSENT
    assert judged(name, record()).verdict is ClaimVerdict.ABSENT
    assert judged(name).verdict is None


def test_all_tests_of_a_claim_must_hold() -> None:
    name = "musl-malloc-slower"
    assert judged(name, malloc(1.5, Verdict.WORSE, MALLOC[:7])).verdict is ClaimVerdict.UNDECIDED
    one = [
        libc("b_malloc_sparse", 0.9, Verdict.BETTER),
        *(libc(f"b_malloc_{work}", 1.5, Verdict.WORSE) for work in MALLOC[1:]),
    ]
    found = judged(name, record(*one))
    assert found.verdict is ClaimVerdict.FAILS
    assert [each.verdict for each in found.evidence].count(ClaimVerdict.FAILS) == 1


def test_records_that_contradict_each_other_decide_nothing() -> None:
    found = judged("musl-malloc-slower", malloc(1.5, Verdict.WORSE), malloc(0.5, Verdict.BETTER, name="other"))
    assert found.verdict is ClaimVerdict.UNDECIDED
    assert {each.record for each in found.evidence} == {"r", "other"}


def _maxima(rt: float, loads: tuple[str, ...] = LOADS) -> Analysed:
    rows = [
        comparison(
            "cyclictest",
            (900_000.0, 800_000.0),
            (rt, rt / 2),
            suite="latency",
            load=load,
            metric=MAX,
            effect=rt / 900_000.0,
            low=rt / 1_000_000.0,
            high=rt / 800_000.0,
        )
        for load in loads
    ]
    return record(*rows, factor="kernel")


def test_one_long_wake_up_contradicts_a_bound() -> None:
    assert judged("rt-bounded", _maxima(99_000.0)).verdict is ClaimVerdict.HOLDS
    found = judged("rt-bounded", _maxima(150_000.0))  # the other run has 75 us
    assert found.verdict is ClaimVerdict.FAILS
    assert "75 us to 150 us in 2 runs" in found.evidence[0].text.replace("µ", "u").replace(".0", "")
    assert judged("rt-bounded", _maxima(99_000.0, LOADS[:3])).verdict is ClaimVerdict.UNDECIDED
    assert judged("rt-better-under-loads", _maxima(99_000.0)).verdict is ClaimVerdict.HOLDS
    assert judged("rt-better-under-loads", _maxima(2_000_000.0)).verdict is ClaimVerdict.FAILS


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.001, ClaimVerdict.HOLDS), (2.0, ClaimVerdict.FAILS), (1.2, ClaimVerdict.UNDECIDED)],
)
def test_a_difference_is_in_the_metrics_unit(ratio: float, verdict: ClaimVerdict) -> None:
    """A call of 10 us: 0.1 % more is 10 ns, twice as much is 10 us, and 20 % more is 2 us with an interval around it."""
    row = comparison("syscall", (10_000.0,), (10_000.0 * ratio,), effect=ratio, low=ratio - 0.01, high=ratio + 0.01)
    assert judged("rt-syscall-2us", record(row, factor="kernel")).verdict is verdict


def _server(metric: str, unit: str, values: dict[str, tuple[float, ...]]) -> Comparison:
    kind = Metric(name=metric, unit=unit, quantity=Quantity.TIME, better=Direction.LOWER, meaning="m")
    own, other = values["default"], values["mimalloc"]
    return comparison(
        "http(c=10,t=1)",
        own,
        other,
        suite="server",
        metric=kind,
        baseline="libc=musl,allocator=default",
        candidate="libc=musl,allocator=mimalloc",
        effect=1.0,
    )


@pytest.mark.parametrize(
    ("system", "verdict"),
    [
        ((60.0, 70.0), ClaimVerdict.HOLDS),
        ((10.0, 20.0), ClaimVerdict.FAILS),
        ((40.0, 60.0), ClaimVerdict.UNDECIDED),
        ((40.0,), ClaimVerdict.ABSENT),  # it can't be paired with the whole
    ],
)
def test_a_share_is_of_each_run(system: tuple[float, ...], verdict: ClaimVerdict) -> None:
    rows = [
        _server("system_per_request", "ns", {"default": system, "mimalloc": system}),
        _server("cpu_per_request", "ns", {"default": (100.0, 100.0), "mimalloc": (100.0, 100.0)}),
    ]
    subject = builders.experiment(
        factors=(
            FactorLevels(factor="libc", levels=("musl",)),
            FactorLevels(factor="allocator", levels=("default", "mimalloc")),
        )
    )
    made = msgspec.structs.replace(record(*rows), experiment=subject)
    assert judged("mimalloc-network", made).verdict is verdict


def test_an_index_is_found_in_both_directions() -> None:
    variants = tuple(map(builders.variant, ("libc=glibc", "libc=musl")))

    def verdict(effect: float, *, turned: bool, **medians: Any) -> ClaimVerdict | None:
        base, other = reversed(variants) if turned else variants
        index = Index(
            suite="unix",
            load="idle",
            metric="wall",
            baseline=base,
            candidate=other,
            workloads=12,
            blocks=8,
            effect=effect,
            low=effect * 0.99,
            high=effect * 1.01,
            confidence=0.95,
            **medians,
        )
        made = record()
        made = msgspec.structs.replace(made, analysis=msgspec.structs.replace(made.analysis, indices=(index,)))
        (found,) = judge([claim("musl-unixbench")], [made])
        return found.verdict

    assert verdict(0.8, turned=False) is ClaimVerdict.HOLDS
    assert verdict(1.25, turned=False) is ClaimVerdict.FAILS
    assert verdict(1.25, turned=True) is ClaimVerdict.HOLDS
    assert verdict(0.8, turned=True) is ClaimVerdict.FAILS
    against = {"reason": WITHOUT_DIRECTION, "median_low": 0.98, "median_high": 1.03}
    assert verdict(0.8, turned=False, **against) is verdict(1.25, turned=True, **against) is ClaimVerdict.UNDECIDED


def test_the_shipped_claims_are_whole() -> None:
    names = [each.name for each in page_claims()]
    assert len(set(names)) == len(names) == 23 and all(names)
    assert {each.source for each in page_claims()} == set(sources())
    for each in page_claims():
        assert each.words and bool(each.untested) != bool(each.tests and each.command)
        for test in each.tests:
            assert test.least <= test.most and math.isfinite(max(test.least, -test.most)), each.name
            assert bool(test.over) == (test.what in {"ratio", "difference", "index", "seconds"})
            assert bool(test.part_of) == (test.what == "share")
            assert bool(test.profile and all(test.functions) and test.functions) == (test.what == "stacks")
            assert test.profile in {"", "on-cpu", "off-cpu"}


def test_the_output_has_the_evidence_and_the_command() -> None:
    records = [malloc(1.5, Verdict.WORSE, name="\x1b[31mred")]
    found = judge(page_claims(), records)
    names = tuple(each.name for each in records)
    text = " ".join(render(document_of(found, names)).split())
    assert "1 holds" in answer(found, names)
    assert "b_malloc_sparse, wall, musl / glibc: 1.500 (1.485 to 1.515): holds." in text
    assert "swapstone study lwip-vs-smoltcp" in text
    assert "\x1b" not in text
    assert check_printed(to_json(found, names)) == "swapstone-published-claims"
    whole = json.loads(to_json(found, names))
    assert {each["verdict"] for each in whole["claims"]} == {"holds", "not in the records", "not tested here"}
    assert "\x1b" not in to_json(found, names)
    empty = judge(page_claims(), [])
    assert answer(empty, ()).startswith(
        f"Records can test {sum(each.verdict is None for each in empty)} of {len(empty)} claims"
    )
    assert whole["left_out"] is None
    assert "test no claim" not in text
    left_out = "Not compared: size\x1b."
    assert "Records that test no claim Not compared: size" in " ".join(
        render(document_of(found, names, left_out)).split()
    )
    assert json.loads(to_json(found, names, left_out))["left_out"].startswith("Not compared: size")
    assert not any(
        "\x1b" in made for made in (to_json(found, names, left_out), render(document_of(found, names, left_out)))
    )
