# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did work that needs several processors have them?

Two threads that share a processor do not meet: locks are uncontended, allocators do not compete. So such work is slower, or faster, by
a factor that depends on the variant. Pairs of neighbouring runs do not cancel that, and processor time does not show it.

What the work could use in a run is its own processor time and the agent's (rusage), and the time in which processors were idle
(/proc/stat). What it lacked of the processors that it needs is the rest: other processes or the hypervisor used them. It is a rate, in
processors, so it does not depend on how long a variant takes. What the work's own threads wait for each other is not in it.

The kernel does a part of the work in threads of its own, above all ksoftirqd: what threads and processes leave behind is freed there. That
time is no disturbance, and it is not in the rusage. So a share of the work's own system time is added to what it could use.

The kernel measures idle time exactly and shows it in ticks of 10 ms, which truncates both readings. (It does so unless it is booted with
nohz=off.) The difference of two truncated numbers has a standard deviation of 0.41 ticks, and the sum over m runs that of m ** 0.5 times as
much. A single run of 50 ms would be wrong by a tenth of a processor. So neighbouring blocks are judged together: as many as make five
standard deviations smaller than the limit.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from swapstone.core.comparison.cells import Group
from swapstone.core.comparison.machine_noise import AT_ONCE, START_NS, TICK_NS
from swapstone.core.comparison.rows import Findings, Place
from swapstone.core.comparison.run_table import (
    OK,
    RunTable,
    by_number,
    exact_sum,
    quotients,
)
from swapstone.core.model import (
    ALL_PROCESSORS,
    IDLE,
    TAIL_RULES,
    UNKNOWN_THREADS,
    Caveat,
    CaveatKind,
    Cpus,
    Experiment,
    Metric,
    Quantity,
    Variant,
    Verdict,
    WorkSpec,
    named_first,
)
from swapstone.core.plan.stopping import pairs_needed
from swapstone.core.stats import Ints, Mask, median

LIMIT = 0.05
"""A block is disturbed if the work lacked more than this share of the processors that it needs: a tenth of one processor of two. If
it lacks them in both variants alike, their times change by about as much; that half of it does not cancel is a small effect."""

TICK_S = TICK_NS / 1e9

TRUNCATION_S = TICK_S / math.sqrt(6)
"""Standard deviation of the difference of two truncated numbers: each is uniform over a tick, with variance 1/12."""

DEVIATIONS = 5.0
"""A share is known if the limit is this many standard deviations of the error by ticks. That leaves room for what a quiet machine's
own services use: with 2 % of a processor the limit is exceeded by chance in 1 of 30000 cases."""

KERNEL_SHARE = 0.2
"""Time of kernel threads on behalf of the work, as a share of its system time. Measured on Linux 6.18, x86-64, over the time without
the work: 5 to 17 % for works that create threads, with glibc and musl, and below 10 % for others that use the kernel much."""

_LARGEST = 2**53
"""Larger numbers of a record are no measurements."""

_FACTS = {
    **dict.fromkeys(("cpu_ticks", "idle_ticks", "trial_cpu_us", "ticks_ns", "wall_ns")),
    "cpus_allowed": 1,
    **dict.fromkeys(("user_us", "system_us", "driver_system_us", "steal_ticks", "psi_cpu_us"), 0),
}
"""The facts that are read, with the value for runs that lack them; None where a run without it is not judged."""

OF_ONE_PROCESSOR = ("cpu", "user_cpu", "system_cpu", "requests_per_cpu_s")
"""Metrics of processor time. In work that is pinned to one processor they don't depend on other processes as elapsed time does."""


class ProcessorUse(msgspec.Struct, frozen=True):
    """What the processors did during some runs, in seconds.

    Attributes:
        runs: how many.
        window_s: elapsed time.
        usable_s: processor time of the trial's processes, of the agent and of the kernel for the work, and idle time.
        steal_s: processor time taken by the hypervisor.
    """

    runs: int
    window_s: float
    usable_s: float
    steal_s: float

    def __add__(self, other: ProcessorUse) -> ProcessorUse:
        return ProcessorUse(
            self.runs + other.runs,
            self.window_s + other.window_s,
            self.usable_s + other.usable_s,
            self.steal_s + other.steal_s,
        )

    @property
    def usable(self) -> float:
        """Return how many processors the work could use, on average."""
        return self.usable_s / self.window_s

    @property
    def error(self) -> float:
        """Return the standard deviation of `usable` by ticks."""
        return math.sqrt(self.runs) * TRUNCATION_S / self.window_s


_NOTHING = ProcessorUse(0, 0.0, 0.0, 0.0)


class Disturbance(msgspec.Struct, frozen=True):
    """How often a workload lacked processors under a load.

    Attributes:
        blocks: number of blocks of which that is known.
        disturbed: numbers of the blocks in which it lacked more than `LIMIT`.
        needed: number of processors that it needs.
        processors: number of processors of the machine.
        used: how many processors other processes and the hypervisor used in a disturbed block: the median. 0 if there is none.
        stolen: whether the hypervisor took a tenth or more of that.
    """

    blocks: int
    disturbed: frozenset[int]
    needed: int
    processors: int
    used: float
    stolen: bool

    @property
    def mostly(self) -> bool:
        """Return whether more than half of the blocks are disturbed."""
        return 2 * len(self.disturbed) > self.blocks

    @property
    def reason(self) -> str:
        """Return what happened, e.g. ``in 38 of 40 blocks other processes used 0.6 of the 2 processors``."""
        who = "other processes and the hypervisor" if self.stolen else "other processes"
        spare = f", of which the work needs {self.needed}" if self.needed < self.processors else ""
        return (
            f"in {len(self.disturbed)} of {self.blocks} blocks {who} used {self.used:.1f} of the {self.processors} "
            f"processors{spare}"
        )


def disturbances(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable
) -> dict[Group, Disturbance]:
    """Return the disturbance of each workload that needs several processors, under the load ``idle``.

    The runs that are discarded before each measured one are part of its block. A load that Swapstone generates belongs to what is
    measured. On the virtual clock other processes don't matter. Workloads without
    the facts, as in records before 0.2, are left out.
    """
    if experiment.virtual or experiment.rules < TAIL_RULES:
        return {}
    wanted = [load == IDLE.name and workloads[workload].threads != 1 for _, workload, load in table.groups]
    if not any(wanted):
        return {}
    rows = np.flatnonzero(np.array(wanted, dtype=np.bool_)[table.group] & table.counted)
    found = {
        table.groups[group]: _disturbance(workloads[table.groups[group][1]], table, rows[mine])
        for group, mine in by_number(table.group[rows])
    }
    return {group: each for group, each in found.items() if each is not None}


def undisturbed(
    experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable, *, keep_lost: bool = False
) -> RunTable:
    """Return the runs without the values of disturbed blocks that depend on processors.

    Both sides of a pair leave with their block. All blocks of a workload leave if most are disturbed.

    Args:
        experiment: that the runs are of.
        workloads: by name.
        table: of all runs.
        keep_lost: keep all values of workloads that get no verdict for it: they are printed.
    """
    metrics = dict(table.metrics)
    for group, each in disturbances(experiment, workloads, table).items():
        affected = {metric.name for metric in _affected(workloads[group[1]])} & metrics.keys()
        rows = table.group == table.groups.index(group)
        if not each.mostly:
            rows &= _is_in(table, each.disturbed)
        if rows.any() and not (keep_lost and _why_lost(experiment, each)):
            metrics |= {name: np.where(rows, np.nan, metrics[name]) for name in affected}
    return msgspec.structs.replace(table, metrics=metrics)


def without_disturbed_blocks(experiment: Experiment, workloads: Mapping[str, WorkSpec], table: RunTable) -> RunTable:
    """Return the runs without those of disturbed blocks: what the precision of an unfinished experiment follows from."""
    kept = np.ones(len(table), dtype=np.bool_)
    for group, each in disturbances(experiment, workloads, table).items():
        kept &= (table.group != table.groups.index(group)) | ~_is_in(table, each.disturbed)
    return table if kept.all() else table.rows(kept)


def _is_in(table: RunTable, blocks: frozenset[int]) -> Mask:
    return np.isin(table.block, np.array(sorted(blocks), dtype=np.int64))


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Check it for every row; arguments as `swapstone.core.comparison.checks.check`.

    A row is `Verdict.DISTURBED` if most of its blocks are, or if too few others are left for an interval. It keeps its values.
    """
    found = {group: each for group, each in disturbances(experiment, workloads, table).items() if each.disturbed}
    excluded: dict[Place, tuple[Verdict, str]] = {}
    for group, each in found.items():
        if reason := _why_lost(experiment, each):
            for metric, variant in itertools.product(_affected(workloads[group[1]]), variants):
                excluded[group, variant.label, metric.name] = Verdict.DISTURBED, reason
    lost = sorted({group for group, _, _ in excluded})
    return Findings(excluded=excluded, caveats=tuple(_caveats(found, lost)))


def _why_lost(experiment: Experiment, each: Disturbance) -> str:
    """Return why a workload gets no verdict; empty if it gets one."""
    left = each.blocks - len(each.disturbed)
    if each.mostly or left >= pairs_needed(1 - experiment.confidence) or not each.disturbed:
        return each.reason if each.mostly else ""
    return f"{each.reason}, and {left} undisturbed blocks are too few"


def _caveats(found: Mapping[Group, Disturbance], lost: Sequence[Group]) -> Iterator[Caveat]:
    if not found:
        return
    partly = [group for group in found if group not in lost]
    texts = []
    if lost:
        texts.append(f"{named_first([name for _, name, _ in lost])}: no verdict, because {found[lost[0]].reason}.")
    if partly:
        blocks = sum(len(found[group].disturbed) for group in partly)
        texts.append(
            f"{named_first([name for _, name, _ in partly])}: {blocks} disturbed block{'s' * (blocks != 1)} left out."
        )
    yield Caveat(
        kind=CaveatKind.DISTURBED_RUNS,
        message="Work that needs several processors did not always have them. " + " ".join(texts),
        hint="Stop other programs on this machine and repeat the experiment with `swapstone rerun`. CPU time depends on the "
        "other processes too.",
    )


def _affected(workload: WorkSpec) -> list[Metric]:
    """Return the metrics that depend on how many processors the work has."""
    pinned = workload.cpus is Cpus.ONE
    return [
        metric
        for metric in workload.metrics
        if metric.quantity in (Quantity.TIME, Quantity.RATE, Quantity.EVENTS)
        and not (pinned and (metric.name in OF_ONE_PROCESSOR or metric.name.endswith("_per_request")))
    ]


def _disturbance(workload: WorkSpec, table: RunTable, rows: Ints) -> Disturbance | None:
    facts = _facts(table, rows)
    if not facts["block"].size:
        return None
    allowed = max(1, int(facts["cpus_allowed"].max()))
    processors = _processors(allowed, facts)
    # Work that is pinned to one processor has a load generator on the others.
    needed = _needed(workload, allowed if workload.cpus is Cpus.ALL else processors, facts)
    if needed == 1:
        return None
    used = _used(facts)
    together = {
        block: total
        for members in neighbours(used, needed)
        for total in (sum((used[each] for each in members), _NOTHING),)
        for block in members
    }
    lacking = [
        block
        for block, alone in used.items()
        if lacks_processors(together[block], needed, known=True) or lacks_processors(alone, needed, known=False)
    ]
    taken_s = sum(processors * used[block].window_s - used[block].usable_s for block in lacking)
    return Disturbance(
        blocks=len(used),
        disturbed=frozenset(lacking),
        needed=needed,
        processors=processors,
        used=max(0.0, statistics.median(processors - used[block].usable for block in lacking)) if lacking else 0.0,
        stolen=sum(used[block].steal_s for block in lacking) > 0.1 * max(0.0, taken_s),
    )


def _facts(table: RunTable, rows: Ints) -> dict[str, Ints]:
    """Return the block of each successful run that has the facts of `_FACTS` which are needed, and the facts; each of shape (runs,)."""
    rows = rows[table.status[rows] == OK]
    columns, kept = {"block": table.block[rows]}, np.ones(rows.size, dtype=np.bool_)
    for name, otherwise in _FACTS.items():
        column = table.fact(name)[rows]
        known = (column >= 0) & (column < _LARGEST)
        kept &= known | (otherwise is not None)
        columns[name] = np.where(known, column, otherwise or 0)
    kept &= (columns["ticks_ns"] > 0) & (columns["wall_ns"] > 0)
    return {name: column[kept] for name, column in columns.items()}


def _used(facts: Mapping[str, Ints]) -> dict[int, ProcessorUse]:
    """Return the use of each block, in the order of its first run."""
    system_us = facts["system_us"] + facts["driver_system_us"]
    window_s = facts["ticks_ns"] / 1e9
    usable_s = (facts["trial_cpu_us"] + KERNEL_SHARE * system_us) / 1e6 + facts["idle_ticks"] * TICK_S
    steal_s = facts["steal_ticks"] * TICK_S
    blocks, first, number = np.unique(facts["block"], return_index=True, return_inverse=True)
    number = number.reshape(-1)
    sums = [np.bincount(number, each).tolist() for each in (window_s, usable_s, steal_s)]
    runs, names = np.bincount(number).tolist(), blocks.tolist()
    return {
        names[each]: ProcessorUse(runs[each], sums[0][each], sums[1][each], sums[2][each])
        for each in np.argsort(first).tolist()
    }


def _processors(allowed: int, facts: Mapping[str, Ints]) -> int:
    """Return the number of processors of the machine: all that a process may use, or many more if /proc/stat counts those.

    It does where a process may use a part of the processors only. Other processes are then assumed to use the rest first.
    """
    counted = exact_sum(facts["cpu_ticks"]) * TICK_S / (exact_sum(facts["ticks_ns"]) / 1e9)
    return round(counted) if counted > 1.5 * allowed else allowed


def _needed(workload: WorkSpec, processors: int, facts: Mapping[str, Ints]) -> int:
    """Return how many of the processors the work needs.

    Of a program whose threads are not declared: as many as it used at once in any run of either side. A program with several threads
    does not do that if other processes always compete with it. Then it uses a whole processor although tasks are waiting for one; a
    program with one thread would get less.
    """
    if workload.threads == ALL_PROCESSORS:
        return processors
    if workload.threads != UNKNOWN_THREADS:
        return min(workload.threads, processors)
    wall_ns = facts["wall_ns"]
    # Processor times of more than 2 ** 52 us are no measurements either.
    used_us = np.minimum(facts["user_us"] + facts["system_us"], 2**52)
    rates = quotients(np.maximum(0, 1000 * used_us - START_NS), wall_ns)
    most = float(rates.max())
    if most > AT_ONCE:
        return min(processors, math.ceil(most - (AT_ONCE - 1)))
    waiting = quotients(facts["psi_cpu_us"], wall_ns, 1000)
    competes = median(rates) > 0.9 and median(waiting) > 0.5
    return min(processors, 2) if competes else 1


def neighbours(used: Mapping[int, ProcessorUse], needed: int) -> list[list[int]]:
    """Divide the blocks into groups of neighbours whose share is known to a fifth of the limit; the last may be longer.

    Args:
        used: the use by number of the block.
        needed: number of processors that the work needs.

    Returns:
        Numbers of blocks, ascending.
    """
    groups: list[list[int]] = []
    members: list[int] = []
    total = _NOTHING
    for block in sorted(used):
        members.append(block)
        total += used[block]
        if DEVIATIONS * total.error <= LIMIT * needed:
            groups.append(members)
            members, total = [], _NOTHING
    if members and groups:
        groups[-1] += members
    elif members:
        groups.append(members)
    return groups


def lacks_processors(use: ProcessorUse, needed: int, *, known: bool) -> bool:
    """Return whether the work lacked processors.

    Args:
        use: of the runs.
        needed: number of processors.
        known: whether these are all runs that can be judged together. Otherwise the share must exceed the limit by the error of ticks.
    """
    limit, error = LIMIT * needed, DEVIATIONS * use.error
    return needed - use.usable > (max(limit, error) if known else limit + error)
