# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published ratios beside those of records: signs, sizes and reasons, from numbers that were worked out by hand."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.json_schema import check_printed
from tests.unit import builders
from tests.unit.builders import analysis
from tests.unit.report.test_throughput import comparison

from swapstone.core.model import Comparison, Direction, FactorLevels, Metric, Quantity, Verdict
from swapstone.core.report.render.terminal import render
from swapstone.parts.published.report.measured import Analysed
from swapstone.parts.published.report.published_differences import (
    Differences,
    differences,
    document_of,
    ratios,
    reason_of,
    shipped_reasons,
    to_json,
)

MAX = Metric(name="max", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="longest")


def libc(work: str, ratio: float, verdict: Verdict, **changes: object) -> Comparison:
    """Return a comparison of musl with glibc whose median ratio is `ratio`."""
    fields: dict[str, object] = {
        "suite": "libc",
        "baseline": "libc=glibc",
        "candidate": "libc=musl",
        "effect": ratio,
        "low": ratio * 0.99,
        "high": ratio * 1.01,
        "verdict": verdict,
        **changes,
    }
    return comparison(work, (100.0, 100.0), (100.0 * ratio, 100.0 * ratio), **fields)


def record(*comparisons: Comparison, name: str = "r", factor: str = "libc") -> Analysed:
    levels = {"libc": ("glibc", "musl"), "kernel": ("generic", "rt")}[factor]
    subject = builders.experiment(factors=(FactorLevels(factor=factor, levels=levels),))
    return Analysed(name=name, experiment=subject, analysis=analysis(*comparisons))


def kinds(found: Differences) -> dict[tuple[str, str], str]:
    return {(each.place.workload, each.place.metric): each.kind for each in found.rows}


def test_signs_and_sizes_are_compared() -> None:
    """The page: b_malloc_sparse 1.169, b_string_memset 0.768, b_malloc_big1 2.828, b_pthread_createjoin_serial2 0.855."""
    found = differences(
        [
            record(
                libc("b_malloc_sparse", 1.3, Verdict.WORSE),
                libc("b_string_memset", 1.3, Verdict.WORSE),
                libc("b_malloc_big1", 1.2, Verdict.WORSE),
                libc("b_pthread_createjoin_serial2", 1.1, Verdict.INCONCLUSIVE),
            )
        ]
    )
    assert kinds(found) == {
        ("b_malloc_sparse", "wall"): "",
        ("b_string_memset", "wall"): "other sign",
        ("b_malloc_big1", "wall"): "other size",
        ("b_pthread_createjoin_serial2", "wall"): "",
    }
    assert [each.place.workload for each in found.different] == ["b_string_memset", "b_malloc_big1"]
    assert "1 differs in sign and 1 by more than a factor of 1.5" in found.answer
    assert "2 of these have no reason" in found.answer
    assert found.absent == len(list(ratios())) - 4


def test_a_reversed_comparison_is_turned() -> None:
    """With musl as the baseline, the same runs have the inverse effect, and the sides are turned to the page's."""
    turned = libc("b_malloc_sparse", 1 / 1.3, Verdict.BETTER, baseline="libc=musl", candidate="libc=glibc")
    (row,) = differences([record(turned)]).rows
    assert row.here.value == pytest.approx(1.3)
    assert row.here.interval == pytest.approx((1.3 / 1.01, 1.3 / 0.99))
    assert row.here.ratio.sign == 1 and row.kind == ""


def test_an_invalid_row_is_no_number() -> None:
    assert differences([record(libc("b_malloc_sparse", 9.0, Verdict.INVALID))]).rows == ()


def test_other_levels_and_loads_are_not_the_pages() -> None:
    found = differences(
        [
            record(
                libc("b_malloc_sparse", 9.0, Verdict.WORSE, load="cpu"),
                libc("b_malloc_bubble", 9.0, Verdict.WORSE, candidate="libc=musl,allocator=mimalloc"),
                libc("b_malloc_tiny1", 9.0, Verdict.WORSE, suite="libc-extra"),
            )
        ]
    )
    assert found.rows == ()
    assert found.answer.startswith("The records have none of the")


@pytest.mark.slow
def test_statically_linked_programs_are_not_the_pages_and_are_named() -> None:
    work = libc("b_malloc_sparse", 9.0, Verdict.WORSE)
    dynamic = record(work, name="libc")
    subject = msgspec.structs.replace(dynamic.experiment, held=(("linking", "static"),))
    static = msgspec.structs.replace(dynamic, name="size\x1b", experiment=subject)
    found = differences((dynamic, static))
    assert (found.records, {each.here.record for each in found.rows}) == (("libc",), {"libc"})
    printed = " ".join(render(document_of(found)).split())
    assert "linked statically and the pages' dynamically: size" in printed
    assert "\x1b" not in printed
    assert "size" in json.loads(to_json(found))["left_out"]
    assert differences((dynamic,)).left_out == ""
    other = msgspec.structs.replace(static, experiment=msgspec.structs.replace(subject, held=(("optimization", "O0"),)))
    assert differences((other,)).left_out == ""


def test_a_ratio_across_loads_is_the_quotient_of_medians() -> None:
    """Table 8: loaded over idle. Here the rt maximum is 10 us idle and 30 us under memory load: 3, against 19.2, 1.2 and 2.2."""
    rows = [
        comparison(
            "cyclictest", (900.0, 900.0), (value, value), suite="latency", load=load, metric=MAX, effect=value / 900.0
        )
        for load, value in (("idle", 10.0), ("memory", 30.0))
    ]
    found = differences([record(*rows, factor="kernel")])
    loaded = {each.figure.platform: each for each in found.rows if each.figure.level == "rt"}
    assert {platform: (each.page, each.kind) for platform, each in loaded.items()} == {
        "Phytium D2000 (8 cores)": (19.2, "other size"),
        "Raspberry Pi 4B": (1.2, "other size"),
        "Phytium 2000/4 (4 cores)": (2.2, ""),
    }
    assert all(each.here.value == 3.0 and each.here.interval == (None, None) for each in loaded.values())


def test_rates_of_the_page_are_turned_beside_times() -> None:
    """Exec keeps 78.22 % of its throughput, so that its time is 1.278 times as long."""
    row = comparison("exec", (100.0, 100.0), (128.0, 128.0), effect=1.28, low=1.27, high=1.29)
    (found,) = differences([record(row, factor="kernel")]).rows
    assert found.page == pytest.approx(2700.1 / 2112.1)
    assert found.kind == ""


def test_a_reason_may_be_of_one_load_and_one_platform_of_the_page() -> None:
    reasons = [
        {"study": "preempt-rt", "load": "cyclictest", "reason": "Of the load."},
        {"study": "preempt-rt", "platform": "Raspberry*", "reason": "Of another board."},
    ]
    loaded = {"load": "cyclictest"}
    rows = [
        comparison("exec", (100.0, 100.0), (900.0, 900.0), effect=9.0, low=8.9, high=9.1),
        comparison("exec", (100.0, 100.0), (900.0, 900.0), effect=9.0, low=8.9, high=9.1, **loaded),
    ]
    found = differences([record(*rows, factor="kernel")], reasons).rows
    assert {(each.place.side.load, each.kind, each.reason) for each in found} == {
        ("idle", "other size", ""),
        ("cyclictest", "other size", "Of the load."),
    }


def test_a_reason_may_be_of_one_clock_and_one_architecture() -> None:
    reasons = [
        {"study": "musl-vs-glibc", "clock": "virtual", "reason": "Instructions are counted."},
        {"study": "musl-vs-glibc", "architecture": "x86*", "reason": "Longer vectors."},
    ]
    here = record(libc("b_string_memset", 1.3, Verdict.WORSE))
    for clock, architecture, reason in (
        ("virtual", "x86_64", "Instructions are counted."),
        ("wall", "x86_64", "Longer vectors."),
        ("wall", "aarch64", ""),
        ("wall", "", ""),
    ):
        experiment = msgspec.structs.replace(here.experiment, clock=clock)
        other = msgspec.structs.replace(here, architecture=architecture, experiment=experiment)
        (row,) = differences([other], reasons).different
        assert row.reason == reason


REASONS = [
    {"study": "musl-vs-glibc", "workload": "b_malloc_*", "reason": "musl's malloc is another one."},
    {"study": "musl-vs-glibc", "reason": "Something else."},
]


def test_every_shipped_reason_is_of_a_published_ratio_and_no_two_are_the_same() -> None:
    shipped = shipped_reasons()
    assert all(text.strip() and text.isprintable() for each in shipped for text in each.values())
    rows = [(figure, place) for figure, place, _, _ in ratios()]
    machines = [
        msgspec.structs.replace(
            record(),
            architecture=name,
            experiment=builders.experiment(clock=clock, factors=record().experiment.factors),
        )
        for name, clock in (("x86_64", "wall"), ("arm64", "virtual"))
    ]
    for each in shipped:
        assert any(reason_of(figure, place, machine, [each]) for figure, place in rows for machine in machines), each
    patterns = [{**each, "reason": ""} for each in shipped]
    assert all(patterns.count(each) == 1 for each in patterns)


def test_the_first_matching_reason_is_printed() -> None:
    rows = [libc("b_malloc_big1", 1.2, Verdict.WORSE), libc("b_string_memset", 1.3, Verdict.WORSE)]
    found = differences([record(*rows)], REASONS)
    assert [each.reason for each in found.different] == ["Something else.", "musl's malloc is another one."]
    assert "0 of these have no reason" in found.answer
    text = render(document_of(found))
    assert "musl's malloc is another one." in " ".join(text.split())
    assert check_printed(to_json(found)) == "swapstone-published-differences"
    whole = json.loads(to_json(found))
    assert {each["reason"] for each in whole["rows"]} == {
        "Something else.",
        "musl's malloc is another one.",
    }


def test_each_reason_is_printed_whole_and_once() -> None:
    reasons = [{"study": "musl-vs-glibc", "workload": "b_malloc_*", "reason": "A long reason. " * 12 + "End."}]
    rows = [libc(f"b_malloc_{work}", 1.2, Verdict.WORSE) for work in ("big1", "big2")]
    made = record(*rows, libc("b_string_memset", 1.3, Verdict.WORSE))
    again = msgspec.structs.replace(made, name="again")
    found = differences([made, again], reasons)
    page = " ".join(render(document_of(found)).split())
    assert page.count("A long reason. " * 12 + "End.") == 1
    assert "b_malloc_big1 (wall) and b_malloc_big2 (wall): A long reason." in page
    assert page.index("End.") < page.index("b_string_memset (wall): No reason is given.")


def test_one_platform_is_no_column() -> None:
    found = differences([record(libc("b_string_memset", 1.3, Verdict.WORSE))])
    page = render(document_of(found))
    assert "The page measured on: Raspberry Pi 4B" in page and "measured by the page on" not in page
    both = [
        msgspec.structs.replace(each, figure=msgspec.structs.replace(each.figure, platform=name))
        for name in "ab"
        for each in found.rows
    ]
    several = msgspec.structs.replace(found, rows=tuple(both))
    page = render(document_of(several))
    assert "measured by the page on" in page and "The page measured on" not in page
