# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check the profile against the kernel's counters: which part of the processor time was spent in the kernel."""

from __future__ import annotations

import math

from swapstone.core.model.number_text import fixed
from swapstone.core.record.variant_label import short_label
from swapstone.parts.explain.model.explanation import KERNEL, Profile, Reference, RowMeasurements

TICK_NS = 1e7
"""The kernel divides processor time into user and system time by what ran at its ticks. With CONFIG_HZ=100 a tick takes 10 ms; most
kernels have shorter ones, and those with VIRT_CPU_ACCOUNTING_GEN need none."""

LEAST_TICKS = 30
"""With fewer ticks in all reference runs the division is not checked."""

ALLOWED = 0.15
"""Difference of the two shares that is no contradiction: time in interrupts is counted differently, and a run under perf has others."""

DEVIATIONS = 4.0


def split_problem(seen: RowMeasurements) -> str:
    """Return how a profile contradicts the kernel's counters; empty if none does, or if that can't be checked.

    A profile without samples of the kernel would attribute all of its time to the program.
    """
    return next((text for each in seen.references if (text := _problem(seen, each))), "")


def _problem(seen: RowMeasurements, reference: Reference) -> str:
    wanted = ("on-cpu", reference.variant)
    profile = next((run.profile for run in seen.runs if (run.instrument, run.variant) == wanted), None)
    counted = system_share(reference)
    if profile is None or counted is None or not profile.samples:
        return ""
    (share, ticks), sampled = counted, kernel_share(profile)
    spread = math.sqrt(0.25 * (1 / profile.samples + 1 / ticks))  # of a share of a half, the largest
    if abs(sampled - share) <= ALLOWED + DEVIATIONS * spread:
        return ""
    return (
        f"the profile of {short_label(reference.variant)} has {fixed(100 * sampled, 0)} % of its samples in the kernel, but by the "
        f"kernel's own counters {fixed(100 * share, 0)} % of the processor time is system time"
    )


def kernel_share(profile: Profile) -> float:
    """Return the share of samples whose innermost function is the kernel's."""
    inside = sum(weight for frames, weight in profile.weighted() if frames and frames[-1].object == KERNEL)
    return inside / profile.total if profile.total else 0.0


def system_share(reference: Reference) -> tuple[float, float] | None:
    """Return the share of system time in the processor time of the reference runs, and how many ticks decided it at least.

    Returns:
        None if it was not measured, or by fewer than `LEAST_TICKS`.
    """
    metrics = dict(reference.metrics)
    spent = [metrics.get(name) for name in ("user", "system", "counted")]
    if any(value is None or value < 0 for value in spent):
        return None
    user, system, counted = (value or 0.0 for value in spent)
    ticks = counted * reference.runs / TICK_NS
    return (system / (user + system), ticks) if ticks >= LEAST_TICKS and user + system > 0 else None
