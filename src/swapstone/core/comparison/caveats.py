# SPDX-License-Identifier: MIT OR Apache-2.0
"""Caveats: properties of the runs that limit how far their comparisons can be relied on."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.machine_noise import TURNS_PERCENT
from swapstone.core.comparison.rows import ErrorRates, Family, Row
from swapstone.core.comparison.run_table import STATUSES, RunTable
from swapstone.core.model import (
    DECIDED,
    TAIL_RULES,
    UNKNOWN_THREADS,
    Caveat,
    CaveatKind,
    Comparison,
    Experiment,
    Noise,
    Quantity,
    Scale,
    Status,
    Verdict,
    named_first,
)
from swapstone.core.stats import SignedRank, binomial_tail, common_level, dependence_p_value, distinct

STEAL_PERCENT = 1.0
"""Stolen processor time above this is reported: 1 % is the smallest effect that users commonly look for."""

DEPENDENCE_RATE = 0.05
"""False discovery rate of the tests for serial dependence between neighbouring pairs."""

SURPRISE = 0.05
"""The null results are reported as unusual if as many families that differ have at most this probability."""


def caveats_of(
    experiment: Experiment,
    table: RunTable,
    rows: Sequence[Row],
    comparisons: Sequence[Comparison],
    noise: Noise,
    *,
    waits: Mapping[str, bool | None] = {},
    turns: Mapping[str, float | None] = {},
    needed: int = 0,
) -> tuple[Caveat, ...]:
    """Return every caveat that follows from the runs and their comparisons.

    Args:
        experiment: gives the confidence, and whether it has layouts.
        table: of all runs of the experiment.
        rows: those of `comparisons`, in the same order.
        comparisons: with verdicts.
        noise: how busy the machine was.
        waits: whether own programs wait, as `swapstone.core.comparison.machine_noise.observed_waits` has it.
        turns: how long threads wait for the machine's one processor, as `swapstone.core.comparison.machine_noise.observed_turns` has it.
        needed: pairs that an interval needs; 0 if unknown.
    """
    return (
        *_few_blocks(experiment, comparisons, needed),
        # Neither the load of the host nor the time of day can change a figure on the virtual clock.
        *(() if experiment.virtual else _noisy(experiment, noise, rows, comparisons, waits)),
        *_turns(turns),
        *_without_numbers(table),
        *_not_observed(experiment),
        # With layouts the values of a row are in the order of layouts, not of time.
        *(() if experiment.layouts or experiment.virtual else _dependent(rows)),
        *_nulls(rows, comparisons, ErrorRates(experiment)),
    )


def _few_blocks(experiment: Experiment, comparisons: Sequence[Comparison], needed: int) -> Iterator[Caveat]:
    few = [c for c in comparisons if c.verdict is Verdict.INCONCLUSIVE and c.low is None]
    if few:
        fewest = min(len(c.baseline_values) for c in few)
        least = f"; {needed} are needed" if needed > fewest else ""
        yield Caveat(
            kind=CaveatKind.FEW_BLOCKS,
            message=f"{len(few)} of {len(comparisons)} comparisons {'has' if len(few) == 1 else 'have'} too few pairs of "
            f"{'layouts' if experiment.layouts else 'replicates' if experiment.virtual else 'runs'} for a confidence interval "
            f"(the fewest: {fewest}{least}).",
            hint="Raise --layouts, or select fewer workloads with --only."
            if experiment.layouts
            else "Raise --budget, or select fewer workloads with --only.",
        )


def _noisy(
    experiment: Experiment,
    noise: Noise,
    rows: Sequence[Row],
    comparisons: Sequence[Comparison],
    waits: Mapping[str, bool | None],
) -> Iterator[Caveat]:
    # Work with several threads causes pressure itself. Whether it was disturbed is checked otherwise: see `processors`.
    relevant = experiment.rules < TAIL_RULES or any(
        row.workload.threads in (1, UNKNOWN_THREADS) for row in rows if row.metric.quantity is not Quantity.SIZE
    )
    if noise.busy and relevant:
        advice, remedy = "", "Stop other programs on this machine."
        if any(found.preferred and found.metric.name == "cpu" for found in comparisons):
            advice = " Read CPU time first, except for workloads that wait or need several processors."
            remedy = "Stop other programs on this machine, or compare CPU time of work that needs one processor."
        for known, text in ((True, "{} waits."), (None, "Whether {} waits, or lacked a processor, is not known.")):
            if names := [name for name, each in waits.items() if each is known]:
                advice += f" {text.format(named_first(names))}"
        yield Caveat(
            kind=CaveatKind.BUSY_MACHINE,
            message="The machine was busy: at the median, a task waited for a processor in "
            f"{noise.cpu_pressure_percent:.0f} % of a trial's time.{advice}",
            hint=remedy,
        )
    if noise.steal_percent is not None and noise.steal_percent >= STEAL_PERCENT:
        yield Caveat(
            kind=CaveatKind.STOLEN_TIME,
            message=f"The hypervisor took {noise.steal_percent:.1f} % of this machine's processor time (steal).",
            hint="Repeat the experiment at another time, or on a machine that is not shared.",
        )


def _turns(turns: Mapping[str, float | None]) -> Iterator[Caveat]:
    shared = {name: percent for name, percent in turns.items() if percent is not None and percent > TURNS_PERCENT}
    if shared:
        most = f"{'up to ' * (len(shared) > 1)}{max(shared.values()):.0f} %"
        yield Caveat(
            kind=CaveatKind.NOT_MEASURED,
            message=f"{named_first(list(shared))}: threads or processes take turns on the machine's one processor. One that could run "
            f"waited for it in {most} of a run's time. What they cost each other when they run at once, such as waiting for a lock, is "
            "not in these figures.",
            hint="Compare on the wall clock of a machine with several processors too, and both records with `swapstone agree`.",
        )
    if unknown := [name for name, percent in turns.items() if percent is None]:
        yield Caveat(
            kind=CaveatKind.NOT_MEASURED,
            message=f"{named_first(unknown)}: whether threads or processes take turns on the machine's one processor is not known, because "
            "its kernel has no /proc/pressure/cpu. What they would cost each other when they run at once is not in these figures.",
            hint="Use a kernel with CONFIG_PSI.",
        )


def _without_numbers(table: RunTable) -> Iterator[Caveat]:
    kinds = (
        (Status.FAILED, CaveatKind.FAILED_TRIALS, "failed", "Failed trials are excluded from the figures."),
        (Status.REFUSED, CaveatKind.REFUSED_TRIALS, "were refused", "Their comparisons are invalid."),
    )
    for status, kind, what, consequence in kinds:
        found = np.flatnonzero(table.status == STATUSES.index(status))
        if found.size:
            workloads = sorted({table.places[place][1] for place in distinct(table.place[found]).tolist()})
            yield Caveat(
                kind=kind,
                message=f"{found.size} of {len(table)} trials {what} ({named_first(workloads)}). {consequence}",
                hint="The report lists each of them with its reason.",
            )


def _not_observed(experiment: Experiment) -> Iterator[Caveat]:
    for name in experiment.unobserved:
        yield Caveat(
            kind=CaveatKind.NOT_OBSERVED,
            message=f"The level of {name} is not observed: no process receives it as an argument or a variable. Comparisons of its "
            "levels rely on the request alone.",
            hint=f"Let the program receive {name} too, for example with --env LEVEL={name}, or read the logs of the builds.",
        )


def _dependent(rows: Sequence[Row]) -> Iterator[Caveat]:
    """Test time rows for serial dependence. Their pairs are in order of time, and positive dependence makes intervals too narrow."""
    timed = [
        row
        for row in rows
        if isinstance(row.inference, SignedRank) and row.scale is Scale.RATIO and row.metric.unit == "ns"
    ]
    if not timed:
        return
    p_values = [dependence_p_value(np.log(row.after) - np.log(row.before)) for row in timed]
    alpha = common_level(p_values, DEPENDENCE_RATE)
    found = [row for row, p in zip(timed, p_values, strict=True) if p <= alpha]
    if found:
        names = [f"{row.group[1]} {row.metric.name}" for row in found]
        yield Caveat(
            kind=CaveatKind.DEPENDENT_RUNS,
            message=f"Neighbouring pairs are correlated in {len(found)} of {len(timed)} rows of times "
            f"({named_first(names)}): their intervals may be too narrow.",
            hint="Raise --budget, or repeat the experiment at another time and compare the verdicts.",
        )


def _nulls(rows: Sequence[Row], comparisons: Sequence[Comparison], rates: ErrorRates) -> Iterator[Caveat]:
    """Count families that differ, not rows: the rows of a family share their runs, and the correction is for a family."""
    differing: collections.Counter[Family] = collections.Counter()
    for row, found in zip(rows, comparisons, strict=True):
        if row.null and (isinstance(row.inference, SignedRank) or found.verdict in DECIDED):
            differing[rates.corrected(row.family)] += found.verdict in DECIDED
    hits, families = sum(1 for count in differing.values() if count), len(differing)
    if hits and binomial_tail(hits, families, rates.plain) <= SURPRISE:
        yield Caveat(
            kind=CaveatKind.NULL_DIFFERS,
            message=f"The baseline differs from its own copies in {hits} of {families} families of comparisons "
            f"({differing.total()} rows); about {100 * rates.plain:.3g} % of families would by chance. "
            "Effects as small as those are not reliable here.",
            hint="Read the null results of a workload before relying on its verdict. If only the relinked copy differs, the "
            "effect comes from where the linker places the code, and not from the level.",
        )
