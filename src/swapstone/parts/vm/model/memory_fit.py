# SPDX-License-Identifier: MIT OR Apache-2.0
"""The smallest memory in which each variant of an own program survives."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.memory_phases import MemorySeries, PhaseMemory


class TriedMemory(FrozenStruct, frozen=True, kw_only=True):
    """A size of memory that was tried.

    Attributes:
        memory_bytes: the size.
        survived: whether every run at this size did.
        runs: how many were made; a failed one is the last.
        how: how the last run failed; empty if it did not.
        by_machine: whether the machine or the agent that starts the program failed there, and not the program.
    """

    memory_bytes: int
    survived: bool
    runs: int
    how: str = ""
    by_machine: bool = False


class VariantMemory(FrozenStruct, frozen=True, kw_only=True):
    """What one variant of a program needs.

    Attributes:
        workload, variant: which.
        name: the variant in a few words, for sentences.
        smallest_bytes: the smallest size that survived and above which none failed; 0 if there is none.
        failed_bytes: the largest size that failed; 0 if none did.
        how_failed: how it failed there.
        survived_below: sizes below `failed_bytes` that survived.
        varies_from_bytes: the smallest size at which a run survived although another one, at this or a larger size, did not; 0 if there
            is none: the result does not vary from run to run.
        peak_rss_bytes: highest resident size without a limit, of the program or the largest child that it waited for.
        least_rss_bytes: the same of the run without a limit that has the lowest.
        peak_cgroup_bytes: highest use of its memory cgroup without a limit; 0 if unknown.
        compared: what had to be as without a limit.
        runs: how many were made, with those without a limit.
        sizes: all that were tried, in their order.
        complete: whether the search came to its end.
        unavailable: why it could not run even without a limit; empty if it could.
        phases: that the program marked, without a limit; of several runs the medians. One phase if it marked none.
        phases_note: what limits them.
        series: resident memory over time, of the first run without a limit.
    """

    workload: str
    variant: str
    name: str = ""
    smallest_bytes: int = 0
    failed_bytes: int = 0
    how_failed: str = ""
    survived_below: tuple[int, ...] = ()
    varies_from_bytes: int = 0
    peak_rss_bytes: int = 0
    least_rss_bytes: int = 0
    peak_cgroup_bytes: int = 0
    compared: str = ""
    runs: int = 0
    sizes: tuple[TriedMemory, ...] = ()
    complete: bool = False
    unavailable: str = ""
    phases: tuple[PhaseMemory, ...] = ()
    phases_note: str = ""
    series: MemorySeries | None = None


class MemoryFit(FrozenStruct, frozen=True, kw_only=True):
    """The smallest memory of each variant.

    Attributes:
        program: the options that name it.
        target, clock: where it ran.
        limited: what the size is of.
        rule: when a size counts as survived.
        resolution: how near the sizes that survived and failed are.
        most_bytes: the largest size.
        variants: the baseline first.
        machine: pairs (name, value) that describe the machine.
        tools: pairs (tool, version).
        interrupted: whether a signal ended the search.
        took_ns: elapsed time.
        version: of this form.
    """

    program: str
    target: str
    clock: str
    limited: str
    rule: str
    resolution: str
    most_bytes: int
    variants: tuple[VariantMemory, ...]
    machine: tuple[tuple[str, str], ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    interrupted: bool = False
    took_ns: int = 0
    version: int = 1
