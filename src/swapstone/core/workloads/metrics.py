# SPDX-License-Identifier: MIT OR Apache-2.0
"""The metrics that native workloads give: name, unit, and which direction is better."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swapstone.core.model import Direction, FrozenStruct, Metric, Quantity, Sample
from swapstone.core.model.executed_counts import counts_of

WALL = Metric(
    name="wall", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="elapsed time of one operation"
)
CPU = Metric(
    name="cpu",
    unit="ns",
    quantity=Quantity.TIME,
    better=Direction.LOWER,
    meaning="processor time of one operation, user and system, all threads and the children waited for",
    leads=True,
)
MAXRSS = Metric(
    name="maxrss",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="peak resident size of the largest process of the run",
)
BANDWIDTH = Metric(
    name="bandwidth",
    unit="MB/s",
    quantity=Quantity.RATE,
    better=Direction.HIGHER,
    meaning="bytes that the operations move a second of elapsed time; a MB is 1000000 bytes",
)


class AgentMetric(FrozenStruct, frozen=True, kw_only=True):
    """A metric of every native workload and own program that the agent measures around the program.

    Attributes:
        fact: name of the agent's fact (docs/wire.md, section 2). A run without the fact has no value of the metric.
        metric: how it is named and compared.
        scale: the fact is multiplied by this to get the metric's unit.
    """

    fact: str
    metric: Metric
    scale: int = 1


FROM_AGENT: tuple[AgentMetric, ...] = (AgentMetric(fact="maxrss_bytes", metric=MAXRSS),)
"""The registry of such metrics: an entry here is measured, compared, reported and exported."""

_BESIDE_TIME = (
    Metric(
        name="run_delay",
        unit="ns",
        # Not in the family of times: it describes the machine, and must not widen the intervals of the work.
        quantity=Quantity.EVENTS,
        better=Direction.NEITHER,
        meaning="time in which the main thread was ready in one pass, but had no processor: a cost of the machine's load",
    ),
    Metric(
        name="virt",
        unit="B",
        quantity=Quantity.MEMORY,
        better=Direction.LOWER,
        meaning="anonymous address space at the end of the last pass, without the stack",
    ),
    Metric(
        name="res",
        unit="B",
        quantity=Quantity.MEMORY,
        better=Direction.LOWER,
        meaning="resident anonymous memory at the end of the last pass, without the stack (Rss)",
    ),
    Metric(
        name="dirty",
        unit="B",
        quantity=Quantity.MEMORY,
        better=Direction.LOWER,
        meaning="private dirty anonymous memory at the end of the last pass, without the stack (Private_Dirty)",
    ),
    *(entry.metric for entry in FROM_AGENT),
    Metric(
        name="minflt",
        unit="1",
        quantity=Quantity.EVENTS,
        better=Direction.LOWER,
        meaning="minor page faults in one pass: without input or output",
    ),
    Metric(
        name="majflt",
        unit="1",
        quantity=Quantity.EVENTS,
        better=Direction.LOWER,
        meaning="major page faults in one pass: with input from a disk",
    ),
    Metric(
        name="nvcsw",
        unit="1",
        quantity=Quantity.EVENTS,
        better=Direction.LOWER,
        meaning="voluntary context switches in one pass: the work had to wait",
    ),
    Metric(
        name="nivcsw",
        unit="1",
        quantity=Quantity.EVENTS,
        better=Direction.NEITHER,
        meaning="involuntary context switches in one pass, by preemption: a cost of the machine's load",
    ),
)

COMPUTING: tuple[Metric, ...] = (WALL, CPU, *_BESIDE_TIME)
"""Of work that only computes: processor time decides when a run is precise enough."""

WAITING: tuple[Metric, ...] = (
    msgspec.structs.replace(WALL, leads=True),
    msgspec.structs.replace(CPU, leads=False),
    *_BESIDE_TIME,
)
"""Of work that waits or uses several processors at once: elapsed time decides."""

MESSAGES: tuple[Metric, ...] = tuple(metric for metric in WAITING if metric.name != CPU.name)
"""Of work that other processes share, which live longer than a pass: their processor time is not in the counters."""


_NS_PER_US = 1000

_MEANINGS = {
    "wall": "elapsed time from the start of the program to its end",
    "cpu": "processor time, user and system, of the program, its threads and the children it waited for",
    "run_delay": "time in which the main thread was ready, but had no processor: a cost of the machine's load",
    "maxrss": "peak resident size of the program or of the largest child it waited for",
    "minflt": "minor page faults: without input or output",
    "majflt": "major page faults: with input from a disk",
    "nvcsw": "voluntary context switches: the program had to wait",
    "nivcsw": "involuntary context switches, by preemption: a cost of the machine's load",
}


def _of_process(name: str) -> Metric:
    metric = next(metric for metric in COMPUTING if metric.name == name)
    return msgspec.structs.replace(metric, meaning=_MEANINGS.get(name, metric.meaning), leads=False)


def _share_of_cpu(name: str, meaning: str) -> Metric:
    return Metric(name=name, unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning=meaning)


TREE_MEMORY = Metric(
    name="tree_memory",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="most memory charged to the run's cgroup at one time: of all its processes, its kernel objects, "
    "and files that it read first",
)

EXIT_STATUS = Metric(
    name="exit_status",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.NEITHER,
    meaning="the program's exit status, where other than 0 is accepted",
)

_SHARES = ("user", "system")

_FROM_FACTS: tuple[tuple[Metric, tuple[str, ...], int], ...] = (
    (_of_process("wall"), ("wall_ns",), 1),
    (_of_process("cpu"), ("user_us", "system_us"), _NS_PER_US),
    (_share_of_cpu("user", "of cpu, in the program"), ("user_us",), _NS_PER_US),
    (_share_of_cpu("system", "of cpu, in the kernel"), ("system_us",), _NS_PER_US),
    *((_of_process(entry.metric.name), (entry.fact,), entry.scale) for entry in FROM_AGENT),
    (_of_process("minflt"), ("minflt",), 1),
    (_of_process("majflt"), ("majflt",), 1),
    (_of_process("nvcsw"), ("nvcsw",), 1),
    (_of_process("nivcsw"), ("nivcsw",), 1),
    (_of_process("run_delay"), ("run_delay_ns",), 1),
    (
        _share_of_cpu("tree_cpu", "processor time of all processes of the run, also of those that were not waited for"),
        ("tree_cpu_us",),
        _NS_PER_US,
    ),
    (TREE_MEMORY, ("tree_memory_bytes",), 1),
)
"""Each metric with the facts whose sum it is, and the factor from their unit to the metric's."""

PROCESS_METRICS: tuple[Metric, ...] = tuple(metric for metric, _, _ in _FROM_FACTS)


def process_samples(facts: Mapping[str, int]) -> tuple[Sample, ...]:
    """Return one value for each of `PROCESS_METRICS` and `COUNT_METRICS`.

    A metric is left out if one of its facts is missing. Counts take the place of user and system time, which the kernel divides by what
    its ticks find.

    Args:
        facts: the agent's facts by name.
    """
    counts = counts_of(facts)
    values = {
        metric.name: scale * sum(map(facts.__getitem__, names))
        for metric, names, scale in _FROM_FACTS
        if facts.keys() >= set(names) and not (counts and metric.name in _SHARES)
    }
    return tuple(Sample(metric=name, values=(float(value),)) for name, value in {**values, **counts}.items())
