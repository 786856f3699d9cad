# SPDX-License-Identifier: MIT OR Apache-2.0
"""From an experiment to its variants and its ordered, seeded, blocked trials. When to stop is in `swapstone.core.plan.stopping`."""

from __future__ import annotations

import collections
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from swapstone.core.model import (
    BALANCED_ORDER,
    BOOT_ORDER,
    DIRECTION_RULES,
    EQUAL_EXTRA_RULES,
    Copy,
    Experiment,
    HeldVariant,
    Run,
    Status,
    Trial,
    Variant,
    cycle_of,
    shown_levels,
)

Group = tuple[str, str, str]
"""(suite, workload, load): measured on every variant within one block."""

WORK_NS = 80_000_000
"""How long a trial's work should take on the baseline: within the 50 to 150 ms for which noise was measured (docs/statistics.md)."""

GIVE_UP_AFTER = 3
"""After so many failures and no success on one variant a workload is not run on it again: see `gives_up`."""


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """Expand an experiment's factors into every combination of their levels.

    Args:
        experiment: with at least one factor.

    Returns:
        The baseline (the first level of each factor) first, then its null copies if the experiment has them, then the others in
        the order of the factors' levels.
    """
    names = [choice.factor for choice in experiment.factors]
    known = [shown_levels(choice.levels) for choice in experiment.factors]
    combinations = zip(
        itertools.product(*(choice.levels for choice in experiment.factors)), itertools.product(*known), strict=True
    )
    first, *others = (
        Variant(levels=tuple(zip(names, levels, strict=True)), shown=shown if shown != levels else ())
        for levels, shown in combinations
    )
    # On the virtual clock the same program gives the same run: only the relinked copy can differ.
    # A user's own program is linked by the user's build command, so it has no relinked copy.
    available = {Copy.AGAIN: not experiment.virtual, Copy.RELINKED: experiment.own is None}
    copies = [copy for copy, possible in available.items() if possible]
    nulls = [msgspec.structs.replace(first, copy=copy) for copy in copies] if experiment.null else []
    return (first, *nulls, *others)


def run_variants(experiment: Experiment) -> tuple[Variant, ...]:
    """Return the variants with the levels that are held, for building and running."""
    held = experiment.held
    return tuple(
        HeldVariant(levels=each.levels, copy=each.copy, shown=each.shown, held=held) for each in variants(experiment)
    )


def groups(experiment: Experiment) -> tuple[Group, ...]:
    """Return every (suite, workload, load) of an experiment, in its order."""
    return tuple((suite, workload, load) for suite, workload in experiment.workloads for load in experiment.loads)


def block(
    experiment: Experiment, index: int, still_open: Iterable[Group], discarded: Mapping[Group, int] | None = None
) -> tuple[Trial, ...]:
    """Return one block: each open group holds each variant once, in random order, without one that an earlier session measured.

    The variants of one group follow each other directly, so that a pair runs in the same state of the machine. In `BOOT_ORDER` the groups
    of one variant do, in one order for all variants: a boot takes longer than trials, and is what varies. Every order is a function of the
    seed, the block and the group alone. So closing a group does not change the order of the others, and a resumed experiment continues
    with the same plan.

    Args:
        experiment: gives the seed, the variants and the kind of order.
        index: number of the block; 0 is the warm-up.
        still_open: the open groups.
        discarded: how many runs of the same variant precede each measured run directly, by group, beside `extra_runs`; 0 for groups that
            it does not have.

    Returns:
        The trials in the order in which they run.
    """
    labels = [variant.label for variant in variants(experiment) if variant.label != experiment.earlier]
    ordered = sorted(still_open, key=lambda group: _rank(experiment.seed, index, *group))
    if experiment.order == BOOT_ORDER:
        booted = sorted(labels, key=lambda label: _rank(experiment.seed, index, "boot", label))
        pairs = [(group, label) for label in booted for group in ordered]
    else:
        pairs = [(group, label) for group in ordered for label in _order(experiment, index, group, labels)]
    runs: list[tuple[Group, str, int, int]] = []
    for group, label in pairs:
        number = (discarded or {}).get(group, 0)
        runs += [
            (group, label, number, extra) for extra in range(extra_runs(experiment, index, group, label, number), 0, -1)
        ]
        runs += [(group, label, before, 0) for before in range(number, -1, -1)]
    return tuple(
        Trial(
            suite=suite,
            workload=workload,
            load=load,
            variant=label,
            block=index,
            position=at,
            prime=before,
            extra=extra,
        )
        for at, ((suite, workload, load), label, before, extra) in enumerate(runs)
    )


_EXTRA = (0, 0, 0, 0, 1, 1, 2)
"""Each number is half as likely as the one before."""


def extra_runs(experiment: Experiment, index: int, group: Group, label: str, discarded: int) -> int:
    """Return how many runs of a variant are discarded in a block beside `discarded`: 0 to 2, at random by the seed.

    With a constant number the measured runs are each n-th run of a program, and what happens periodically is always among them, or never.
    With another number for each variant (rules before `EQUAL_EXTRA_RULES`) one has more runs than the other, and what each run adds to
    a log makes it slower. Where no run is discarded nothing is hidden, so there are none; nor by rules before `DIRECTION_RULES`.
    """
    if not discarded or experiment.rules < DIRECTION_RULES:
        return 0
    drawn_for = group if experiment.rules >= EQUAL_EXTRA_RULES else (*group, label)
    return _EXTRA[int.from_bytes(_rank(experiment.seed, index, "extra", *drawn_for)[:8]) % len(_EXTRA)]


def runs_each(experiment: Experiment, discarded: int) -> float:
    """Return how many runs are made for a measured one on average, with itself, if so many are discarded."""
    extra = sum(_EXTRA) / len(_EXTRA) if discarded and experiment.rules >= DIRECTION_RULES else 0.0
    return 1 + discarded + extra


def _order(experiment: Experiment, index: int, group: Group, labels: Sequence[str]) -> list[str]:
    """Return the order of a group's variants in a block."""
    if experiment.order != BALANCED_ORDER or index == 0:
        return sorted(labels, key=lambda label: _rank(experiment.seed, index, *group, label))
    cycle, turn = cycle_of(index, len(labels))
    named = sorted(labels, key=lambda label: _rank(experiment.seed, "cycle", cycle, *group, label))
    rows = williams_square(len(labels))
    row = sorted(range(len(rows)), key=lambda number: _rank(experiment.seed, "row", cycle, *group, number))[turn]
    return [named[number] for number in rows[row]]


def williams_square(count: int) -> tuple[tuple[int, ...], ...]:
    """Return orders of `count` treatments in which each is directly preceded by each other one equally often.

    Williams (1949), Experimental designs balanced for the estimation of residual effects of treatments. The first row of an even number
    is 0, 1, n - 1, 2, n - 2, ...; each further row adds 1 modulo n. Of an odd number there are the mirrored rows too.

    Args:
        count: of treatments, at least 2.

    Returns:
        `count` rows, or twice as many for an odd number. Each treatment is equally often in each position.
    """
    first = [0]
    for step in range(1, count):
        first.append((step + 1) // 2 if step % 2 else count - step // 2)
    rows = [tuple((each + shift) % count for each in first) for shift in range(count)]
    return tuple(rows if count % 2 == 0 else [*rows, *(row[::-1] for row in rows)])


Place = tuple[str, str, str, str]
"""(suite, workload, load, label of the variant)"""


def gives_up(experiment: Experiment, ended: Mapping[Status, int]) -> bool:
    """Return whether a variant is not run again on a workload: its first runs all failed, or several were refused.

    While any run succeeds, failures are a result: their rate is measured. A refused run makes its comparison invalid whatever follows.

    Args:
        experiment: by `Experiment.failures_count`, of records before 0.2 any `GIVE_UP_AFTER` failed or refused runs suffice.
        ended: number of its runs so far, by status.
    """
    bad = sum(number for status, number in ended.items() if status is not Status.OK)
    if bad < GIVE_UP_AFTER:
        return False
    if not experiment.failures_count:
        return True
    return not ended.get(Status.OK) or ended.get(Status.REFUSED, 0) >= GIVE_UP_AFTER


def given_up(experiment: Experiment, runs: Iterable[Run], block: int) -> frozenset[Place]:
    """Return the (suite, workload, load, variant) that failed or were refused too often up to a block: they are not run again.

    Args:
        experiment: that the runs are of.
        runs: of any blocks.
        block: runs of later ones are ignored.
    """
    ended: dict[Place, collections.Counter[Status]] = collections.defaultdict(collections.Counter)
    for run in runs:
        if run.trial.block <= block:
            ended[*run.trial.group, run.trial.variant][run.status] += 1
    return frozenset(place for place, counts in ended.items() if gives_up(experiment, counts))


def layout_seeds(experiment: Experiment, copy: Copy) -> tuple[str, ...]:
    """Return the seeds of an experiment's layouts: equal for all variants, but for the relinked copy, which has its own.

    Args:
        experiment: its seed and number of layouts.
        copy: of the variant.
    """
    which = "relinked" if copy is Copy.RELINKED else "layout"
    return tuple(_rank(experiment.seed, which, turn).hex()[:16] for turn in range(experiment.layouts))


def _rank(seed: int, *parts: object) -> bytes:
    """Return a pseudo-random sort key that depends on its arguments alone."""
    return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
