# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resident memory of a program over time, in phases that the program marks."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct

PHASES_VARIABLE = "SWAPSTONE_PHASES"
"""Names a FIFO. Each line that the program writes into it is a mark (docs/fit-memory.md)."""

FIRST_PHASE = "start"
"""The phase before the first mark."""


class PhaseMemory(FrozenStruct, frozen=True, kw_only=True):
    """The resident memory of all processes of a run in one phase.

    Attributes:
        name: as marked.
        began_ns, ended_ns: since the first sample or mark of the run. The last phase ends with the last sample.
        samples: how many were taken in it; the sizes are 0 without one.
        peak_bytes: the largest sample.
        retained_bytes: the median of the samples in the second half of its time. So what is freed or allocated at its edges, as when a
            program ends, does not count.
        live_bytes: what the program stated to hold; None if it stated nothing.
    """

    name: str
    began_ns: int = 0
    ended_ns: int = 0
    samples: int = 0
    peak_bytes: int = 0
    retained_bytes: int = 0
    live_bytes: int | None = None

    @property
    def retained_over_live(self) -> float | None:
        """The retained memory, divided by what the program stated to hold; None if either is unknown."""
        return self.retained_bytes / self.live_bytes if self.live_bytes and self.samples else None


class MemorySeries(FrozenStruct, frozen=True, kw_only=True):
    """The resident memory of all processes of one run over time.

    Attributes:
        samples: pairs (time in ns since the first sample or mark, bytes), in order of time. Of a long run, each pair is the largest of
            several neighbouring samples.
        phases: in order of time, `FIRST_PHASE` first.
        ignored: lines that are no marks, or are too many.
        unavailable: why there are no samples; empty if there are.
    """

    samples: tuple[tuple[int, int], ...] = ()
    phases: tuple[PhaseMemory, ...] = ()
    ignored: int = 0
    unavailable: str = ""

    @property
    def marked(self) -> bool:
        """Whether the program marked a phase or stated what it holds."""
        return any(phase.name != FIRST_PHASE or phase.live_bytes is not None for phase in self.phases)


MEMORY = "memory"
"""Their group."""

RESIDENT, HUGE = "resident bytes", "bytes in huge pages"
