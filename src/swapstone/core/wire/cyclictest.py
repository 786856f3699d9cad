# SPDX-License-Identifier: MIT OR Apache-2.0
"""The latencies that cyclictest writes as JSON."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

import msgspec

from swapstone.core.model import MOST_PROCESSORS, FrozenStruct, WireError, merged, percentile, refuse

PERCENTILES = (("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99))

_ROUNDING = 0.0051  # the average is printed with two places


class Latencies(FrozenStruct, frozen=True, kw_only=True):
    """The latencies in an output of cyclictest.

    Attributes:
        values: pairs (name, microseconds): ``max``, ``avg``, ``min``, and the percentiles of `PERCENTILES`. cyclictest rounds each
            latency down to whole microseconds. Of several threads, those of all their cycles together.
        histogram: pairs (microseconds, how many), ascending, of all cycles.
        by_processor: of several threads, pairs (processor, its histogram), ascending; empty for one.
    """

    values: tuple[tuple[str, float], ...]
    histogram: tuple[tuple[int, int], ...]
    by_processor: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()


_Count = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]  # larger ones are not exact, and overflow, as a float


_Edge = Annotated[int, msgspec.Meta(ge=0, lt=10**9)]
"""Of a bin, in microseconds."""


class _Thread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    histogram: dict[_Edge, Annotated[int, msgspec.Meta(ge=1, le=2**53)]]
    cycles: _Count
    min: _Count
    max: _Count
    avg: float
    cpu: int
    node: int


class _Printed(msgspec.Struct, frozen=True):
    """The JSON object; fields that are no latencies are ignored."""

    file_version: Literal[1]
    return_code: int
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=MOST_PROCESSORS)]
    resolution_in_ns: Literal[0]  # microseconds
    thread: dict[str, _Thread]


def decode_cyclictest(output: bytes) -> Latencies:
    """Decode an output of cyclictest.

    Args:
        output: the whole file, with the newline at its end.

    Raises:
        WireError: the output is cut off or not of one thread for each processor, or a histogram misses cycles or contradicts its other
            fields.
    """
    threads = _threads(output)
    histograms = tuple((thread.cpu, _checked_histogram(thread)) for thread in threads)
    several = len(threads) > 1
    if several and [cpu for cpu, _ in histograms] != list(range(len(threads))):
        raise WireError("cyclictest did not measure one thread on each processor.")
    histogram = merged(each for _, each in histograms)
    mean = sum(edge * count for edge, count in histogram) / sum(count for _, count in histogram)
    values = [("max", float(histogram[-1][0])), ("avg", mean), ("min", float(histogram[0][0]))]
    values += [(name, float(percentile(histogram, percent))) for name, percent in PERCENTILES]
    return Latencies(values=tuple(values), histogram=histogram, by_processor=histograms if several else ())


def _checked_histogram(thread: _Thread) -> tuple[tuple[int, int], ...]:
    """Return the histogram of a thread, which agrees with its other fields."""
    histogram = tuple(thread.histogram.items())
    if any(here >= after for (here, _), (after, _) in itertools.pairwise(histogram)):
        raise WireError("cyclictest's histogram is not in order.")
    total = sum(count for _, count in histogram)
    outside = f"{thread.cycles - total} of cyclictest's {thread.cycles} latencies are outside its histogram"
    refuse(
        (total < thread.cycles, f"{outside}; the largest is {thread.max} us.", ""),
        (not histogram, "cyclictest measured nothing.", ""),
        kind=WireError,
    )
    if (total, histogram[0][0], histogram[-1][0]) != (thread.cycles, thread.min, thread.max):
        raise WireError("cyclictest's histogram does not agree with its count, minimum and maximum.")
    mean = sum(edge * count for edge, count in histogram) / total
    if abs(mean - thread.avg) > _ROUNDING:
        raise WireError("cyclictest's histogram does not agree with its average.")
    return histogram


def _threads(output: bytes) -> list[_Thread]:
    if not output.endswith(b"}\n"):
        raise WireError("cyclictest's figures are cut off.")
    try:
        printed = msgspec.json.decode(output, type=_Printed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"cyclictest's output has another format: {error}.") from error
    numbers = [str(number) for number in range(printed.num_threads)]
    refuse(
        (printed.return_code, f"cyclictest ended with {printed.return_code}.", ""),
        (list(printed.thread) != numbers, f"cyclictest did not measure {printed.num_threads} threads.", ""),
        kind=WireError,
    )
    return list(printed.thread.values())
