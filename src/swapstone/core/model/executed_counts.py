# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an emulator counts of a program: the metrics, and the facts of a run that each is the sum of."""

from __future__ import annotations

from collections.abc import Mapping

from swapstone.core.model.metric import Direction, Metric, Quantity

_COUNTS: Mapping[str, tuple[tuple[str, ...], Direction, str]] = {
    "instructions": (("user_instructions",), Direction.LOWER, "instructions in user mode, without turns of REP"),
    "rep_turns": (("rep_turns",), Direction.LOWER, "turns of REP in user mode, each as long as an instruction"),
    "kernel_instructions": (("kernel_instructions",), Direction.LOWER, "instructions in the kernel, in all"),
    "call_instructions": (("call_instructions",), Direction.LOWER, "of these, in system calls"),
    "fault_instructions": (("fault_instructions",), Direction.LOWER, "of these, in page faults from user mode"),
    "interrupt_instructions": (("interrupt_instructions",), Direction.NEITHER, "of these, in interrupts: mostly ticks"),
    "syscalls": (("syscalls",), Direction.LOWER, "system calls"),
    "page_faults": (("user_faults", "kernel_faults"), Direction.LOWER, "page faults in user mode and in the kernel"),
    "task_switches": (("task_switches",), Direction.NEITHER, "how often another task got the processor"),
    "tasks": (("tasks",), Direction.LOWER, "processes and threads"),
}
"""By metric, what an emulator's plugin counts of a program with all that descends from it: facts, better direction, meaning."""

COUNT_METRICS: tuple[Metric, ...] = tuple(
    Metric(name=name, unit="1", quantity=Quantity.EVENTS, better=better, meaning=meaning)
    for name, (_, better, meaning) in _COUNTS.items()
)
COUNT_FACTS: frozenset[str] = frozenset(fact for facts, _, _ in _COUNTS.values() for fact in facts)


def counts_of(facts: Mapping[str, int]) -> dict[str, int]:
    """Return the value of each of `COUNT_METRICS` by its name; none of a run whose program was not counted."""
    if not facts.keys() >= COUNT_FACTS:
        return {}
    return {name: sum(facts[fact] for fact in of) for name, (of, _, _) in _COUNTS.items()}
