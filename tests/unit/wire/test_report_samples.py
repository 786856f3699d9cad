# SPDX-License-Identifier: MIT OR Apache-2.0
from collections.abc import Mapping

from msgspec.structs import replace

from swapstone.core.wire import Memory, Pass, WorkloadReport
from swapstone.core.wire.output_reading import samples_of
from swapstone.core.workloads.metrics import COMPUTING, WAITING

REPORT = WorkloadReport(
    ops=4,
    passes=(
        Pass(wall_ns=1000, cpu_ns=902, run_delay_ns=7, minflt=5, majflt=1, nvcsw=2, nivcsw=3),
        Pass(wall_ns=2000, cpu_ns=1800, run_delay_ns=0, minflt=6, majflt=0, nvcsw=4, nivcsw=9),
    ),
    memory=Memory(virt_bytes=40960, res_bytes=8192, dirty_bytes=4096),
)


def values(report: WorkloadReport, facts: Mapping[str, int]) -> dict[str, tuple[float, ...]]:
    return {sample.metric: sample.values for sample in samples_of(report, facts)}


def test_only_times_are_divided_by_the_operations() -> None:
    assert values(REPORT, {"maxrss_bytes": 1048576, "wall_ns": 99, "steal_ticks": 3}) == {
        "wall": (250.0, 500.0),
        "cpu": (225.5, 450.0),
        "run_delay": (7.0, 0.0),
        "virt": (40960.0,),
        "res": (8192.0,),
        "dirty": (4096.0,),
        "maxrss": (1048576.0,),
        "minflt": (5.0, 6.0),
        "majflt": (1.0, 0.0),
        "nvcsw": (2.0, 4.0),
        "nivcsw": (3.0, 9.0),
    }


def test_samples_come_in_the_order_of_the_declared_metrics() -> None:
    samples = [sample.metric for sample in samples_of(REPORT, {"maxrss_bytes": 1})]
    assert samples == [metric.name for metric in COMPUTING]
    assert samples == [metric.name for metric in WAITING]


def test_unmeasured_values_are_omitted() -> None:
    unknown_delay = replace(REPORT.passes[1], run_delay_ns=None)
    report = replace(REPORT, passes=(REPORT.passes[0], unknown_delay), memory=None)
    assert list(values(report, {})) == ["wall", "cpu", "minflt", "majflt", "nvcsw", "nivcsw"]


def test_a_bandwidth_is_the_bytes_of_a_pass_over_its_elapsed_time() -> None:
    (*others, bandwidth) = samples_of(REPORT, {}, operation_bytes=500)
    assert (bandwidth.metric, bandwidth.values) == ("bandwidth", (2000.0, 1000.0))  # 2000 bytes in 1000 and in 2000 ns
    assert tuple(others) == samples_of(REPORT, {})
