# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a load generator's output and the agent's counts to a server's samples."""

from __future__ import annotations

import pytest

from swapstone.core.model import Direction, LoadGenerator, Sample, WireError
from swapstone.core.workloads.server_metrics import READY, check_whole, server_metrics, server_samples

GENERATOR = LoadGenerator(command=("x", "{port}"), reader=r"regex:(?P<requests>\d+)/(?P<seconds>\d+) (?P<p99_us>\d+)")
FACTS = {
    "driven_ns": 2_100_000_000,
    "server_cpu_ns": 500_000_000,
    "ready_ns": 2_500_000,
    "server_user_us": 100_000,
    "server_system_us": 400_000,
    "server_minflt": 64_000,
    "server_majflt": 0,
    "server_nvcsw": 5_500,
    "server_nivcsw": 10,
    "server_unseen_switches": 3,
    "server_rss_bytes": 4096,
    "server_peak_bytes": 8192,
    "tree_memory_bytes": 16384,
    "driver_user_us": 300,
    "driver_system_us": 700,
}


def values(
    facts: dict[str, int], output: bytes = b"1000/2 90", generator: LoadGenerator = GENERATOR
) -> dict[str, float]:
    return {
        sample.metric: sample.values[0]
        for sample in server_samples(generator, (*server_metrics(generator), READY), facts, output)
    }


def test_each_metric_has_its_value() -> None:
    assert values(FACTS) == {
        "requests": 500.0,
        "cpu_per_request": 500_000.0,
        "latency_p99": 90_000.0,
        "user_per_request": 100_000.0,
        "system_per_request": 400_000.0,
        "requests_per_cpu_s": 2000.0,
        "peak": 8192.0,
        "resident": 4096.0,
        "tree_memory": 16384.0,
        "minflt_per_request": 64.0,
        "majflt_per_request": 0.0,
        "nvcsw_per_request": 5.5,
        "ready": 2_500_000.0,
        "nivcsw_per_request": 0.01,
        "driver_cpu_per_request": 1000.0,
    }


def test_samples_are_those_of_the_metrics_in_their_order() -> None:
    assert list(values(FACTS)) == [metric.name for metric in (*server_metrics(GENERATOR), READY)]
    assert READY not in server_metrics(GENERATOR), "records of before have no such row"


def test_each_metric_has_its_direction() -> None:
    better = {metric.name: metric.better for metric in server_metrics(GENERATOR)}
    higher = {name for name, direction in better.items() if direction is Direction.HIGHER}
    neither = {name for name, direction in better.items() if direction is Direction.NEITHER}
    assert higher == {"requests", "requests_per_cpu_s"}
    assert neither == {"nivcsw_per_request", "driver_cpu_per_request"}


def test_at_a_constant_rate_the_cost_per_request_leads() -> None:
    paced = LoadGenerator(command=("swapstone-pace",), reader="swapstone-pace")
    assert [metric.name for metric in server_metrics(GENERATOR) if metric.leads] == ["requests"]
    assert [metric.name for metric in server_metrics(paced) if metric.leads] == ["cpu_per_request"]


def test_metrics_of_missing_facts_are_omitted() -> None:
    assert set(values({})) == {"requests", "latency_p99"}


def test_too_many_unseen_switches_omit_the_switch_metrics() -> None:
    seen = FACTS["server_nvcsw"] + FACTS["server_nivcsw"]
    bound = int(0.05 * seen + 100)
    assert "nvcsw_per_request" in values({**FACTS, "server_unseen_switches": bound})
    found = values({**FACTS, "server_unseen_switches": bound + 1})
    assert {"nvcsw_per_request", "nivcsw_per_request"}.isdisjoint(found)
    assert "minflt_per_request" in found


def test_requests_are_computed_from_a_rate_and_the_time_under_load() -> None:
    rate = LoadGenerator(command=("x",), reader=r"regex:(?P<per_second>\d+)")
    assert values(FACTS, b"100", rate)["cpu_per_request"] == pytest.approx(500_000_000 / 210)


def test_samples_without_requests_are_an_error() -> None:
    check_whole((Sample(metric="requests", values=(1.0,)),))
    with pytest.raises(WireError, match="Neither requests nor"):
        check_whole((Sample(metric="peak", values=(1.0,)),))
