# SPDX-License-Identifier: MIT OR Apache-2.0
"""From the output of a program without the harness to samples: named figures, and the formats of tools that others wrote."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.model import FrozenStruct, Sample, WireError, Workload
from swapstone.core.workloads.cyclictest import decode_cyclictest
from swapstone.core.workloads.named_figures import decode_named_figures

_NS_PER_US = 1000.0


class Figures(FrozenStruct, frozen=True, kw_only=True):
    """What a program printed.

    Attributes:
        samples: one for each metric of the workload that was measured, in the order of the metrics.
        histogram: as `Run.histogram`.
        by_processor: as `Run.by_processor`.
        series: as `Run.series`.
        seen: as `swapstone.core.factors.Evidence.seen`.
    """

    samples: tuple[Sample, ...]
    histogram: tuple[tuple[int, int], ...] = ()
    by_processor: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    series: tuple[Sample, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()


def read_named_figures(workload: Workload, program: str, output: bytes) -> Figures:
    """Read named figures and series (docs/wire.md, section 4). They must be the workload's metrics, no more and no fewer.

    Args:
        workload: its metrics are read.
        program: the name that the program must print.
        output: its standard output.

    Raises:
        WireError: the output is cut off, another program's, or a figure is missing or unknown.
    """
    printed = decode_named_figures(output)
    if printed.name != program:
        raise WireError(f"The output is of the program {printed.name!r}, not of {program!r}.")
    values = dict(printed.figures)
    metrics = {metric.name for metric in workload.metrics}
    if missing := sorted(metrics - set(values)):
        raise WireError(f"The program does not print the metric {missing[0]} of {workload.name}.")
    if unknown := sorted(set(values) - metrics):
        raise WireError(f"The program prints {unknown[0]}, which is no metric of {workload.name}.")
    measured = ((metric.name, values[metric.name]) for metric in workload.metrics)
    return Figures(
        samples=tuple(Sample(metric=name, values=(value,)) for name, value in measured if value is not None),
        series=tuple(Sample(metric=name, values=values) for name, values in printed.series),
        seen=printed.seen,
    )


def read_cyclictest(workload: Workload, output: bytes) -> Figures:
    """Read what cyclictest wrote as JSON.

    Args:
        workload: names the metrics, all in nanoseconds.
        output: its standard output.

    Raises:
        WireError: as `decode_cyclictest`.
    """
    latencies = decode_cyclictest(output)
    values = dict(latencies.values)
    samples = (Sample(metric=one.name, values=(values[one.name] * _NS_PER_US,)) for one in workload.metrics)
    return Figures(samples=tuple(samples), histogram=latencies.histogram, by_processor=latencies.by_processor)


TOOL_READERS: dict[str, Callable[[Workload, bytes], Figures]] = {"cyclictest": read_cyclictest}
"""Readers by the name in `ImageTool.reader`. Each takes the workload and the tool's standard output."""
