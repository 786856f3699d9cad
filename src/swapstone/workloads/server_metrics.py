"""The metrics of servers, and their samples: what the driver says, and what the server used meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swapstone.model import Direction, LoadGenerator, Metric, Quantity, Sample, WireError
from swapstone.workloads.load_generators import LoadReport, is_closed, percentiles_of, read_load_report

REQUESTS = Metric(
    name="requests",
    unit="1/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="requests answered in a second, as the driver counts them",
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


CPU = _per_request("cpu", "the server's own processor time of one request, user and system, the driver's left out")
USER = _per_request("user", "of that, in the program (counted in ticks of 10 ms)")
SYSTEM = _per_request("system", "of that, in the kernel (counted in ticks of 10 ms)")
DRIVER = msgspec.structs.replace(
    _per_request("driver_cpu", "the driver's processor time of one request: not the server's cost"),
    better=Direction.NEITHER,
    quantity=Quantity.EVENTS,  # of the measuring, so it is of no family that a verdict rests on
)
PEAK = Metric(
    name="peak",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="peak resident size of the server, from its start to the end of driving",
)
RESIDENT = Metric(
    name="resident",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="resident size of the server at the end of driving",
)
MINFLT = _events("minflt", "page faults of the server that needed no input, of one request")
MAJFLT = _events("majflt", "page faults of the server that waited for input, of one request")
NVCSW = _events("nvcsw", "context switches of one request because the server had to wait")
NIVCSW = _events(
    "nivcsw",
    "context switches of one request because the processor was taken from the server: the driver's doing, or the machine's",
    Direction.NEITHER,
)

UNSEEN_SHARE = 0.05
"""Where threads ended meanwhile, their context switches are not in the count: left out where more than this share could be missing."""

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
        meaning=f"{meaning}, as the driver sees it",
    )


def server_metrics(generator: LoadGenerator) -> tuple[Metric, ...]:
    """Return what each run of a server gives."""
    latencies = tuple(map(latency_metric, percentiles_of(generator.reader)))
    rest = (USER, SYSTEM, PER_CPU_SECOND, PEAK, RESIDENT, MINFLT, MAJFLT, NVCSW, NIVCSW, DRIVER)
    # At a constant rate the requests a second are the schedule's.
    leads = REQUESTS if is_closed(generator.reader) else CPU
    first = (msgspec.structs.replace(metric, leads=metric is leads) for metric in (REQUESTS, CPU))
    return (*first, *latencies, *rest)


def server_samples(generator: LoadGenerator, facts: Mapping[str, int], output: bytes) -> tuple[Sample, ...]:
    """Turn what was seen of a server's run into samples, one value each.

    Args:
        generator: what sent the requests; its `reader` decodes `output`.
        facts: the agent's, by name. A metric whose facts are not there is left out.
        output: the driver's standard output.

    Raises:
        WireError: the output is not whole, or the driver met errors.
    """
    driven = read_load_report(generator.reader, output)
    requests = _count(driven, facts)
    values: dict[str, float] = {}
    if driven.per_second is not None:
        values[REQUESTS.name] = driven.per_second
    values |= {f"latency_{name}": value for name, value in driven.latencies}
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


def _count(driven: LoadReport, facts: Mapping[str, int]) -> float:
    """Return how many requests were answered; where the driver says a rate alone, over the time that it ran."""
    if driven.requests or driven.per_second is None:
        return driven.requests
    return driven.per_second * facts.get("driven_ns", 0) / 1e9


def _unseen(facts: Mapping[str, int]) -> bool:
    """Say whether so many context switches may be missing, of threads that have ended, that the count means nothing."""
    seen = facts.get("server_nvcsw", 0) + facts.get("server_nivcsw", 0)
    return facts.get("server_unseen_switches", 0) > UNSEEN_SHARE * seen + 100


def closed_loop_note(drivers: str) -> str:
    """Return the sentence of what a driver of a closed loop hides."""
    return (
        f"{drivers} sends its next request on a connection only after the last answer, so while the server stands still it sends none: the "
        "requests that would have waited are not made and not counted, and high percentiles look better than a user finds them "
        "(coordinated omission). swapstone-pace sends by the clock and counts from when a request was due."
    )


def check_whole(samples: tuple[Sample, ...]) -> None:
    """Raise a `WireError` where nothing was measured that could be compared."""
    if not any(sample.metric in {REQUESTS.name, CPU.name} for sample in samples):
        raise WireError("Neither requests nor the server's processor time could be told.")
