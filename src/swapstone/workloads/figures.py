"""What tools print that are no workloads of ours: one reader for each `Reading`."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import FrozenStruct, Reading, Sample, WireError, Workload
from swapstone.workloads.cyclictest import decode_cyclictest
from swapstone.workloads.figures_format import decode_named_figures

_NS_PER_US = 1000.0


class Figures(FrozenStruct, frozen=True, kw_only=True):
    """What a tool measured.

    Attributes:
        samples: of the workload's metrics, in their order; one that it did not measure is left out.
        histogram: as `Run.histogram`.
        series: as `Run.series`.
        seen: as `swapstone.factors.Evidence.seen`.
    """

    samples: tuple[Sample, ...]
    histogram: tuple[tuple[int, int], ...] = ()
    series: tuple[Sample, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()


def read_named_figures(workload: Workload, output: bytes) -> Figures:
    """Read named figures and series (docs/wire.md, section 4): exactly those that are the workload's metrics.

    Args:
        workload: says which; the program's own name is that of its source, or the workload's with ``_`` for ``-``.
        output: its standard output.

    Raises:
        WireError: it is not whole, another program's, or lacks a figure or has one too many.
    """
    said = decode_named_figures(output)
    own = workload.source.partition(".")[0] or workload.name.replace("-", "_")
    if said.name != own:
        raise WireError(f"The program speaks as {said.name!r}, not as {own!r}.")
    values = dict(said.figures)
    wanted = {metric.name for metric in workload.metrics}
    if strange := sorted(wanted ^ set(values)):
        raise WireError(f"The program says {strange[0]}, which is no metric of {workload.name}, or leaves it out.")
    measured = ((metric.name, values[metric.name]) for metric in workload.metrics)
    return Figures(
        samples=tuple(Sample(metric=name, values=(value,)) for name, value in measured if value is not None),
        series=tuple(Sample(metric=name, values=values) for name, values in said.series),
        seen=said.seen,
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
    return Figures(samples=tuple(samples), histogram=latencies.histogram)


READERS: dict[Reading, Callable[[Workload, bytes], Figures]] = {
    Reading.FIGURES: read_named_figures,
    Reading.CYCLICTEST: read_cyclictest,
}
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
