# SPDX-License-Identifier: MIT OR Apache-2.0
"""From the report of a workload with the harness to samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapstone.model import Metric, Sample
from swapstone.wire import WorkloadReport
from swapstone.workloads import metrics

_BYTES_PER_NS_IN_MB_PER_S = 1000.0


def samples_of(report: WorkloadReport, answer_facts: Mapping[str, int], operation_bytes: int = 0) -> tuple[Sample, ...]:
    """Return the samples of one run.

    Wall and CPU time are divided by the operations of a pass. Run delay, faults and context switches count a whole
    pass. Memory and peak resident size are one value each.

    Args:
        report: decoded, without an error, with at least one pass.
        answer_facts: the agent's facts by name; those of no metric are ignored.
        operation_bytes: bytes that one operation moves; 0 if it has no bandwidth.

    Returns:
        One sample per metric, in the order of `metrics.COMPUTING`, then the bandwidth. A metric that was not measured is left out: memory
        without a `memory` line, the run delay if a pass has none, the peak without the agent's fact.
    """
    passes = report.passes
    samples = [
        _sample(metrics.WALL, [one.wall_ns / report.ops for one in passes]),
        _sample(metrics.CPU, [one.cpu_ns / report.ops for one in passes]),
    ]
    delays = [one.run_delay_ns for one in passes if one.run_delay_ns is not None]
    if len(delays) == len(passes):
        samples.append(_sample(metrics.RUN_DELAY, delays))
    if report.memory is not None:
        samples.append(_sample(metrics.VIRT, [report.memory.virt_bytes]))
        samples.append(_sample(metrics.RES, [report.memory.res_bytes]))
        samples.append(_sample(metrics.DIRTY, [report.memory.dirty_bytes]))
    samples.extend(
        _sample(entry.metric, [answer_facts[entry.fact] * entry.scale])
        for entry in metrics.FROM_AGENT
        if entry.fact in answer_facts
    )
    samples.append(_sample(metrics.MINFLT, [one.minflt for one in passes]))
    samples.append(_sample(metrics.MAJFLT, [one.majflt for one in passes]))
    samples.append(_sample(metrics.NVCSW, [one.nvcsw for one in passes]))
    samples.append(_sample(metrics.NIVCSW, [one.nivcsw for one in passes]))
    if operation_bytes:
        moved = operation_bytes * report.ops * _BYTES_PER_NS_IN_MB_PER_S
        samples.append(_sample(metrics.BANDWIDTH, [moved / one.wall_ns for one in passes]))
    return tuple(samples)


def _sample(metric: Metric, values: Sequence[float]) -> Sample:
    return Sample(metric=metric.name, values=tuple(float(value) for value in values))
