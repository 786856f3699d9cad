# SPDX-License-Identifier: MIT OR Apache-2.0
"""On the virtual clock a block is a replicate: there is no noise, and the messages use that word."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.model import EQUAL_EXTRA_RULES, TAIL_RULES, Analysis, CaveatKind, Copy, WorkloadPrecision
from swapstone.core.report.context import ReportContext
from swapstone.core.report.topics import sentences
from tests.unit.comparison.conftest import Bench

BUSY = (("wall_ns", 10**9), ("psi_cpu_us", 900_000), ("steal_ticks", 50), ("cpu_ticks", 100))


def analysed(bench: Bench, clock: str) -> Analysis:
    experiment = msgspec.structs.replace(bench.experiment, clock=clock)
    return analyse(experiment, plan.variants(experiment), bench.workloads, bench.runs)


@pytest.fixture
def busy() -> Bench:
    made = Bench(facts=BUSY)
    made.workload("a", "wall", "cpu")
    for block in range(1, 7):
        for variant in ("libc=glibc", "libc=musl"):
            made.run("a", variant, block, wall=100.0 + block, cpu=90.0)
    return made


def test_no_caveat_of_a_busy_host_and_elapsed_time_leads(busy: Bench) -> None:
    wall, virtual = analysed(busy, "wall"), analysed(busy, "virtual")
    noisy = {CaveatKind.BUSY_MACHINE, CaveatKind.STOLEN_TIME}
    assert noisy <= {caveat.kind for caveat in wall.caveats}
    assert not noisy & {caveat.kind for caveat in virtual.caveats}
    assert wall.noise.busy and not virtual.noise.busy
    assert virtual.noise.cpu_pressure_percent == wall.noise.cpu_pressure_percent == 90  # collected nevertheless
    lead = [{c.metric.name for c in each.comparisons if c.preferred} for each in (wall, virtual)]
    assert lead == [{"cpu"}, {"wall"}]


def test_the_message_counts_replicates() -> None:
    bench = Bench()
    bench.pairs("a", "wall", [100.0, 101, 99], [150.0, 149, 151])
    found = analysed(bench, "virtual")
    assert found.comparisons[0].reason.startswith("few replicates: an interval at 95 %")
    (caveat,) = [caveat for caveat in found.caveats if caveat.kind is CaveatKind.FEW_BLOCKS]
    assert "too few pairs of replicates for a confidence interval (the fewest: 3)" in caveat.message
    assert "few blocks" in analysed(bench, "wall").comparisons[0].reason


def test_a_row_of_equal_replicates_has_an_interval_without_width(busy: Bench) -> None:
    experiment = msgspec.structs.replace(busy.experiment, clock="virtual")
    exact = precision(experiment, plan.variants(experiment), busy.workloads, busy.runs)
    assert exact["s", "a", "idle"].half_width == 0.0  # cpu leads there, and never varies


def test_the_first_lines_count_replicates(busy: Bench) -> None:
    found = analysed(busy, "virtual")
    experiment = msgspec.structs.replace(busy.experiment, clock="virtual", target="vm")
    context = ReportContext(experiment=experiment, record_id="r", record_path="r")
    assert sentences.effort(context, found).startswith("12 runs in 6 replicates on vm.")
    sentence = sentences.machine(context, found)
    assert (
        sentence.startswith("Virtual clock: each figure is exact for its replicate.")
        and "over 6 replicates" in sentence
    )
    assert "pressure" not in sentence


def test_the_only_null_copy_is_the_relinked_one(busy: Bench) -> None:
    experiment = msgspec.structs.replace(busy.experiment, null=True)
    copies = [variant.copy for variant in plan.variants(experiment)]
    assert copies == [Copy.FIRST, Copy.AGAIN, Copy.RELINKED, Copy.FIRST]
    virtual = msgspec.structs.replace(experiment, clock="virtual")
    assert [variant.copy for variant in plan.variants(virtual)] == [Copy.FIRST, Copy.RELINKED, Copy.FIRST]


def of_whole_microseconds(resolution: float, rules: int = EQUAL_EXTRA_RULES) -> WorkloadPrecision:
    """Return the precision of maxima of 30 us against 5 to 9 us, whose interval is wider than the margin of 5 %."""
    bench = Bench(margin=0.05, clock="virtual", rules=rules)
    before = [30.0, 31, 30, 32, 30, 30, 31, 30, 30, 32, 30, 30, 31, 30]
    after = [7.0, 8, 7, 6, 7, 7, 8, 7, 6, 7, 7, 9, 6, 7]
    bench.pairs("a", "wall", [1000 * value for value in before], [1000 * value for value in after])
    (metric,) = bench.workloads["a"].metrics
    changed = msgspec.structs.replace(metric, resolution=resolution, leads=True)
    bench.workloads["a"] = msgspec.structs.replace(bench.workloads["a"], metrics=(changed,))
    return bench.precision()["s", "a", "idle"]


def test_an_interval_as_narrow_as_its_tool_can_print_is_narrow_enough() -> None:
    plain, fine, coarse = (of_whole_microseconds(resolution) for resolution in (0.0, 300.0, 1000.0))
    assert plain.half_width is not None and plain.half_width > 0.05 and not plain.at_resolution
    assert plain == fine  # 0.3 us is 4 % of 7 us: the interval is wider than that
    assert (coarse.half_width, coarse.at_resolution) == (0.05, True)
    assert of_whole_microseconds(1000.0, rules=TAIL_RULES - 1).half_width != 0.05
