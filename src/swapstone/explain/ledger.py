"""The ledger: a row's difference in time, split by what the time went into."""

from __future__ import annotations

import collections

from swapstone.explain.cost_classes import LOCKS, READY, UNNAMED, WAITING, Classes
from swapstone.model import (
    KERNEL,
    KERNEL_LOCKS,
    Frame,
    Instrumented,
    Ledger,
    LedgerLine,
    Passing,
    Profile,
    Reference,
    Seen,
)

Parts = dict[tuple[str, str], float]
"""Shares or times by (class, detail)."""

WALL = "wall"

_OF_MEMORY = (
    *(
        "lock_mm_and_find_vma",
        "__vm_munmap",
        "vm_mmap_pgoff",
        "do_madvise",
        "madvise",
        "do_mprotect",
        "__do_sys_mremap",
    ),
    *(
        "__do_sys_brk",
        "__x64_sys_brk",
        "__arm64_sys_brk",
        "do_page_fault",
        "do_user_addr_fault",
        "exc_page_fault",
        "exit_mmap",
    ),
)
"""How the names of the kernel's functions begin that take the lock of a process's address space (mmap_lock), or those of its parts."""


def shares(profile: Profile, classes: Classes) -> Parts:
    """Return the share of each class in a profile; they sum to 1, or it is empty."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    total = sum(stack.weight for stack in profile.stacks)
    for stack in profile.stacks:
        frames = [profile.frames[number] for number in stack.frames]
        found[classes.of(frames)] += stack.weight / total  # type: ignore[assignment]
    return dict(found)


def wait_class(frames: list[Frame], classes: Classes) -> tuple[str, str]:
    """Return the class of a wait: what a thread that left its processor with this stack waited for."""
    name, detail = classes.of(frames)
    if name == LOCKS:
        return LOCKS, detail
    kernel = [frame.symbol for frame in frames if frame.object == KERNEL]
    if any(symbol.startswith(KERNEL_LOCKS) for symbol in kernel):
        whose = "address space" if any(symbol.startswith(_OF_MEMORY) for symbol in kernel) else "kernel"
        return LOCKS, f"of the {whose}, in {detail or name}"
    if not frames:
        return UNNAMED, "waiting"
    return WAITING, f"in {detail or name}"


def ledger(seen: Seen, classes: Classes) -> Ledger | None:
    """Split the difference.

    What is split is the difference that the record has. What the classes get is the time of the runs that were made now, without an
    instrument, by the shares that the instruments saw: how the time passed (running, waiting, without a processor) by the off-CPU
    instrument, and what the running time went into by the on-CPU one. So the residual holds what has no name, and also what the runs
    now and those of the record differ in.

    Args:
        seen: what was seen of both sides.
        classes: which stack belongs where.

    Returns:
        None where there is no on-CPU profile of both.
    """
    notes: list[str] = []
    sides = []
    for reference in seen.references:
        parts = _side(seen, reference, classes, notes)
        if parts is None:
            return None
        sides.append(parts)
    before, after = (_time_of(seen, reference) for reference in seen.references)
    keys = dict.fromkeys([*sides[0], *sides[1]])
    lines = [
        LedgerLine(
            cause=cause,
            detail=detail,
            baseline=sides[0].get((cause, detail), 0.0),
            candidate=sides[1].get((cause, detail), 0.0),
        )
        for cause, detail in keys
        if cause != UNNAMED and any(side.get((cause, detail)) for side in sides)
    ]
    lines.sort(key=lambda line: (-abs(line.difference), line.cause, line.detail))
    named = sum(line.difference for line in lines)
    now = [dict(reference.metrics).get(seen.ledger_metric, 0.0) for reference in seen.references]
    return Ledger(
        metric=seen.ledger_metric,
        baseline=before,
        candidate=after,
        lines=tuple(lines),
        residual=after - before - named,
        drift=(after - before) - (now[1] - now[0]),
        notes=tuple(dict.fromkeys(notes)),
    )


def run_of(seen: Seen, instrument: str, variant: str) -> Instrumented | None:
    """Return what an instrument gave for a variant."""
    return next((run for run in seen.runs if run.instrument == instrument and run.variant == variant), None)


def _time_of(seen: Seen, reference: Reference) -> float:
    """Return the time of an operation in the record, or that of the runs now where the row is of another metric."""
    if reference.time_ns is not None:
        return reference.time_ns
    return dict(reference.metrics).get(seen.ledger_metric, 0.0)


def _side(seen: Seen, reference: Reference, classes: Classes, notes: list[str]) -> Parts | None:
    on_cpu = run_of(seen, "on-cpu", reference.variant)
    if on_cpu is None or on_cpu.profile is None:
        return None
    total = dict(reference.metrics).get(seen.ledger_metric, 0.0)
    running = shares(on_cpu.profile, classes)
    if seen.ledger_metric != WALL:
        return {key: share * total for key, share in running.items()}
    off_cpu = run_of(seen, "off-cpu", reference.variant)
    passed = _passed(reference, off_cpu.passing if off_cpu else None, classes, notes)
    parts: collections.Counter[tuple[str, str]] = collections.Counter()
    for key, share in running.items():
        parts[key] += share * passed["", "running"] * total  # type: ignore[assignment]
    for key, share in passed.items():
        if key != ("", "running"):
            parts[key] += share * total  # type: ignore[assignment]
    return dict(parts)


def _passed(reference: Reference, passing: Passing | None, classes: Classes, notes: list[str]) -> Parts:
    """Return how the elapsed time passed: shares of running, of each kind of wait, and of waiting for a processor."""
    metrics = dict(reference.metrics)
    cpu_share = metrics.get("cpu", 0.0) / metrics["wall"] if metrics.get("wall") else 1.0
    if passing is None or not passing.wall_ns:
        cpu_share = min(1.0, cpu_share)
        notes.append("what it waited for is not known: there is no off-CPU profile")
        return {("", "running"): cpu_share, (WAITING, "for what is not known"): 1.0 - cpu_share}
    waits: collections.Counter[tuple[str, str]] = collections.Counter()
    for stack in passing.waits.stacks:
        frames = [passing.waits.frames[number] for number in stack.frames]
        waits[wait_class(frames, classes)] += stack.weight  # type: ignore[assignment]
    waits[READY, ""] += passing.ready_ns  # type: ignore[assignment]
    off = sum(waits.values())
    if passing.most_threads > 1:
        notes.append("several threads had work at once: each moment is divided among them, as the off-CPU runs show it")
    if passing.most_threads > 1 and not passing.cpu_ns:  # evidence that was kept before processor time was
        whole = passing.running_ns + off
        return {("", "running"): passing.running_ns / whole, **{key: value / whole for key, value in waits.items()}}
    # Processor time is that of the runs without an instrument, which perf does not stretch; only how much of it was one thread's alone, and
    # so elapsed time too, is the recording's. What is left of the elapsed time was spent off the processor, and is split once.
    alone = passing.running_ns / passing.cpu_ns if passing.cpu_ns else 1.0
    running = min(1.0, cpu_share * alone)
    if not off:
        return {("", "running"): running, (UNNAMED, "waiting"): 1.0 - running}
    return {("", "running"): running, **{key: value / off * (1.0 - running) for key, value in waits.items()}}
