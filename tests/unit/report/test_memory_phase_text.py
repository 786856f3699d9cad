# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resident memory by phase."""

from __future__ import annotations

from swapstone.core.model import MemorySeries, PhaseMemory
from swapstone.parts.vm.model.memory_fit import MemoryFit, VariantMemory
from swapstone.parts.vm.report.memory_fit_text import PHASE_HEAD, marks_phases, phase_notes, phase_rows

MIB = 1 << 20
SECOND = 1_000_000_000


def phase(name: str, began: int, ended: int, peak: int, **fields: object) -> PhaseMemory:
    """Return a phase, in s and MiB."""
    made = {"began_ns": began * SECOND, "ended_ns": ended * SECOND, "samples": 1, "peak_bytes": peak * MIB, **fields}
    return PhaseMemory(name=name, **made)  # type: ignore[arg-type]


SPIKE = phase("spike", 0, 4, 80, retained_bytes=60 * MIB)
QUIET = phase("quiet", 4, 10, 60, retained_bytes=40 * MIB, live_bytes=16 * MIB)
SERIES = MemorySeries(
    samples=((0, 40 * MIB), (2 * SECOND, 80 * MIB), (4 * SECOND, 40 * MIB), (10 * SECOND, 1)), phases=(SPIKE, QUIET)
)


def fit(*variants: VariantMemory) -> MemoryFit:
    """Return a result."""
    return MemoryFit(
        program="-- ./p",
        target="host",
        clock="wall",
        limited="memory cgroup",
        rule="A rule.",
        resolution="1 MiB",
        most_bytes=1 << 30,
        variants=variants,
    )


def variant(name: str, series: MemorySeries | None = SERIES, **fields: object) -> VariantMemory:
    """Return a variant with phases."""
    phases = series.phases if series else ()
    return VariantMemory(workload="p", variant=name, name=name, series=series, phases=phases, **fields)  # type: ignore[arg-type]


def test_each_phase_has_a_row() -> None:
    made = phase_rows(fit(variant("glibc")))
    assert made == [
        ("glibc", "spike", "4.00 s", "80 MiB", "60 MiB", "-", "-"),
        ("glibc", "quiet", "6.00 s", "60 MiB", "40 MiB", "16 MiB", "2.50"),
    ]
    assert len(PHASE_HEAD) == len(made[0])
    both = fit(variant("glibc"), variant("musl", unavailable="it ended with status 1"))
    assert phase_rows(both) == made


def test_a_phase_without_a_sample_has_no_size() -> None:
    series = MemorySeries(phases=(PhaseMemory(name="spike", live_bytes=5),))
    assert phase_rows(fit(variant("a", series)))[0][3:] == ("-", "-", "5 B", "-")


def test_a_program_without_marks_has_no_section() -> None:
    unmarked = MemorySeries(samples=((0, 1),), phases=(PhaseMemory(name="start", samples=1),))
    assert not marks_phases(fit(variant("a", unmarked), variant("b", None)))
    assert list(phase_notes(fit(variant("a", unmarked)))) == []
    assert marks_phases(fit(variant("a", unmarked), variant("b")))


def test_what_limits_the_phases_is_a_note() -> None:
    found = list(phase_notes(fit(variant("a"), variant("b", phases_note="1 line is no mark"))))
    assert "median of the runs" in found[0]
    assert found[1:] == ["Phases of b: 1 line is no mark."]
    machine = [variant(name, None, phases_note="unavailable in a virtual machine") for name in "ab"]
    assert list(phase_notes(fit(*machine))) == ["Phases: unavailable in a virtual machine."]
    trouble = VariantMemory(workload="p", variant="a", name="a", series=SERIES, phases_note="no smaps_rollup")
    assert not marks_phases(fit(trouble))
    assert list(phase_notes(fit(trouble))) == ["Phases of a: no smaps_rollup."]
