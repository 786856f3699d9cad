# SPDX-License-Identifier: MIT OR Apache-2.0
"""The phases of several runs of a program as one list."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from swapstone.core.model import MemorySeries, PhaseMemory
from swapstone.core.model.memory_phases import FIRST_PHASE


def summary(runs: Sequence[MemorySeries]) -> tuple[tuple[PhaseMemory, ...], str]:
    """Return the phases of several runs, and what limits them.

    Each figure is the median of the runs; of an even number, the lower one of the two in the middle. So each figure was measured. If the
    names of the phases differ from run to run, they are those of the first run alone.

    Args:
        runs: any number.
    """
    if not runs:
        return (), ""
    if trouble := next((run.unavailable for run in runs if run.unavailable), ""):
        return (), trouble
    note = ""
    if ignored := max(run.ignored for run in runs):
        note = f"{ignored} {'line is no mark' if ignored == 1 else 'lines are no marks'}"
    if len({tuple(phase.name for phase in run.phases) for run in runs}) > 1:
        differ = "the phases differ from run to run: those of the first run are stated"
        return _without_empty_start(runs[0].phases), "; ".join(filter(None, (note, differ)))
    medians = tuple(_median(phases) for phases in zip(*(run.phases for run in runs), strict=True))
    return _without_empty_start(medians), note


def _without_empty_start(phases: tuple[PhaseMemory, ...]) -> tuple[PhaseMemory, ...]:
    """Leave the phase before the first mark out if it was too short for a sample."""
    first, *others = phases
    empty = first.name == FIRST_PHASE and not first.samples and first.live_bytes is None
    return tuple(others) if others and empty else phases


def _median(phases: Sequence[PhaseMemory]) -> PhaseMemory:
    began_ns = statistics.median_low(phase.began_ns for phase in phases)
    lives = [phase.live_bytes for phase in phases if phase.live_bytes is not None]
    sampled = [phase for phase in phases if phase.samples]
    return PhaseMemory(
        name=phases[0].name,
        began_ns=began_ns,
        ended_ns=began_ns + statistics.median_low(phase.ended_ns - phase.began_ns for phase in phases),
        samples=sum(phase.samples for phase in phases),
        peak_bytes=statistics.median_low(phase.peak_bytes for phase in sampled) if sampled else 0,
        retained_bytes=statistics.median_low(phase.retained_bytes for phase in sampled) if sampled else 0,
        live_bytes=statistics.median_low(lives) if len(lives) == len(phases) else None,
    )
