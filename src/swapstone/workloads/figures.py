"""What tools print that are no workloads of ours: one reader for each `Reading`."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import Noun, Reading, Sample, Workload
from swapstone.workloads.cyclictest import decode_cyclictest

_NS_PER_US = 1000.0


class Figures(Noun, frozen=True, kw_only=True):
    """What a tool measured.

    Attributes:
        samples: of the workload's metrics, in their order; one that it did not measure is left out.
        histogram: as `Run.histogram`.
        series: as `Run.series`.
    """

    samples: tuple[Sample, ...]
    histogram: tuple[tuple[int, int], ...] = ()
    series: tuple[Sample, ...] = ()


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
    return Figures(samples=tuple(samples), histogram=latencies.histogram)


READERS: dict[Reading, Callable[[Workload, bytes], Figures]] = {Reading.CYCLICTEST: read_cyclictest}
"""By `Reading`: takes the workload and its standard output; raises a `WireError` for anything that is not whole."""


def read_figures(workload: Workload, output: bytes) -> Figures:
    """Read what a program printed.

    Args:
        workload: says how, and which metrics.
        output: its standard output.

    Raises:
        WireError: it is not whole, or not what such a program prints.
    """
    return READERS[workload.reading](workload, output)
