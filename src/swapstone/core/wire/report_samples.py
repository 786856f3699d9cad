# SPDX-License-Identifier: MIT OR Apache-2.0
"""From the report of a workload with the harness to samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swapstone.core.model import Sample
from swapstone.core.wire import WorkloadReport
from swapstone.core.workloads.metrics import BANDWIDTH, COMPUTING, FROM_AGENT

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
    values: dict[str, Sequence[float]] = {
        "wall": [one.wall_ns / report.ops for one in passes],
        "cpu": [one.cpu_ns / report.ops for one in passes],
        **{name: [getattr(one, name) for one in passes] for name in ("minflt", "majflt", "nvcsw", "nivcsw")},
        **{
            entry.metric.name: [answer_facts[entry.fact] * entry.scale]
            for entry in FROM_AGENT
            if entry.fact in answer_facts
        },
    }
    delays = [one.run_delay_ns for one in passes if one.run_delay_ns is not None]
    if len(delays) == len(passes):
        values["run_delay"] = delays
    if (memory := report.memory) is not None:
        values |= {"virt": [memory.virt_bytes], "res": [memory.res_bytes], "dirty": [memory.dirty_bytes]}
    if operation_bytes:
        moved = operation_bytes * report.ops * _BYTES_PER_NS_IN_MB_PER_S
        values["bandwidth"] = [moved / one.wall_ns for one in passes]
    found = ((metric.name, values.get(metric.name)) for metric in (*COMPUTING, BANDWIDTH))
    return tuple(Sample(metric=name, values=tuple(map(float, each))) for name, each in found if each is not None)
