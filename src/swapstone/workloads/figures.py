"""What tools print that are no workloads of ours: one reader for each `Reading`."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import Noun, Reading, Sample, Workload


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


READERS: dict[Reading, Callable[[Workload, bytes], Figures]] = {}
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
