# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ledger: the difference of a row in time, split into classes of cost."""

from __future__ import annotations

import collections
import math

from swapstone.core.model.number_text import fixed
from swapstone.core.model.profile import KERNEL, Profile
from swapstone.parts.explain.explanation.cost_classes import READY, UNNAMED, WAITING, CostClasses, wait_class
from swapstone.parts.explain.explanation.intervals import SideRuns, intervals
from swapstone.parts.explain.model.explanation import InstrumentResult, Ledger, LedgerLine, Reference, RowMeasurements
from swapstone.parts.explain.model.variant_label import short_label

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
    run, counted = run_of(seen, "on-cpu", reference.variant), system_share(reference)
    if run is None or run.profile is None or counted is None or not run.profile.samples:
        return ""
    (share, ticks), sampled = counted, kernel_share(run.profile)
    spread = math.sqrt(0.25 * (1 / run.profile.samples + 1 / ticks))  # of a share of a half, the largest
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


Parts = dict[tuple[str, str], float]
"""Shares or times by (class, detail)."""

WALL = "wall"


def shares(profile: Profile, classes: CostClasses) -> Parts:
    """Return the share of each class in a profile. The shares sum to 1; an empty profile has none."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    total = profile.total
    for stack, key in zip(profile.stacks, classes.of_stacks(profile), strict=True):
        found[key] += stack.weight / total  # type: ignore[assignment]
    return dict(found)


def ledger(seen: RowMeasurements, classes: CostClasses) -> Ledger | None:
    """Split the difference of a row into classes of cost.

    The total is the difference in the record. The time of each class is that of the reference runs (without instruments), divided by
    the shares that the instruments measured: off-CPU for running, waiting and runnable time, on-CPU for the running time. So
    the residual has two parts: stacks without a class, and the deviation of the reference runs from the record.

    Args:
        seen: the measurements of both variants.
        classes: the classes of cost.

    Returns:
        None without an on-CPU profile of both variants, or if the profile contradicts the kernel's own counters (`split_problem`).
    """
    if split_problem(seen):
        return None
    notes: list[str] = []
    runs = [runs for reference in seen.references if (runs := _runs_of(seen, reference)) is not None]
    if len(runs) < len(seen.references):
        return None
    metric = seen.ledger_metric
    now = [dict(reference.metrics).get(metric, 0.0) for reference in seen.references]
    sides = [_side(side, total, classes, notes) for side, total in zip(runs, now, strict=True)]
    before, after = (
        total if side.reference.time_ns is None else side.reference.time_ns
        for side, total in zip(runs, now, strict=True)
    )
    keys = [
        key
        for key in dict.fromkeys([*sides[0], *sides[1]])
        if key[0] != UNNAMED and any(side.get(key) for side in sides)
    ]
    apart = {key: sides[1].get(key, 0.0) - sides[0].get(key, 0.0) for key in keys}
    found = intervals(runs, apart, metric, classes)
    lines = [
        LedgerLine(
            cause=key[0],
            detail=key[1],
            baseline=sides[0].get(key, 0.0),
            candidate=sides[1].get(key, 0.0),
            interval=found.lines[key] if found else None,
        )
        for key in keys
    ]
    lines.sort(key=lambda line: (-abs(line.difference), line.cause, line.detail))
    named = sum(line.difference for line in lines)
    return Ledger(
        metric=metric,
        baseline=before,
        candidate=after,
        lines=tuple(lines),
        residual=after - before - named,
        drift=(after - before) - (now[1] - now[0]),
        notes=tuple(dict.fromkeys(notes)),
        sampling=found.sampling if found else None,
        samples=(runs[0].on_cpu.samples, runs[1].on_cpu.samples),
        causes=tuple(found.causes.items()) if found else (),
        repeated=found.repeated if found else None,
    )


def run_of(seen: RowMeasurements, instrument: str, variant: str) -> InstrumentResult | None:
    """Return the result of an instrument for a variant."""
    return next((run for run in seen.runs if run.instrument == instrument and run.variant == variant), None)


def _runs_of(seen: RowMeasurements, reference: Reference) -> SideRuns | None:
    """Return what the ledger of one side is computed from; None without an on-CPU profile."""
    on_cpu, off_cpu = (run_of(seen, instrument, reference.variant) for instrument in ("on-cpu", "off-cpu"))
    waits = seen.ledger_metric == WALL
    if on_cpu is None or on_cpu.profile is None:
        return None
    return SideRuns(reference, on_cpu.profile, off_cpu.elapsed if off_cpu is not None and waits else None, waits)


def _side(side: SideRuns, total: float, classes: CostClasses, notes: list[str]) -> Parts:
    """Return the times of one side: processor time by class, and for elapsed time what passed otherwise."""
    running, passed = _passed(side, classes, notes) if side.waits else (1.0, {})
    parts: collections.Counter[tuple[str, str]] = collections.Counter()
    for key, share in shares(side.on_cpu, classes).items():
        parts[key] += share * running * total  # type: ignore[assignment]
    for key, share in passed.items():
        parts[key] += share * total  # type: ignore[assignment]
    return dict(parts)


def _passed(side: SideRuns, classes: CostClasses, notes: list[str]) -> tuple[float, Parts]:
    """Return the share of the elapsed time in which a thread ran, and the others: each kind of wait, and runnable without a processor."""
    metrics, elapsed = dict(side.reference.metrics), side.elapsed
    cpu_share = metrics.get("cpu", 0.0) / metrics["wall"] if metrics.get("wall") else 1.0
    if elapsed is None or not elapsed.wall_ns:
        cpu_share = min(1.0, cpu_share)
        notes.append("there is no off-CPU profile, so waits have no cause")
        return cpu_share, {(WAITING, "cause unknown"): 1.0 - cpu_share}
    waits: collections.Counter[tuple[str, str]] = collections.Counter()
    for frames, weight in elapsed.waits.weighted():
        waits[wait_class(frames, classes)] += weight  # type: ignore[assignment]
    waits[READY, ""] += elapsed.ready_ns  # type: ignore[assignment]
    off = sum(waits.values())
    if elapsed.most_threads > 1:
        notes.append(
            "several threads were active at the same time: elapsed time is divided among them, as measured by the off-CPU runs"
        )
    if elapsed.most_threads > 1 and not elapsed.cpu_ns:  # evidence of a version that did not store CPU time
        whole = elapsed.running_ns + off
        return elapsed.running_ns / whole, {key: value / whole for key, value in waits.items()}
    # CPU time comes from the reference runs, which perf does not slow down. Only the share of it in which one thread ran alone, and which
    # is elapsed time too, comes from the recording. The rest of the elapsed time was spent off the processor.
    alone = elapsed.running_ns / elapsed.cpu_ns if elapsed.cpu_ns else 1.0
    running = min(1.0, cpu_share * alone)
    if not off:
        return running, {(UNNAMED, "waiting"): 1.0 - running}
    return running, {key: value / off * (1.0 - running) for key, value in waits.items()}
