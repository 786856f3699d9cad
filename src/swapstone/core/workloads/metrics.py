# SPDX-License-Identifier: MIT OR Apache-2.0
"""The metrics that native workloads give: name, unit, and which direction is better."""

from __future__ import annotations

import msgspec

from swapstone.core.model import Direction, FrozenStruct, Metric, Quantity

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
RUN_DELAY = Metric(
    name="run_delay",
    unit="ns",
    # Not in the family of times: it describes the machine, and must not widen the intervals of the work.
    quantity=Quantity.EVENTS,
    better=Direction.NEITHER,
    meaning="time in which the main thread was ready in one pass, but had no processor: a cost of the machine's load",
)
VIRT = Metric(
    name="virt",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="anonymous address space at the end of the last pass, without the stack",
)
RES = Metric(
    name="res",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="resident anonymous memory at the end of the last pass, without the stack (Rss)",
)
DIRTY = Metric(
    name="dirty",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="private dirty anonymous memory at the end of the last pass, without the stack (Private_Dirty)",
)
MAXRSS = Metric(
    name="maxrss",
    unit="B",
    quantity=Quantity.MEMORY,
    better=Direction.LOWER,
    meaning="peak resident size of the largest process of the run",
)
MINFLT = Metric(
    name="minflt",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.LOWER,
    meaning="minor page faults in one pass: without input or output",
)
MAJFLT = Metric(
    name="majflt",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.LOWER,
    meaning="major page faults in one pass: with input from a disk",
)
NVCSW = Metric(
    name="nvcsw",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.LOWER,
    meaning="voluntary context switches in one pass: the work had to wait",
)
NIVCSW = Metric(
    name="nivcsw",
    unit="1",
    quantity=Quantity.EVENTS,
    better=Direction.NEITHER,
    meaning="involuntary context switches in one pass, by preemption: a cost of the machine's load",
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
    *(RUN_DELAY, VIRT, RES, DIRTY),
    *(entry.metric for entry in FROM_AGENT),
    *(MINFLT, MAJFLT, NVCSW, NIVCSW),
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
