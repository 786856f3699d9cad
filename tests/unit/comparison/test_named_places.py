# SPDX-License-Identifier: MIT OR Apache-2.0
"""What caveats name, and which rows count for them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison import carry_over, outputs
from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.layout_spread import spread_of, spreads
from swapstone.core.comparison.rows import run_rows
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    ALL_PROCESSORS,
    BALANCED_ORDER,
    CURRENT_RULES,
    TAIL_RULES,
    UNKNOWN_THREADS,
    CaveatKind,
    CommandLine,
    FactorLevels,
    Sample,
    Status,
    layout_of,
)
from swapstone.core.plan import variants
from swapstone.core.workloads import own_workload
from tests.unit import builders
from tests.unit.comparison.conftest import Bench, caveats
from tests.unit.comparison.test_limits import row
from tests.unit.comparison.test_outputs import experiment, side
from tests.unit.comparison.test_run_limits import compared, noise


def test_a_workload_whose_outputs_vary_is_named_once_for_each_output() -> None:
    words = ("a", "b", "c")
    subject = msgspec.structs.replace(
        experiment(artifacts=("out",), commands=tuple(CommandLine(name=name, words=(f"/{name}",)) for name in words)),
        factors=(FactorLevels(factor="command", levels=words),),
    )
    lines = [f"{'x' * (1 + block)}\n".encode() for block in range(4)]
    runs = [run for name in words for run in side(f"command={name}", lines, 1e6, [each * ord(name) for each in lines])]
    workload = own_workload(subject)
    found = outputs.check(subject, variants(subject), {workload.name: workload}, as_table(runs))
    assert [each.message.partition(":")[0] for each in found.caveats] == [
        "Whether the variants do the same work is not known for p"
    ] * len(found.caveats)
    assert ["the file 'out'" in each.message for each in found.caveats] == [True]
    assert found.excluded == {}


@pytest.mark.parametrize(("status", "what"), [(Status.FAILED, "failed"), (Status.REFUSED, "were refused")])
def test_workloads_without_numbers_are_named_in_order(status: Status, what: str) -> None:
    bench = Bench()
    for name in ("b", "a", "c"):
        bench.workload(name, "wall")
        bench.run(name, "libc=glibc", 1, Status.OK if name == "c" else status, wall=1.0)
    bench.run("b", "libc=musl", 2, status)
    kind = CaveatKind.FAILED_TRIALS if status is Status.FAILED else CaveatKind.REFUSED_TRIALS
    (found,) = caveats(kind, bench.experiment, runs=bench.runs)
    assert found.message.startswith(f"3 of 4 trials {what} (a, b). ")


@pytest.mark.parametrize(
    ("threads", "rules", "named"),
    [
        ((1, 2), CURRENT_RULES, True),  # one of them suffices
        ((UNKNOWN_THREADS, ALL_PROCESSORS), CURRENT_RULES, True),
        ((2, ALL_PROCESSORS), CURRENT_RULES, False),
        ((2, 2), TAIL_RULES - 1, True),
        ((), CURRENT_RULES, False),
    ],
)
def test_pressure_is_named_for_work_with_one_thread(threads: tuple[int, ...], rules: int, *, named: bool) -> None:
    rows = []
    for number in threads:
        one = row([1.0], [1.0])
        rows.append(row([1.0], [1.0], workload=msgspec.structs.replace(one.workload, threads=number)))
    busy = noise(busy=True, cpu_pressure_percent=12.3)
    subject, others = builders.experiment(rules=rules), [compared(1)] * len(rows)
    assert len(caveats(CaveatKind.BUSY_MACHINE, subject, rows, others, noise=busy)) == named
    assert caveats(CaveatKind.BUSY_MACHINE, subject, rows, others, noise=noise(cpu_pressure_percent=12.3)) == []


def test_in_balanced_orders_the_cycle_is_the_unit_of_the_means() -> None:
    bench = Bench(rules=CURRENT_RULES)
    bench.pairs("w", "wall", [1.0, 3.0, 5.0, 9.0], [2.0, 4.0, 6.0, 12.0])
    subject = msgspec.structs.replace(bench.experiment, order=BALANCED_ORDER)
    (found,) = run_rows(subject, variants(subject), bench.workloads, collect(as_table(bench.runs)))
    means: Any = found.means
    assert [each.tolist() for each in means] == [[2.0, 7.0], [3.0, 9.0]]
    assert found.blocks.size and found.runs is not None and np.sort(found.runs[0]).tolist() == [1.0, 3.0, 5.0, 9.0]
    alone = msgspec.structs.replace(bench.experiment, order=bench.experiment.order)
    (found,) = run_rows(alone, variants(alone), bench.workloads, collect(as_table(bench.runs)))
    means = found.means
    assert [each.tolist() for each in means] == [[1.0, 3.0, 5.0, 9.0], [2.0, 4.0, 6.0, 12.0]]


@pytest.mark.parametrize(
    ("p_value", "matters", "found"),
    [(0.01, False, False), (0.025, False, False), (0.0251, False, None), (0.0251, True, True), (0.001, True, True)],
)
def test_carry_over_that_is_likely_is_unsettled(p_value: float, matters: bool, found: bool | None) -> None:
    evidence = [carry_over.Evidence(each, 0.5, 0.0, (1.0, 2.0, 3.0, 4.0)) for each in (1.0, p_value)]
    values = np.linspace(1.0, 2.0, 20)
    judged = [carry_over.Tested(row(values, 1.5 * values), 1, evidence[0], tuple(evidence), matters=matters)]
    unsettled = carry_over.unsettled_rows(builders.experiment(), judged, 2, 0.05)
    assert {group: each[1] for group, each in unsettled.items()} == (
        {} if found is None else {("s", "w", "idle"): found}
    )


def test_ratios_of_layouts_are_in_the_order_of_blocks() -> None:
    """What is drawn at random for a test of the spread depends on it."""

    bench = Bench(layouts=2)
    bench.workload("w", "wall")
    blocks = (33, 5, 70, 40, 9, 12, 15, 20, 22, 27, 30, 31)  # a set of these numbers begins with 33, too
    ratios = dict(zip(blocks, np.random.default_rng(1).uniform(1.0, 2.0, len(blocks)).tolist(), strict=True))
    for block, (before, after) in {**{each: (1.0, ratio) for each, ratio in ratios.items()}, 4: (0.0, 1.0)}.items():
        bench.run("w", "libc=glibc", block, wall=before)
        bench.run("w", "libc=musl", block, wall=after)
    cells = collect(as_table(bench.runs))
    (found,) = spreads(bench.experiment, variants(bench.experiment), bench.workloads, cells, frozenset())
    logarithms = np.log([ratios[block] for block in sorted(ratios)])
    turns = np.array([layout_of(block, 2) for block in sorted(ratios)])
    assert found.blocks == len(blocks), "a value of another block is not above 0"
    assert (found.expected, found.p_value, found.deviation) == spread_of(logarithms, turns)


def test_a_run_is_known_by_its_status_its_histogram_and_its_series() -> None:
    (plain, *_) = builders.runs(builders.experiment(), 0)
    series = (Sample(metric="wall", values=(1.0,)),)
    change = msgspec.structs.replace
    status = (Sample(metric="exit_status", values=(3.0,)),)
    made = [
        plain,
        change(plain, histogram=((1, 1),)),
        change(plain, series=series),
        change(plain, histogram=((1, 1),), series=series, samples=status),
    ]
    table = as_table(made)
    assert table.extras.tolist() == [0, 1, 2, 3]
    assert [table.outputs[number][1] for number in table.output.tolist()] == [0.0, 0.0, 0.0, 3.0]
