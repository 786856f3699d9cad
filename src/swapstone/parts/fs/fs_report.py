# SPDX-License-Identifier: MIT OR Apache-2.0
"""The topic of the suite `fs`: what each file system costs, and from which devices each one is the fastest to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from swapstone.core.model import Analysis, Variant
from swapstone.core.report import formatting
from swapstone.core.report.answer import limits, wording
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.commands import commands_for
from swapstone.core.report.answer.means import Phrase, mean_of, places_of
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Block, Section
from swapstone.core.report.ratios import Column, Ratio, Ratios, ratio_fields
from swapstone.core.report.tables import Field, section_of, short_table, unit
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import sides, variants_of

SUITE = "fs"
BOOT, COLD, WARM = "boot", "cold-read", "warm-read"

PHRASES = {
    "to_init": Phrase("time to init", lasts=" from the mount to init"),
    "read_time": Phrase("time to read", lasts=" to read all files"),
    "busy": Phrase("processor time", "uses", "used"),
    "image_bytes": Phrase("image size"),
    "memory_kept": Phrase("memory that is kept"),
}

_RATES = (5, 20, 80, 320)
"""Rates of devices in MB a second, for which the time of a cold read is computed: from a serial NOR flash to an eMMC."""
_MB = 1_000_000
_MOST_ROWS = 12


class _Row(NamedTuple):
    """A file system under a load: medians over the replicates by (workload, metric), and the ratios to the first one."""

    load: str
    variant: Variant
    medians: Mapping[tuple[str, str], float]
    ratio: Callable[[str, str], Ratio | None]

    @property
    def name(self) -> str:
        """The variant in a table."""
        return formatting.safe(self.variant.short_label)

    def median(self, work: str, metric: str) -> float | None:
        """Return a median; None if it was not measured."""
        return self.medians.get((work, metric))

    def from_device(self, rate: float) -> float | None:
        """Return the computed time of a cold read in ns: of the processor, and of the device at a rate in MB a second."""
        busy, read = self.median(COLD, "busy"), self.median(COLD, "device_bytes")
        return None if busy is None or read is None else busy + read * 1e9 / (rate * _MB)


def _rows(context: ReportContext, analysis: Analysis) -> list[_Row]:
    found = sides(analysis, lambda each: each.suite == SUITE)
    variants, ratios = variants_of(analysis, lambda each: each.suite == SUITE), Ratios(analysis)
    medians: dict[tuple[str, Variant], dict[tuple[str, str], float]] = {}
    for side in found:
        medians.setdefault((side.load, side.variant), {})[side.workload, side.metric.name] = side.median

    def ratio(load: str, variant: Variant) -> Callable[[str, str], Ratio | None]:
        return lambda work, metric: ratios.ratio(
            (SUITE, work), Column(load, variants[0]), Column(load, variant), metric
        )

    return [
        _Row(load, variant, medians[load, variant], ratio(load, variant))
        for load in context.experiment.loads
        for variant in variants
        if (load, variant) in medians
    ]


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return what the file systems cost, against the first one; None of an analysis without this suite."""
    rows = _rows(context, analysis)
    comparisons = [row for place in places_of(analysis) if place.suite == SUITE for row in place.leads]
    same = [row for row in rows if row.load == rows[0].load]
    clauses = (
        _best(same, "to_init", "ns", "gets to init first, in"),
        _best(same, "image_bytes", "B", "has the smallest image,"),
    )
    text = "; ".join(filter(None, (*clauses, _devices(same))))
    if not text:
        return None
    of_load = tuple(each for each in comparisons if each.load == same[0].load)
    means = [mean for each in of_load if each.workload == BOOT and (mean := mean_of([each])) is not None]
    claim = Claim(
        suite=SUITE, load=same[0].load, text=text, rows=of_load, names_rows=True, floor=context.experiment.margin
    )
    largest = max(means, key=lambda mean: abs(math.log(mean.effect)), default=None)
    return Answer(
        claims=(claim if largest is None else claim.of_mean(largest),),
        suites=(SUITE,),
        figures=(_table(rows),),
        unknown=(*limits.rejected(comparisons), *limits.open_rows(comparisons)),
        commands=commands_for(context, comparisons),
    )


def _best(rows: Sequence[_Row], metric: str, name: str, words: str) -> str:
    """Return which file system has least of a metric of `BOOT`, beside the first one; empty if fewer than two have it."""
    found = [(value, row.name) for row in rows if (value := row.median(BOOT, metric)) is not None]
    if len(found) < 2:
        return ""
    least, best = min(found)
    beside = [f" ({row} {formatting.quantity(value, name)})" for value, row in found if row == rows[0].name != best]
    return f"{best} {words} {formatting.quantity(least, name)}{''.join(beside)}"


def _devices(rows: Sequence[_Row]) -> str:
    """Return with which file system a cold read takes the shortest computed time, by device; empty if fewer than two have one."""
    fastest: dict[str, list[int]] = {}
    for rate in _RATES:
        times = [(time, row.name) for row in rows if (time := row.from_device(rate)) is not None]
        if len(times) < 2:
            return ""
        fastest.setdefault(min(times)[1], []).append(rate)
    where = [f"{name} at {wording.listed(list(map(str, rates)))} MB/s" for name, rates in fastest.items()]
    return f"a cold read from a device is computed to be fastest with {', '.join(where)}"


def _median(head: str, key: str, work: str, metric: str, name: str) -> Field[_Row]:
    return Field(head, key, lambda row: row.median(work, metric), unit(name, "?"))


_NAME: Field[_Row] = Field("file system", "", lambda row: row.name, right=False)
_KEYS: tuple[Field[_Row], ...] = (
    Field("", "load", lambda row: row.load),
    Field("", "variant", lambda row: row.variant.label),
)
_COSTS: tuple[Field[_Row], ...] = (
    _median("image", "image_bytes", BOOT, "image_bytes", "B"),
    _median("to init", "to_init_ns", BOOT, "to_init", "ns"),
    _median("cold read", "cold_read_ns", COLD, "read_time", "ns"),
    _median("warm read", "warm_read_ns", WARM, "read_time", "ns"),
    _median("memory", "memory_bytes", COLD, "memory", "B"),
    _median("kept", "memory_kept_bytes", COLD, "memory_kept", "B"),
)


def _costs(rows: Sequence[_Row]) -> tuple[Field[_Row], ...]:
    """Return the columns that have a value: an experiment may have some of the workloads."""
    return tuple(field for field in _COSTS if any(field.value(row) is not None for row in rows))


def _table(rows: list[_Row]) -> Block:
    return short_table("What each file system costs", (_NAME, *_costs(rows)), rows, _MOST_ROWS, optional=("kept",))


def _times(head: str, key: str, work: str, metric: str) -> tuple[Field[_Row], ...]:
    return ratio_fields(head, key, lambda row: row.ratio(work, metric), "?")


def _computed(rate: int) -> Field[_Row]:
    return Field(f"{rate} MB/s", f"computed_{rate}_mb_s_ns", lambda row: row.from_device(rate), unit("ns", "?"))


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return the table of costs, and the computed times of a cold read from devices; none of an analysis without this suite."""
    rows = _rows(context, analysis)
    if not rows:
        return ()
    loads: tuple[Field[_Row], ...] = (Field("load", "", lambda row: row.load, formatting.safe, right=False),)
    names = (*(loads if len({row.load for row in rows}) > 1 else ()), _NAME, *_KEYS)
    return (
        section_of(
            "file-systems",
            "What each file system costs",
            (
                *names,
                *_costs(rows),
                *_times("to init x", "to_init_over_baseline", BOOT, "to_init"),
                *_times("cold read x", "cold_read_over_baseline", COLD, "read_time"),
            ),
            rows,
            keys=len(names) - len(_KEYS),
            notes=(
                "To init: from the mount until the shell of the root has printed a byte. Cold and warm read: of every file. Both from "
                "a device that answers each request after 100 us, without a limit of its rate. Memory: taken by mount and cold read, with "
                "the page cache; kept: after the kernel dropped its caches. Medians over the replicates.",
            ),
        ),
        section_of(
            "file-systems-devices",
            "Cold read from slower devices, computed",
            (
                *names,
                _median("processor", "busy_ns", COLD, "busy", "ns"),
                _median("read from it", "device_bytes", COLD, "device_bytes", "B"),
                _median("requests", "device_reads", COLD, "device_reads", "1"),
                *map(_computed, _RATES),
            ),
            rows,
            keys=len(names) - len(_KEYS),
            notes=(
                "Computed, not measured: the processor's time plus the bytes over the rate. A kernel that reads ahead while it "
                "decompresses is faster than that. On the virtual clock the processor's time is the number of instructions, "
                f"{context.experiment.ns_per_instruction} ns each.",
            ),
        ),
    )


FILE_SYSTEMS = Topic("fs", 65, sections, answer=answer)
