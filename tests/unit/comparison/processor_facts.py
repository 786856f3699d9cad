# SPDX-License-Identifier: MIT OR Apache-2.0
"""Facts of the agent as a machine with tick-based accounting gives them."""

from __future__ import annotations

import numpy as np

TICK_S = 0.01  # USER_HZ
AGENT_S = 0.001  # before and after the run


def machine_facts(
    random: np.random.Generator,
    *,
    wall_s: float = 0.1,
    own: float = 2.0,
    others: float = 0.0,
    steal: float = 0.0,
    processors: int = 2,
    known: float | None = None,
    system: float = 0.0,
) -> dict[str, int]:
    """Return the facts of one run.

    /proc/stat shows sums of processor time in ticks of 10 ms, truncated. The kernel measures idle time and stolen time exactly. It samples
    the rest: every jiffy of 4 ms is credited to what runs at its end.

    Args:
        random: source of the phases.
        wall_s: time of the run.
        own, others, steal: how many processors the trial's processes, other processes and the hypervisor use on average.
        processors: of the machine.
        known: what the rusage of the trial's processes has instead of `own`, in processors.
        system: the part of `own` that is system time.
    """

    def grown(seconds: float) -> int:
        phase = random.random()
        return int(phase + seconds / TICK_S)

    window_s = wall_s + AGENT_S
    idle_s = max(0.0, processors * window_s - (own + others + steal) * wall_s - AGENT_S)
    jiffies = max(0.0, (processors * window_s - idle_s - steal * wall_s) / 0.004)
    sampled_s = 0.004 * max(0.0, random.normal(jiffies, 0.5 * jiffies**0.5))
    idle, stolen = grown(idle_s), grown(steal * wall_s)
    used_us = round((own if known is None else known) * wall_s * 1e6)
    return {
        "wall_ns": round(wall_s * 1e9),
        "user_us": used_us - round(system * wall_s * 1e6),
        "system_us": round(system * wall_s * 1e6),
        "trial_cpu_us": used_us + round(AGENT_S * 1e6),
        "cpu_ticks": idle + stolen + grown(sampled_s),
        "idle_ticks": idle,
        "steal_ticks": stolen,
        "ticks_ns": round(window_s * 1e9),
        "cpus_allowed": processors,
    }
