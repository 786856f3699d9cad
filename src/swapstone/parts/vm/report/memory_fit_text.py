# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of ``compare --fit-memory`` in a sentence, its table and its notes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from swapstone.core.model import grouped
from swapstone.core.model.number_text import size_text
from swapstone.core.model.safe_text import safe
from swapstone.parts.vm.model.memory_fit import MemoryFit, VariantMemory

HEAD = ("variant", "survived", "failed", "peak RSS", "runs", "how it failed")


def answer(fit: MemoryFit) -> str:
    """Return the answer: a sentence for each workload."""
    found = grouped(fit.variants, lambda each: each.workload)
    return "\n".join(
        (f"{workload}: " if len(found) > 1 else "") + _sentence(which) for workload, which in found.items()
    )


def _sentence(variants: Sequence[VariantMemory]) -> str:
    found = sorted((each for each in variants if each.smallest_bytes), key=lambda each: each.smallest_bytes)
    parts = []
    for number, each in enumerate(found):
        verb = "survives in" if number == 0 or each.smallest_bytes == found[0].smallest_bytes else "needs"
        doubt = "" if each.complete else "at most "
        least = "" if each.failed_bytes or not each.complete else " (the smallest size that was tried)"
        parts.append(f"{each.name} {verb} {doubt}{size_text(each.smallest_bytes)}{least}")
    parts += [f"{each.name} {_without_size(each)}" for each in variants if not each.smallest_bytes]
    text = ("; " if any("," in each.name for each in variants) else ", ").join(parts)
    if len(found) > 1 and (difference := found[-1].smallest_bytes - found[0].smallest_bytes):
        # One threshold may lie between the largest size that failed and the smallest that survived of all variants.
        if max(each.failed_bytes for each in found) < found[0].smallest_bytes:
            text += " (a difference within the resolution)"
        elif difference <= max(_variation_bytes(each) for each in found):
            text += " (a difference that may be one from run to run)"
    return f"{text}."


def _without_size(variant: VariantMemory) -> str:
    if variant.unavailable:
        return "can't run even without a limit"
    if variant.complete:
        return f"does not survive in {size_text(variant.failed_bytes)}, the largest size that was tried"
    return "has no result yet"


def _variation_bytes(variant: VariantMemory) -> int:
    """Return how wide the range of sizes is in which some runs survive and others fail, or that of the peaks without a limit, if wider."""
    range_bytes = variant.smallest_bytes - variant.varies_from_bytes if variant.varies_from_bytes else 0
    return max(range_bytes, variant.peak_rss_bytes - variant.least_rss_bytes if variant.least_rss_bytes else 0)


def rows(fit: MemoryFit) -> list[tuple[str, ...]]:
    """Return the rows of the table, whose columns are `HEAD`."""
    return [
        (
            label(fit, each),
            size_text(each.smallest_bytes) if each.smallest_bytes else "-",
            size_text(each.failed_bytes) if each.failed_bytes else "none" if each.smallest_bytes else "-",
            size_text(each.peak_rss_bytes) if each.peak_rss_bytes else "-",
            str(each.runs),
            f"unavailable: {each.unavailable}" if each.unavailable else each.how_failed,
        )
        for each in fit.variants
    ]


def notes(fit: MemoryFit) -> Iterator[str]:
    """Yield the rule, the resolution, and what limits the figures."""
    yield f"Limited: {fit.limited}. Resolution: {fit.resolution}."
    yield fit.rule
    compared = tuple(dict.fromkeys(each.compared for each in fit.variants if each.compared))
    if compared:
        yield f"Compared with the runs without a limit: {'; '.join(compared)}."
    for each in fit.variants:
        if any(size.by_machine and size.memory_bytes == each.failed_bytes for size in each.sizes):
            yield (
                f"Below {size_text(each.smallest_bytes)}, what starts the program ran out of memory for {each.name}, and not the program, "
                "which may need less."
            )
        if each.varies_from_bytes and not each.survived_below:
            yield (
                f"Varies from run to run: from {size_text(each.varies_from_bytes)}, some runs of {each.name} survived and others "
                "failed. The smallest size stated is one in which none failed."
            )
        if each.survived_below:
            below = ", ".join(map(size_text, each.survived_below))
            yield (
                f"Not monotonic: {each.name} failed in {size_text(each.failed_bytes)}, and survived in less: {below}. The smallest size "
                "stated is the one above which none failed."
            )
    if fit.interrupted:
        yield "Interrupted: the search was not complete."


def wrapped(text: str, width: int) -> str:
    """Return a text in lines of at most so many columns, with control characters escaped; words are not divided."""
    return textwrap.fill(safe(text), width=width, break_long_words=False, break_on_hyphens=False)


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
