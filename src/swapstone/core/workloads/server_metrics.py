# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics and samples of servers: the output of the load generator, and what the server used meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from swapstone.core.model import Direction, LoadGenerator, Metric, Quantity, Sample, WireError
from swapstone.core.workloads.load_generators import LoadReport, is_closed, percentiles_of, read_load_report
from swapstone.core.workloads.metrics import TREE_MEMORY

REQUESTS = Metric(
    name="requests",
    unit="1/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="requests answered in a second, as the load generator counts them",
)


def _of_requests(name: str, meaning: str, unit: str = "1", better: Direction = Direction.LOWER) -> Metric:
    quantity = Quantity.TIME if unit == "ns" and better is not Direction.NEITHER else Quantity.EVENTS
    return Metric(name=f"{name}_per_request", unit=unit, quantity=quantity, better=better, meaning=meaning)


def _memory(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="B", quantity=Quantity.MEMORY, better=Direction.LOWER, meaning=meaning)


CPU = _of_requests(
    "cpu", "the server's own processor time of one request, user and system, without the load generator's", "ns"
)
PER_CPU_SECOND = Metric(
    name="requests_per_cpu_s",
    unit="1/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="requests answered in a second of the server's own processor time",
)

READY = Metric(
    name="ready",
    unit="ns",
    quantity=Quantity.TIME,
    better=Direction.LOWER,
    meaning="from the server's start until it accepted a connection, which is tried every 2 ms",
)
"""Of servers in root file systems."""

UNSEEN_SHARE = 0.05
"""Context switches of threads that ended are not counted. The metrics are left out if more than this share could be missing."""

_FROM_FACTS: tuple[tuple[Metric, tuple[str, ...], float], ...] = (
    (CPU, ("server_cpu_ns",), 1.0),
    (_of_requests("user", "of that, in the program (counted in ticks of 10 ms)", "ns"), ("server_user_us",), 1000.0),
    (_of_requests("system", "of that, in the kernel (counted in ticks of 10 ms)", "ns"), ("server_system_us",), 1000.0),
    (PER_CPU_SECOND, (), 0.0),  # of CPU
    (
        _memory("peak", "peak resident size of the server, from its start to the end of the load"),
        ("server_peak_bytes",),
        1.0,
    ),
    (_memory("resident", "resident size of the server at the end of the load"), ("server_rss_bytes",), 1.0),
    (TREE_MEMORY, ("tree_memory_bytes",), 1.0),
    (_of_requests("minflt", "minor page faults of the server in one request"), ("server_minflt",), 1.0),
    (
        _of_requests("majflt", "page faults of the server that waited for input, of one request"),
        ("server_majflt",),
        1.0,
    ),
    (
        _of_requests("nvcsw", "context switches of one request because the server had to wait"),
        ("server_nvcsw",),
        1.0,
    ),
    (READY, ("ready_ns",), 1.0),
    (
        _of_requests(
            "nivcsw",
            "context switches of one request because the server was preempted, by the load generator or the machine",
            better=Direction.NEITHER,
        ),
        ("server_nivcsw",),
        1.0,
    ),
    (
        _of_requests(  # a cost of measuring: not in the family of times
            "driver_cpu",
            "the load generator's processor time of one request: not the server's cost",
            "ns",
            Direction.NEITHER,
        ),
        ("driver_user_us", "driver_system_us"),
        1000.0,
    ),
)
"""Each metric with the facts whose sum it is, and the factor from their unit to the metric's. Those of requests are divided by them."""

_SWITCHES = frozenset({"server_nvcsw", "server_nivcsw"})


def latency_metric(name: str) -> Metric:
    """Return the metric of a latency's name, such as ``p99`` or ``max``."""
    meaning = "the longest time of a request" if name == "max" else f"{name[1:]} % of the requests took no longer"
    return Metric(
        name=f"latency_{name}",
        unit="ns",
        quantity=Quantity.TIME,
        better=Direction.LOWER,
        meaning=f"{meaning}, as the load generator measures it",
    )


def server_metrics(generator: LoadGenerator) -> tuple[Metric, ...]:
    """Return the metrics of each server."""
    latencies = tuple(map(latency_metric, percentiles_of(generator.reader)))
    rest = (metric for metric, _, _ in _FROM_FACTS if metric not in {CPU, READY})
    # At a constant rate, requests per second follow from the schedule.
    leads = REQUESTS if is_closed(generator.reader) else CPU
    first = (msgspec.structs.replace(metric, leads=metric is leads) for metric in (REQUESTS, CPU))
    return (*first, *latencies, *rest)


def server_samples(
    generator: LoadGenerator, metrics: Sequence[Metric], facts: Mapping[str, int], output: bytes
) -> tuple[Sample, ...]:
    """Return the samples of a server's run, one value each.

    Args:
        generator: what sent the requests; its `reader` decodes `output`.
        metrics: of the server's workload; their order is that of the samples.
        facts: the agent's facts by name. A metric is left out if its facts are missing.
        output: standard output of the load generator.

    Raises:
        WireError: the output is cut off, or the load generator met errors.
    """
    report = read_load_report(generator.reader, output)
    requests = _count(report, facts)
    values: dict[str, float] = {}
    if report.per_second is not None:
        values[REQUESTS.name] = report.per_second
    values |= {f"latency_{name}": value for name, value in report.latencies}
    for metric, names, scale in _FROM_FACTS:
        count = requests if metric.name.endswith("_per_request") else 1
        hidden = not _SWITCHES.isdisjoint(names) and _unseen(facts)
        if names and count and not hidden and all(name in facts for name in names):
            values[metric.name] = scale * sum(facts[name] for name in names) / count
    if requests and facts.get("server_cpu_ns"):
        values[PER_CPU_SECOND.name] = requests / (facts["server_cpu_ns"] / 1e9)
    return tuple(Sample(metric=each.name, values=(values[each.name],)) for each in metrics if each.name in values)


def _count(report: LoadReport, facts: Mapping[str, int]) -> float:
    """Return the number of requests with a response. If the load generator prints only a rate, it is multiplied by its running time."""
    if report.requests or report.per_second is None:
        return report.requests
    return report.per_second * facts.get("driven_ns", 0) / 1e9


def _unseen(facts: Mapping[str, int]) -> bool:
    """Return whether too many context switches of threads that ended may be missing."""
    seen = facts.get("server_nvcsw", 0) + facts.get("server_nivcsw", 0)
    return facts.get("server_unseen_switches", 0) > UNSEEN_SHARE * seen + 100


WRK = "wrk"
_PACE = "swapstone-pace sends at a constant rate and measures each latency from the time when the request was due."


def closed_loop_notes(generators: Sequence[str]) -> tuple[str, ...]:
    """Return notes on coordinated omission.

    wrk corrects its latencies for it since version 4.0 (``stats_correct`` in its stats.c): it adds one latency for each request that it
    would have sent in the meantime, by the mean time between requests.

    Args:
        generators: names of closed-loop load generators, each once.
    """
    found = []
    if WRK in generators:
        found.append(
            f"{WRK}'s percentiles come partly from a model: since version 4.0 it adds latencies for the requests that it did not send "
            "while the server stalled (coordinated omission). They can't be compared with those of ab or redis-benchmark, which add none. "
            f"{_PACE}"
        )
    others = [name for name in generators if name != WRK]
    if others:
        verb = "sends" if len(others) == 1 else "send"
        found.append(
            f"{' and '.join(others)} {verb} the next request on a connection only after the last response. While the server stalls no "
            "request is sent, so those that would have waited are missing, and high percentiles look better than they are (coordinated "
            f"omission). {_PACE}"
        )
    return tuple(found)


def check_whole(samples: tuple[Sample, ...]) -> None:
    """Raise a `WireError` if neither requests nor the server's processor time was measured."""
    if not any(sample.metric in {REQUESTS.name, CPU.name} for sample in samples):
        raise WireError("Neither requests nor the server's processor time was measured.")
