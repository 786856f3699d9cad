# SPDX-License-Identifier: MIT OR Apache-2.0
"""From the report of a workload with the harness to samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapstone.core.model import Metric, Sample
from swapstone.core.wire import WorkloadReport
from swapstone.core.workloads import metrics

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
    found: list[tuple[Metric, Sequence[float]]] = [
        (metrics.WALL, [one.wall_ns / report.ops for one in passes]),
        (metrics.CPU, [one.cpu_ns / report.ops for one in passes]),
    ]
    delays = [one.run_delay_ns for one in passes if one.run_delay_ns is not None]
    if len(delays) == len(passes):
        found.append((metrics.RUN_DELAY, delays))
    if report.memory is not None:
        found += [
            (metrics.VIRT, [report.memory.virt_bytes]),
            (metrics.RES, [report.memory.res_bytes]),
            (metrics.DIRTY, [report.memory.dirty_bytes]),
        ]
    found += [
        (entry.metric, [answer_facts[entry.fact] * entry.scale])
        for entry in metrics.FROM_AGENT
        if entry.fact in answer_facts
    ]
    found += [
        (metrics.MINFLT, [one.minflt for one in passes]),
        (metrics.MAJFLT, [one.majflt for one in passes]),
        (metrics.NVCSW, [one.nvcsw for one in passes]),
        (metrics.NIVCSW, [one.nivcsw for one in passes]),
    ]
    if operation_bytes:
        moved = operation_bytes * report.ops * _BYTES_PER_NS_IN_MB_PER_S
        found.append((metrics.BANDWIDTH, [moved / one.wall_ns for one in passes]))
    return tuple(Sample(metric=metric.name, values=tuple(map(float, values))) for metric, values in found)
