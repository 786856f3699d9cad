# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics and samples of servers: the output of the load generator, and what the server used meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from swapstone.core.model import Direction, LoadGenerator, Metric, Quantity, Sample, WireError
from swapstone.core.workloads.load_generators import LoadReport, is_closed, percentiles_of, read_load_report

REQUESTS = Metric(
    name="requests",
    unit="1/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="requests answered in a second, as the load generator counts them",
)
PER_CPU_SECOND = Metric(
    name="requests_per_cpu_s",
    unit="1/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="requests answered in a second of the server's own processor time",
)


def _per_request(name: str, meaning: str) -> Metric:
    return Metric(
        name=f"{name}_per_request",
        unit="ns",
        quantity=Quantity.TIME,
        better=Direction.LOWER,
        meaning=meaning,
    )


def _events(name: str, meaning: str, better: Direction = Direction.LOWER) -> Metric:
    return Metric(name=f"{name}_per_request", unit="1", quantity=Quantity.EVENTS, better=better, meaning=meaning)


CPU = _per_request(
    "cpu", "the server's own processor time of one request, user and system, without the load generator's"
)
USER = _per_request("user", "of that, in the program (counted in ticks of 10 ms)")
SYSTEM = _per_request("system", "of that, in the kernel (counted in ticks of 10 ms)")
DRIVER = msgspec.structs.replace(
    _per_request("driver_cpu", "the load generator's processor time of one request: not the server's cost"),
    better=Direction.NEITHER,
    quantity=Quantity.EVENTS,  # a cost of measuring: not in the family of times
)
PEAK = Metric(
    name="peak",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="peak resident size of the server, from its start to the end of the load",
)
RESIDENT = Metric(
    name="resident",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="resident size of the server at the end of the load",
)
MINFLT = _events("minflt", "minor page faults of the server in one request")
MAJFLT = _events("majflt", "page faults of the server that waited for input, of one request")
NVCSW = _events("nvcsw", "context switches of one request because the server had to wait")
NIVCSW = _events(
    "nivcsw",
    "context switches of one request because the server was preempted, by the load generator or the machine",
    Direction.NEITHER,
)

UNSEEN_SHARE = 0.05
"""Context switches of threads that ended are not counted. The metrics are left out if more than this share could be missing."""

_PER_REQUEST: tuple[tuple[Metric, str, float], ...] = (
    (CPU, "server_cpu_ns", 1.0),
    (USER, "server_user_us", 1000.0),
    (SYSTEM, "server_system_us", 1000.0),
    (MINFLT, "server_minflt", 1.0),
    (MAJFLT, "server_majflt", 1.0),
    (NVCSW, "server_nvcsw", 1.0),
    (NIVCSW, "server_nivcsw", 1.0),
)
_SWITCHES = (NVCSW.name, NIVCSW.name)


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
    """Return the metrics of a server."""
    latencies = tuple(map(latency_metric, percentiles_of(generator.reader)))
    rest = (USER, SYSTEM, PER_CPU_SECOND, PEAK, RESIDENT, MINFLT, MAJFLT, NVCSW, NIVCSW, DRIVER)
    # At a constant rate, requests per second follow from the schedule.
    leads = REQUESTS if is_closed(generator.reader) else CPU
    first = (msgspec.structs.replace(metric, leads=metric is leads) for metric in (REQUESTS, CPU))
    return (*first, *latencies, *rest)


def server_samples(generator: LoadGenerator, facts: Mapping[str, int], output: bytes) -> tuple[Sample, ...]:
    """Return the samples of a server's run, one value each.

    Args:
        generator: what sent the requests; its `reader` decodes `output`.
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
    if requests:
        for metric, fact, scale in _PER_REQUEST:
            if fact in facts and not (metric.name in _SWITCHES and _unseen(facts)):
                values[metric.name] = facts[fact] * scale / requests
        if facts.get("server_cpu_ns"):
            values[PER_CPU_SECOND.name] = requests / (facts["server_cpu_ns"] / 1e9)
        if "driver_user_us" in facts:
            values[DRIVER.name] = (facts["driver_user_us"] + facts["driver_system_us"]) * 1000 / requests
    for metric, fact in ((PEAK, "server_peak_bytes"), (RESIDENT, "server_rss_bytes")):
        if fact in facts:
            values[metric.name] = float(facts[fact])
    order = [metric.name for metric in server_metrics(generator)]
    return tuple(Sample(metric=name, values=(values[name],)) for name in order if name in values)


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
