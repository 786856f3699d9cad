# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resident memory by phase of ``compare --fit-memory``."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.core.model.memory_size import size_text
from swapstone.parts.vm.model.memory_fit import MemoryFit, VariantMemory

PHASE_HEAD = ("variant", "phase", "time", "peak", "retained", "live", "retained / live")


def marks_phases(fit: MemoryFit) -> bool:
    """Return whether a variant marked a phase, and was sampled."""
    return any(each.phases and each.series is not None and each.series.marked for each in fit.variants)


def label(fit: MemoryFit, variant: VariantMemory) -> str:
    """Return a variant's name, with the workload's where there are several."""
    return f"{variant.workload} {variant.name}" if len({each.workload for each in fit.variants}) > 1 else variant.name


def phase_rows(fit: MemoryFit) -> list[tuple[str, ...]]:
    """Return the rows of the table of phases, whose columns are `PHASE_HEAD`."""
    return [
        (
            label(fit, variant),
            phase.name,
            f"{(phase.ended_ns - phase.began_ns) / 1e9:.2f} s",
            size_text(phase.peak_bytes) if phase.samples else "-",
            size_text(phase.retained_bytes) if phase.samples else "-",
            "-" if phase.live_bytes is None else size_text(phase.live_bytes),
            "-" if phase.retained_over_live is None else f"{phase.retained_over_live:.2f}",
        )
        for variant in fit.variants
        if not variant.unavailable
        for phase in variant.phases
    ]


def phase_notes(fit: MemoryFit) -> Iterator[str]:
    """Yield what the figures are, and what limits them."""
    notes = {each.phases_note: None for each in fit.variants if each.series is None}
    yield from (f"Phases: {note}." for note in notes if note)
    if marks_phases(fit):
        yield (
            "Phases: anonymous and shared memory of all processes without a limit, sampled every 10 ms or less often. Each figure is the "
            "median of the runs. Peak is the largest sample, retained the median of those in the second half of the phase, live what the "
            "program stated to hold."
        )
    for each in fit.variants:
        if each.phases_note and each.series is not None and each.series.marked:
            yield f"Phases of {label(fit, each)}: {each.phases_note}."
