# SPDX-License-Identifier: MIT OR Apache-2.0
"""The smallest memory in which an own program survives, for each variant: ``compare --fit-memory``."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from swapstone.core.model import USUAL_MEMORY_BYTES, Experiment, OwnProgram, UserError
from swapstone.core.model.number_text import size_text
from swapstone.core.report.printed_json import printed_json
from swapstone.core.run.prepare import Prepared, check_levels, prepare
from swapstone.core.session.command_text import command_line
from swapstone.core.session.compare_options import single_comparison
from swapstone.core.session.experiment import check_experiment, events
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.option_values import format_duration
from swapstone.core.session.progress import Progress
from swapstone.core.targets import Capabilities, Target, find_target_kind
from swapstone.core.targets.memory_cgroup import usable_place
from swapstone.core.targets.target import NO_LIMIT_BYTES
from swapstone.parts.vm.model.memory_fit import MemoryFit, VariantMemory
from swapstone.parts.vm.run.memory_fit import (
    LEAST_TIMEOUT_MS,
    LONGER,
    MIB,
    MemoryRule,
    MemorySearch,
    Resolution,
    memory_trials,
    search_all,
)

EXAMPLE = "swapstone compare allocator=default,mimalloc --fit-memory -- ./my-server --self-test"

REPEATS = 3
"""Runs for each size on the wall clock, and without a limit."""

_LEAST_BYTES, _MOST_BYTES = 64 << 10, 1 << 30
_SHARE = 0.02
_OTHER_MACHINE_BYTES = 64 * MIB
"""On the virtual clock a second run without a limit has so much more memory: an output that depends on the memory is recognized."""


def fit_memory(
    options: Mapping[str, object], program: tuple[str, ...] | None, resolution: str | None, progress: Progress
) -> MemoryFit:
    """Search for the smallest memory in which each variant survives of the own program that a command line describes.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.
        resolution: as typed; None for the default.
        progress: receives events and, as notes, each size that was tried.

    Returns:
        What was found, also if SIGINT ended the search.

    Raises:
        UserError: an option is wrong, or nothing can run here.
    """
    began_ns = time.monotonic_ns()
    made = single_comparison(options, program)
    experiment, own = made.experiment, made.experiment.own
    if own is None:
        raise UserError("--fit-memory needs a program of yours.", f"For example: {EXAMPLE}")
    if own.load_generators:
        raise UserError(
            "--fit-memory takes a program that ends, and --server does not.",
            f"Name a test that starts the server, uses it and ends it: {EXAMPLE}",
        )
    check_experiment(experiment)
    kind = find_target_kind(experiment.target).opens
    nearness = parse_resolution(resolution, machine="boots" in kind.offers)
    _require_limit(kind)
    with open_experiment_target(experiment, progress.note, made.options, snapshots=False) as target:
        check_levels(experiment, target)
        with events(experiment, made.options, progress):
            prepared = prepare(experiment, target, progress.building, progress.note, rebuild=made.options.rebuild)
        rule = _rule(experiment, own, target, nearness)
        run = memory_trials(prepared, target)
        searches = [MemorySearch(key, rule, run) for key in prepared.programs]
        report = functools.partial(_report, progress, prepared)
        complete = search_all(searches, target, report)
        return MemoryFit(
            program=command_line(experiment),
            target=experiment.target,
            clock=experiment.clock,
            limited="memory of the machine, with its kernel and files"
            if "boots" in target.offers
            else "memory cgroup, without swap",
            rule=rule_text(rule, machine="boots" in target.offers),
            resolution=resolution_text(nearness),
            most_bytes=rule.most_bytes,
            variants=_in_order(prepared, searches),
            machine=target.describe().facts(),
            tools=target.tools(),
            interrupted=not complete,
            took_ns=time.monotonic_ns() - began_ns,
        )


def _require_limit(target: Capabilities) -> None:
    """Raise if the memory of programs can't be limited here.

    Raises:
        UnavailableError: it can't; the message gives the reason.
        UserError: the target has no way to limit it.
    """
    if "boots" in target.offers:
        return
    if "limits_memory" not in target.offers:
        raise UserError(
            f"The target {target.name} can't limit a program's memory.", "Use --target host or --target vm."
        )
    usable_place()


def _rule(experiment: Experiment, own: OwnProgram, target: Target, resolution: Resolution) -> MemoryRule:
    if "boots" in target.offers:
        usual = own.memory_bytes or USUAL_MEMORY_BYTES
        more = (usual + _OTHER_MACHINE_BYTES,) if experiment.virtual else (usual,) * (REPEATS - 1)
        if experiment.virtual and (own.output or own.output_may_differ):
            more = ()  # there is no output that could depend on the memory
        unlimited, most = (usual, *more), usual
    else:
        unlimited, most = (NO_LIMIT_BYTES,) * REPEATS, target.describe().memory_bytes or _MOST_BYTES
    return MemoryRule(
        unlimited=unlimited,
        tries_unlimited="boots" in target.offers,
        repeats=1 if experiment.virtual else REPEATS,
        most_bytes=resolution.down(most),
        resolution=resolution,
        timeout_ms=own.timeout_ms,
        output_may_differ=own.output_may_differ,
    )


def _in_order(prepared: Prepared, searches: Sequence[MemorySearch]) -> tuple[VariantMemory, ...]:
    """Return the results in the order of workloads and variants, with those that could not be built."""
    known = {search.key: search.result() for search in searches}
    found = []
    for suite, workload in prepared.subjects:
        for label, variant in prepared.variants.items():
            key = (suite, workload, label)
            why = " | ".join(prepared.refused.get(key, "").splitlines())
            result = known.get(key, VariantMemory(workload=workload, variant=label, unavailable=why))
            found.append(msgspec.structs.replace(result, name=variant.short_label))
    return tuple(found)


def _report(progress: Progress, prepared: Prepared, search: MemorySearch, left: int, part_s: float) -> None:
    """Write a line for each size that was tried, with an estimate of the time that is left."""
    result = search.result()
    name = prepared.variants[search.key[2]].short_label
    if len(prepared.subjects) > 1:
        name = f"{search.key[1]} {name}"
    if result.unavailable:
        progress.note(f"{name}: can't run without a limit: {result.unavailable}")
        return
    last = result.sizes[-1] if result.sizes else None
    what = f"without a limit, peak resident size {size_text(result.peak_rss_bytes)}"
    if last is not None:
        what = f"{size_text(last.memory_bytes)} {'survived' if last.survived else f'failed: {last.how}'}"
    time_left = f"; about {format_duration(round(left * part_s * 1e9))} left" if left * part_s >= 1 else ""
    progress.note(f"{name}: {what}{time_left}")


def parse_resolution(text: str | None, *, machine: bool) -> Resolution:
    """Parse a resolution: a size such as ``256K`` or ``4M``, or a share of the size such as ``5%``.

    Args:
        text: as typed; None for 1 MiB or 2 %, whichever is larger.
        machine: whether the memory is that of a machine, which has whole MiB.

    Raises:
        UserError: it has another form, or is out of range.
    """
    if text is None:
        return Resolution()
    if found := re.fullmatch(r"([1-9][0-9]{0,6})([KMG])", text, re.ASCII):
        size = int(found[1]) << {"K": 10, "M": 20, "G": 30}[found[2]]
        if machine and size % MIB:
            raise UserError(
                f"--fit-resolution {text}: the memory of a machine has whole MiB.", "For example: --fit-resolution 1M"
            )
        if _LEAST_BYTES <= size <= _MOST_BYTES and size % 4096 == 0:
            return Resolution(least_bytes=size, share=0.0, grid_bytes=min(size, MIB))
    elif found := re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,3})?)%", text, re.ASCII):
        share = float(found[1]) / 100
        grid = MIB if machine else _LEAST_BYTES
        if 0.001 <= share <= 0.5:
            return Resolution(least_bytes=grid, share=share, grid_bytes=grid)
    raise UserError(
        f"--fit-resolution {text[:40]!r} is no size from 64K to 1G, and no share from 0.1% to 50%.",
        "For example: --fit-resolution 256K, or --fit-resolution 5%",
    )


def resolution_text(resolution: Resolution) -> str:
    """Return a resolution in words."""
    share = f"{resolution.share * 100:g} % of the size"
    least = size_text(resolution.least_bytes)
    return f"{least} or {share}, whichever is larger" if resolution.share else least


def rule_text(rule: MemoryRule, *, machine: bool) -> str:
    """Return in words when a size counts as survived."""
    runs = "one run" if rule.repeats == 1 else f"each of {rule.repeats} runs"
    killed = (
        "no process is killed because memory is used up"
        if not machine
        else "no process of the machine is killed because memory is used up"
    )
    return (
        f"A size counts as survived if in {runs} exit status and output are as without a limit, {killed}, and it takes at most "
        f"{LONGER} times as long as without a limit (or {LEAST_TIMEOUT_MS // 1000} s)"
        + ("; a run on the virtual clock is exact." if rule.repeats == 1 else ".")
    )


def encode_fit(fit: MemoryFit) -> str:
    """Return what was found as JSON."""
    return printed_json("memory-fit", **msgspec.structs.asdict(fit))
