# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scheduling policy and priority of the threads that the suite latency measures (sched(7))."""

from __future__ import annotations

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import process_file

PRIORITY_VARIABLE = "SWAPSTONE_PRIORITY"
"""The variable of the environment that the suite's programs read: ``fifo:`` and two digits, or ``other:0``."""

SEEN = "priority"
"""The name in `Evidence.seen` of the level that the kernel reports of a program's measuring threads."""

_TEXTS = {"fifo99": "fifo:99", "fifo50": "fifo:50", "fifo01": "fifo:01", "other": "other:0"}
_STAT = process_file("stat")
_PRIORITY_FIELD, _POLICY_FIELD = 37, 38  # of /proc/PID/stat after the name in brackets: fields 40 and 41 of proc(5)
_POLICIES = {"0": "other", "1": "fifo", "2": "rr", "3": "batch", "5": "idle", "6": "deadline"}


class Priority:
    """The policy SCHED_FIFO with a priority, or SCHED_OTHER."""

    name = "priority"
    stage = Stage.LAUNCH
    description = "scheduling policy and priority of the thread whose wake-ups the suite latency measures"
    levels: tuple[Level, ...] = (
        Level(name="fifo99", description="SCHED_FIFO with the highest priority, as without this factor"),
        Level(name="fifo50", description="SCHED_FIFO with the priority of threaded interrupts"),
        Level(name="fifo01", description="SCHED_FIFO with the lowest priority"),
        Level(name="other", description="SCHED_OTHER: no real-time priority"),
    )
    observes = (_STAT,)
    unseen = "Only workloads of the suite latency set a priority: add `--suite latency`."

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable that the suite's programs read; all its values are equally long."""
        return msgspec.structs.replace(
            recipe, environment=(*recipe.environment, (PRIORITY_VARIABLE, _TEXTS.get(level, level)))
        )

    def observe(self, evidence: Evidence) -> str | None:
        """Return the level that the kernel reports of the measuring threads, or else of the process."""
        seen = dict(evidence.seen).get(SEEN)
        return level_of_stat(evidence.value(_STAT) or "") if seen is None else seen


def level_of_stat(text: str) -> str | None:
    """Return the level of a thread by its line of /proc/PID/stat; None if it has another form."""
    words = text.rpartition(")")[2].split()
    if len(words) <= _POLICY_FIELD:
        return None
    policy, priority = words[_POLICY_FIELD], words[_PRIORITY_FIELD]
    if policy not in _POLICIES or not priority.isdecimal() or len(priority) > 2:
        return None
    name = _POLICIES[policy]
    return name if name == "other" else f"{name}{int(priority):02}"


PRIORITY = Priority()
