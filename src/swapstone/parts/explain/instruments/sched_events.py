# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the scheduler's tracepoints print. Threads choose their own names, so a name may contain anything, fields too."""

from __future__ import annotations

import dataclasses
import re

SWITCH, WAKING, DELAYED_ACK_TIMER = "sched:sched_switch", "sched:sched_waking", "timer:timer_expire_entry"

_SWITCH = re.compile(
    r"prev_comm=.{0,64} prev_pid=(?P<prev>[0-9]{1,10}) prev_prio=-?[0-9]{1,10} prev_state=(?P<state>[A-Za-z+|]{1,16}) ==> "
    r"next_comm=(?P<comm>.{0,64}) next_pid=(?P<next>[0-9]{1,10}) next_prio=-?[0-9]{1,10}\s*$"
)
_WAKING = re.compile(
    r"comm=.{0,64} pid=(?P<pid>[0-9]{1,10}) prio=-?[0-9]{1,10} (?:success=[0-9] )?target_cpu=(?P<cpu>[0-9]{1,6})\s*$"
)


@dataclasses.dataclass(frozen=True)
class Switch:
    """A processor's change from one thread to another.

    Attributes:
        leaves: the thread that ran.
        ready: whether it could have gone on.
        ends: whether it has ended.
        enters: the thread that runs next; 0 for none.
        name: its name.
    """

    leaves: int
    ready: bool
    ends: bool
    enters: int
    name: str


def switch(text: str) -> Switch | None:
    """Decode what ``sched:sched_switch`` prints; None if it has another form."""
    found = _SWITCH.match(text)
    if found is None:
        return None
    state = found["state"]
    return Switch(
        int(found["prev"]),
        ready=state.startswith("R"),
        ends=state[0] in "XZ",
        enters=int(found["next"]),
        name=found["comm"],
    )


def woken(text: str) -> tuple[int, int] | None:
    """Decode what ``sched:sched_waking`` prints: the thread that is woken, and its processor; None if it has another form."""
    found = _WAKING.match(text)
    return None if found is None else (int(found["pid"]), int(found["cpu"]))
