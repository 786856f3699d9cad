# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resident memory by phase and over time of ``compare --fit-memory``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapstone.core.model import MemorySeries, PhaseMemory
from swapstone.core.model.memory_size import size_text
from swapstone.parts.vm.model.memory_fit import MemoryFit, VariantMemory

PHASE_HEAD = ("variant", "phase", "time", "peak", "retained", "live", "retained / live")
_LEVELS, _ASCII_LEVELS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_LEAST_COLUMNS = 20


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


def over_time(fit: MemoryFit, width: int, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield lines that show the resident memory of each variant over time, all on the same scales, and where its phases begin.

    Args:
        fit: the result.
        width: of a line, in columns.
        ascii_only: whether other characters can't be printed.
    """
    able = [each for each in fit.variants if not each.unavailable]
    found = [(label(fit, each), each.series) for each in able if each.series and each.series.samples]
    if not found:
        return
    longest = max(len(name) for name, _ in found)
    columns = max(_LEAST_COLUMNS, width - longest - 2)
    highest = max(max(size for _, size in series.samples) for _, series in found)
    until_ns = max(series.samples[-1][0] for _, series in found)
    yield f"Resident memory over time: up to {size_text(highest)}, {until_ns / 1e9:.2f} s"
    for name, series in found:
        yield f"{name:<{longest}}  {_drawn(series, columns, highest, until_ns, ascii_only=ascii_only)}".rstrip()
        yield f"{'':<{longest}}  {_ruler(series.phases, columns, until_ns)}".rstrip()


def _drawn(series: MemorySeries, columns: int, highest: int, until_ns: int, *, ascii_only: bool) -> str:
    """Return a character for each column: the largest sample in its time, or the one before it."""
    largest: list[int | None] = [None] * columns
    levels, drawn, height = _ASCII_LEVELS if ascii_only else _LEVELS, "", 0
    for at_ns, size in series.samples:
        column = _column(at_ns, columns, until_ns)
        largest[column] = max(largest[column] or 0, size)
    for each in largest[: _column(series.samples[-1][0], columns, until_ns) + 1]:
        height = height if each is None else each
        drawn += levels[-(-height * (len(levels) - 1) // max(1, highest))]
    return drawn


def _ruler(phases: Sequence[PhaseMemory], columns: int, until_ns: int) -> str:
    """Return a line with the name of each phase where it begins, as far as there is room before the next one."""
    starts = [_column(phase.began_ns, columns, until_ns) for phase in phases]
    drawn = ""
    for phase, start, end in zip(phases, starts, [*starts[1:], columns + len(phases[-1].name)], strict=True):
        drawn = drawn.ljust(start)[:start] + f"|{phase.name}"[: max(0, end - start)]
    return drawn[:columns]


def _column(at_ns: int, columns: int, until_ns: int) -> int:
    return min(columns - 1, at_ns * columns // max(1, until_ns))


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
