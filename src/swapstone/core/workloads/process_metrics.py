# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics of a whole process, from the facts that the agent measures around it (docs/wire.md, section 2)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swapstone.core.model import Direction, Metric, Quantity, Sample
from swapstone.core.workloads import metrics

_NS_PER_US = 1000

_MEANINGS = {
    "wall": "elapsed time from the start of the program to its end",
    "cpu": "processor time, user and system, of the program, its threads and the children it waited for",
    "run_delay": "time in which the main thread was ready, but had no processor: a cost of the machine's load",
    "maxrss": "peak resident size of the program or of the largest child it waited for",
    "minflt": "minor page faults: without input or output",
    "majflt": "major page faults: with input from a disk",
    "nvcsw": "voluntary context switches: the program had to wait",
    "nivcsw": "involuntary context switches, by preemption: a cost of the machine's load",
}


def _of_process(metric: Metric) -> Metric:
    return msgspec.structs.replace(metric, meaning=_MEANINGS.get(metric.name, metric.meaning), leads=False)


def _share_of_cpu(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=meaning)


EXIT_STATUS = Metric(
    name="exit_status",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.NEITHER,
    meaning="the program's exit status, where other than 0 is accepted",
)

_FROM_FACTS: tuple[tuple[Metric, tuple[str, ...], int], ...] = (
    (_of_process(metrics.WALL), ("wall_ns",), 1),
    (_of_process(metrics.CPU), ("user_us", "system_us"), _NS_PER_US),
    (_share_of_cpu("user", "of cpu, in the program"), ("user_us",), _NS_PER_US),
    (_share_of_cpu("system", "of cpu, in the kernel"), ("system_us",), _NS_PER_US),
    *((_of_process(entry.metric), (entry.fact,), entry.scale) for entry in metrics.FROM_AGENT),
    (_of_process(metrics.MINFLT), ("minflt",), 1),
    (_of_process(metrics.MAJFLT), ("majflt",), 1),
    (_of_process(metrics.NVCSW), ("nvcsw",), 1),
    (_of_process(metrics.NIVCSW), ("nivcsw",), 1),
    (_of_process(metrics.RUN_DELAY), ("run_delay_ns",), 1),
)
"""Each metric with the facts whose sum it is, and the factor from their unit to the metric's."""

PROCESS_METRICS: tuple[Metric, ...] = tuple(metric for metric, _, _ in _FROM_FACTS)


def process_samples(facts: Mapping[str, int]) -> tuple[Sample, ...]:
    """Return one value for each of `PROCESS_METRICS`; a metric is left out if one of its facts is missing.

    Args:
        facts: the agent's facts by name.
    """
    return tuple(
        Sample(metric=metric.name, values=(float(scale * sum(facts[name] for name in names)),))
        for metric, names, scale in _FROM_FACTS
        if all(name in facts for name in names)
    )
